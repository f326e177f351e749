"""Pictures as PNG, pixel by pixel: for what shows no SVG, such as mail.

The font is the library's own, so that pictures are the same on every machine. It has the letters of ASCII; all others
are written as in the link's address, `ü` as `%C3%BC`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from io import BytesIO
from urllib.parse import quote

from PIL import Image, ImageDraw, ImageFont

from dashboard.pictures.shapes import LIGHT, THEMES, Box, Label, Line, Look, Picture, Shape, Trace

_LETTERS = "".join(map(chr, range(32, 127))) + "…"
_DASH, _GAP = 3, 2  # pixels of a dashed edge
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}  # left, middle or right of the baseline
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def png_file(picture: Picture, theme: str, scale: float = 1.0) -> bytes:
    """Draws a picture as PNG, `scale` times as large as it says. A theme that is not known is light: paper is."""
    looks = THEMES.get(theme, LIGHT)
    size = round(picture.width * scale), round(picture.height * scale)
    image = Image.new("RGB", size, looks["paper"].fill)
    pen = _Pen(ImageDraw.Draw(image), looks, scale, round(picture.gutter * scale), size[0])
    for shape in picture.shapes:
        pen.draw(shape)
    file = BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


class _Pen:
    """Draws shapes on an image."""

    def __init__(
        self, draw: ImageDraw.ImageDraw, looks: Mapping[str, Look], scale: float, gutter: int, width: int
    ) -> None:
        self._draw, self._looks, self._scale, self._gutter, self._width = draw, looks, scale, gutter, width

    def draw(self, shape: Shape) -> None:
        look = self._looks[shape.part.partition(" ")[0]]
        match shape:
            case Box(_, left, top, right, bottom):
                self._box(look, self._across(left), self._down(top), self._across(right), self._down(bottom))
            case Line(_, y):
                at = self._down(y)
                self._draw.rectangle((self._gutter, at, self._width, at + max(0, round(self._scale) - 1)), look.fill)
            case Label(_, x, y, text, anchor, shift):
                place = (self._across(x) + shift * self._scale, self._down(y))
                font = _font(look.size * self._scale)
                written = "".join(sign if sign in _LETTERS else quote(sign) for sign in text)
                self._draw.text(place, written, look.fill, font, _ANCHORS[anchor])
            case Trace(_, places):
                points = [(self._across(x), self._down(y)) for x, y in places]
                self._draw.line(points, look.edge, max(1, round(self._scale)))

    def _box(self, look: Look, left: int, top: int, right: int, bottom: int) -> None:
        # The last row and column that are filled: a box of no width is one pixel wide.
        right, bottom = max(left, right - 1), max(top, bottom - 1)
        self._draw.rectangle((left, top, right, bottom), look.fill)
        if not look.edge:
            return
        if not look.dashed:
            self._draw.rectangle((left, top, right, bottom), outline=look.edge)
            return
        for dash in _dashes(left, top, right, bottom):
            self._draw.line(dash, look.edge)

    def _across(self, part: float) -> int:
        return self._gutter + round(part * (self._width - self._gutter))

    def _down(self, pixels: float) -> int:
        return round(pixels * self._scale)


def _dashes(left: int, top: int, right: int, bottom: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields the dashes along the four edges of a box."""
    for at in range(left, right + 1, _DASH + _GAP):
        until = min(at + _DASH - 1, right)
        yield from ((at, y, until, y) for y in (top, bottom))
    for at in range(top, bottom + 1, _DASH + _GAP):
        until = min(at + _DASH - 1, bottom)
        yield from ((x, at, x, until) for x in (left, right))


@cache
def _font(size: float) -> Font:
    return ImageFont.load_default(size)
