"""How each part of a picture looks, by theme: one place for stylesheets of pictures and for pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """fill and edge are colours, or empty; dashed: the edge is; size and bold are of text."""

    fill: str = ""
    edge: str = ""
    dashed: bool = False
    size: int = 12
    bold: bool = False


LIGHT: Mapping[str, Look] = {
    "paper": Look("#ffffff"),
    "grid": Look("#e3e6ea"),
    "base": Look("#8a929c"),
    "early": Look("#f1f3f5"),
    "ahead": Look("#f1f3f5"),
    "bar": Look("#2563c9"),
    "partial": Look("#bcd2f3", "#2563c9"),
    "open": Look("#e6effb", "#2563c9", dashed=True),
    "earlier": Look("none", "#1b1f24", dashed=True),
    "label": Look("#59626d"),
    "title": Look("#1b1f24", size=16, bold=True),
    "said": Look("#59626d", size=13),
}
DARK: Mapping[str, Look] = {
    "paper": Look("#15181c"),
    "grid": Look("#2b3138"),
    "base": Look("#78828d"),
    "early": Look("#1e2328"),
    "ahead": Look("#1e2328"),
    "bar": Look("#6aa5f8"),
    "partial": Look("#27446e", "#6aa5f8"),
    "open": Look("#1d2d45", "#6aa5f8", dashed=True),
    "earlier": Look("none", "#eef1f4", dashed=True),
    "label": Look("#a3adb8"),
    "title": Look("#eef1f4", size=16, bold=True),
    "said": Look("#a3adb8", size=13),
}
THEMES: Mapping[str, Mapping[str, Look]] = {"light": LIGHT, "dark": DARK}
