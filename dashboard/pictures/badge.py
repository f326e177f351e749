"""A total as a badge: a small picture of two fields, and the JSON that badge services read."""

from __future__ import annotations

from collections.abc import Callable
from xml.sax.saxutils import escape, quoteattr

from clickcurve.answers.counts import TotalAnswer
from clickcurve.answers.written import as_json
from clickcurve.visible import visible
from dashboard.pictures.axes import short

LABEL = "clicks"
CACHE_S = 300
_COLOUR = "blue"
_HEIGHT = 20
_MARGIN = 7
_NARROW, _WIDE, _USUAL = frozenset("fijlrt.,:;!|'()[] 1I"), frozenset("mwMW@%&"), 6.6


def message_of(total: TotalAnswer, shown: Callable[[int], str] = short) -> str:
    """Writes a total as it is shown, in short; with both its bounds where they do not meet."""
    least, most = shown(total.at_least), shown(total.at_most)
    return most if least == most else f"{least}-{most}"


def badge_json(message: str, label: str) -> bytes:
    """Returns a badge as the endpoint of shields.io has it."""
    badge = {"schemaVersion": 1, "label": label, "message": message, "color": _COLOUR}
    return as_json({**badge, "cacheSeconds": CACHE_S})


def badge_svg(message: str, label: str) -> bytes:
    """Draws a badge. Each field is told how long its text is, so that every font fits."""
    label = visible(label)
    left, right = _text_width(label) + 2 * _MARGIN, _text_width(message) + 2 * _MARGIN
    text = f"{label}: {message}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" role="img" '
        f"aria-label={quoteattr(text)}><title>{escape(text)}</title>"
        f'<clipPath id="r"><rect width="{left + right}" height="{_HEIGHT}" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="{_HEIGHT}" fill="#444b53"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="#1f5fbf"/></g>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f"{_text(label, _MARGIN)}{_text(message, left + _MARGIN)}</g></svg>"
    ).encode()


def _text(text: str, x: int) -> str:
    return f'<text x="{x}" y="14" textLength="{_text_width(text)}">{escape(text)}</text>' if text else ""


def _text_width(text: str) -> int:
    """Returns about how many pixels a text takes."""
    return round(sum(4 if sign in _NARROW else 10 if sign in _WIDE or ord(sign) > 0x2E80 else _USUAL for sign in text))
