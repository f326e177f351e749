"""The shapes that a picture is made of, and how they look. Each names its part, which has a look in each theme.

Across, places are parts of the plot's width, 0 to 1, right of a gutter in pixels; down, they are pixels. So one picture
fills whatever width a page has, and its text keeps its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Box:
    """A filled box from (left, top) to (right, bottom)."""

    part: str
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Line:
    """A thin level line."""

    part: str
    y: float


@dataclass(frozen=True, slots=True)
class Label:
    """One line of text at a baseline. anchor: start, middle or end; shift: pixels to the right."""

    part: str
    x: float
    y: float
    text: str
    anchor: str = "start"
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """A line from place to place, each (across, down)."""

    part: str
    places: tuple[tuple[float, float], ...]


Shape: TypeAlias = Box | Line | Label | Trace


@dataclass(frozen=True, slots=True)
class Picture:
    """Shapes from back to front. sentence: what the picture shows; gutter: pixels left of the plot."""

    width: int
    height: int
    sentence: str
    shapes: tuple[Shape, ...]
    gutter: int = 0


# --- how parts look: for stylesheets of pictures and for pixels -------------------------------------------------------
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
    "weekend": Look("#f5f7f9"),
    "early": Look("#eceff2"),
    "ahead": Look("#eceff2"),
    "bar": Look("#3a78dc"),
    "partial": Look("#bcd2f3", "#3a78dc"),
    "open": Look("#e6effb", "#3a78dc", dashed=True),
    "earlier": Look("none", "#3c4650", dashed=True),
    "note": Look("#b3541e"),
    "label": Look("#59626d"),
    "title": Look("#1b1f24", size=16, bold=True),
    "said": Look("#59626d", size=13),
}
DARK: Mapping[str, Look] = {
    "paper": Look("#15181c"),
    "grid": Look("#2b3138"),
    "base": Look("#78828d"),
    "weekend": Look("#1b2026"),
    "early": Look("#22282f"),
    "ahead": Look("#22282f"),
    "bar": Look("#5a94e8"),
    "partial": Look("#27446e", "#5a94e8"),
    "open": Look("#1d2d45", "#5a94e8", dashed=True),
    "earlier": Look("none", "#c3ccd6", dashed=True),
    "note": Look("#f0a36b"),
    "label": Look("#a3adb8"),
    "title": Look("#eef1f4", size=16, bold=True),
    "said": Look("#a3adb8", size=13),
}
THEMES: Mapping[str, Mapping[str, Look]] = {"light": LIGHT, "dark": DARK}
