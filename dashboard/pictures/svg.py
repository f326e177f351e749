"""Pictures as SVG: for a file of its own, with its colours in it, or for a page, whose stylesheet has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from dashboard.pictures.shapes import DARK, LIGHT, THEMES, Box, Label, Line, Look, Picture, Shape, Trace

AUTO = "auto"
_UNITS = 4  # of a path across, for a pixel: bars are as wide as each other to a quarter of one
# Of the file alone: nothing may be fetched or run by it.
CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors *"


def svg_file(picture: Picture, theme: str) -> bytes:
    """Writes a picture as an SVG file. theme: light, dark, or auto, which follows the reader's screen."""
    width, height = picture.width, picture.height
    style = styles(LIGHT if theme == AUTO else THEMES[theme])
    if theme == AUTO:
        style += f"@media(prefers-color-scheme:dark){{{styles(DARK)}}}"
    plot = width - picture.gutter
    body = "".join(_element(shape, lambda x: _px(x * plot)) for shape in picture.shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label={quoteattr(picture.sentence)}><title>{escape(picture.sentence)}</title>'
        f"<style>text{{font:12px system-ui,sans-serif}}{style}</style>"
        f'<rect class="paper" width="{width}" height="{height}"/>'
        f'<g transform="translate({picture.gutter})">{body}</g></svg>'
    ).encode()


def svg_inline(picture: Picture, name: str) -> str:
    """Writes a picture for a page, as wide as its place there. `name` is its class; without words it is hidden."""
    role = f"role=img aria-label={quoteattr(picture.sentence)}" if picture.sentence else "aria-hidden=true"
    body = "".join(_inline(part, list(run), picture) for part, run in groupby(picture.shapes, _part_of_box))
    return f'<svg class={name} {role} width="100%" height="{picture.height}">{body}</svg>'


def _part_of_box(shape: Shape) -> str:
    """Returns the part of a box without an edge, empty for every other shape."""
    return shape.part if isinstance(shape, Box) and not LIGHT[shape.part].edge else ""


def _inline(part: str, run: Sequence[Shape], picture: Picture) -> str:
    """Writes shapes for a page; boxes of one part as one path, which takes a fifth of the bytes."""
    boxes = [shape for shape in run if isinstance(shape, Box) and part]
    if len(boxes) < 2 or len({box.bottom for box in boxes}) > 1:
        return "".join(_element(shape, _percent) for shape in run)
    # As of a Trace: a view of its own, stretched across the plot.
    wide, low = _UNITS * picture.width, _px(boxes[0].bottom)
    path = "".join(f"H{box.left * wide:.0f}V{_px(box.top)}H{box.right * wide:.0f}V{low}" for box in boxes)
    view = f'width="100%" height="{low}" viewBox="0 0 {wide} {low}" preserveAspectRatio="none"'
    return f'<svg {view}><path class="{part}" d="M0 {low}{path}"/></svg>'


def styles(looks: Mapping[str, Look]) -> str:
    """Writes the looks of all parts as a stylesheet."""
    return "".join(_style(part, look) for part, look in looks.items())


def _style(part: str, look: Look) -> str:
    rules = [f"fill:{look.fill}"]
    if look.edge:
        rules.append(f"stroke:{look.edge};stroke-width:1")
    if look.dashed:
        rules.append("stroke-dasharray:3 2")
    if look.size != 12 or look.bold:
        rules.append(f"font-size:{look.size}px{';font-weight:600' if look.bold else ''}")
    return f".{part}{{{';'.join(rules)}}}"


def _element(shape: Shape, across: Callable[[float], str]) -> str:
    match shape:
        case Box(part, left, top, right, bottom):
            size = f'width="{across(right - left)}" height="{_px(bottom - top)}"'
            return f'<rect class="{part}" x="{across(left)}" y="{_px(top)}" {size}/>'
        case Line(part, y):
            return f'<rect class="{part}" x="0" y="{_px(y - 0.5)}" width="{across(1)}" height="1"/>'
        case Label(part, x, y, text, anchor, shift):
            placed = f' text-anchor="{anchor}"' if anchor != "start" else ""
            moved = f' dx="{shift}"' if shift else ""
            return f'<text class="{part}" x="{across(x)}" y="{_px(y)}"{moved}{placed}>{escape(text)}</text>'
        case Trace(part, places):
            # A view of its own, stretched across the plot: the points of a line cannot be percentages.
            low = max(y for _, y in places) + 1
            points = " ".join(f"{x * 1_000:.0f},{_px(y)}" for x, y in places)
            size = f'width="{across(1)}" height="{_px(low)}" viewBox="0 0 1000 {_px(low)}"'
            line = f'<polyline class="{part}" points="{points}" vector-effect="non-scaling-stroke"/>'
            return f'<svg {size} preserveAspectRatio="none">{line}</svg>'


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _percent(part: float) -> str:
    return f"{part * 100:.3f}".rstrip("0").rstrip(".") + "%"
