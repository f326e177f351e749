"""Several curves as lines in one picture: one scale, a tone and a dash for each, and its number where it ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from clickcurve.answers.counts import CurveAnswer
from dashboard.pictures.curve_picture import GUTTER, bars_of, step_words
from dashboard.pictures.plot_frame import Bar, Frame, scale_labels, scale_of, shades, time_labels, weekends
from dashboard.pictures.shapes import Label, Line, Picture, Shape, Trace

MOST_LINES = 6
# Of the lines in their order. Each pair differs by a CIELAB distance of 25 or more, also for people who lack a kind of
# cone, and each tone has a contrast of 4.5 or more on the page's paper.
TONES: Mapping[str, Sequence[str]] = {
    "light": ("#2563c9", "#ae3b00", "#49066c", "#776d57", "#a14d8c", "#003338"),
    "dark": ("#5a94e8", "#ffbf42", "#e06495", "#cdf2bc", "#90944b", "#33f6ff"),
}
_DASHES = ("", "8 3", "3 3", "12 3 3 3", "2 5", "8 3 1 3")
_HEADROOM, _FOOT = 18, 22  # pixels above the plot, and below it
_COLUMN = 4  # pixels from one place of a line to the next, at least
_APART = 13  # pixels from one number to the next


def line_part(number: int) -> str:
    """Returns the part of the line with this number, from 1 on."""
    return f"line-{number}"


def line_styles(theme: str) -> str:
    """Writes how lines and their numbers look, as a stylesheet. theme: light or dark."""
    rules = []
    for number, (tone, dash) in enumerate(zip(TONES[theme], _DASHES, strict=True), 1):
        dashed = f";stroke-dasharray:{dash}" if dash else ""
        rules.append(f".{line_part(number)}{{fill:none;stroke:{tone};stroke-width:2{dashed}}}")
        rules.append(f".end-{number}{{fill:{tone};font-weight:600}}")
    return "".join(rules)


def draw_lines(curves: Sequence[CurveAnswer], width: int, height: int, sentence: str) -> Picture:
    """Draws 1 to MOST_LINES curves whose points begin and end at the same times. sentence: what the picture shows."""
    first_hits = [curve.first_hit for curve in curves if curve.first_hit is not None]
    axis = replace(curves[0], first_hit=min(first_hits, default=None))
    top, bottom, plot_width = _HEADROOM, height - _FOOT, width - GUTTER
    lines = [bars_of(curve, plot_width // _COLUMN) for curve in curves]
    marks = scale_of([bar for bars in lines for bar in bars], bottom - top)
    frame = Frame(axis, top, bottom, marks[-1], plot_width)
    shapes: list[Shape] = [*weekends(axis, frame), *shades(axis, frame)]
    shapes += [Line("grid", frame.y(mark)) for mark in marks]
    shapes.append(Line("base", bottom))
    shapes += [Trace(line_part(number), _places(bars, frame)) for number, bars in enumerate(lines, 1)]
    shapes += _numbers([frame.y(bars[-1].rate) for bars in lines], frame)
    shapes += [*scale_labels(marks, frame), Label("label", 0, top - 5, step_words(axis))]
    shapes += time_labels(lines[0], frame, ZoneInfo(axis.tz))
    return Picture(width, height, sentence, tuple(shapes), GUTTER)


def _places(bars: Sequence[Bar], frame: Frame) -> tuple[tuple[float, float], ...]:
    """Returns where a line runs: through the middle of each bar, and to both ends of the plot.

    So a line of one bar is level, and one that ends has its number where it does.
    """
    middles = [((frame.x(bar.start) + frame.x(bar.end)) / 2, frame.y(bar.rate)) for bar in bars]
    return ((0.0, middles[0][1]), *middles, (1.0, middles[-1][1]))


def _numbers(ends: Sequence[float], frame: Frame) -> Iterable[Label]:
    """Yields the number of each line right of its end; those that would stand in each other are moved apart."""
    order = sorted(range(len(ends)), key=lambda each: ends[each])
    places = [ends[each] for each in order]
    for place in range(1, len(places)):
        places[place] = max(places[place], places[place - 1] + _APART)
    lowest = frame.bottom
    for place in reversed(range(len(places))):
        places[place] = lowest = min(places[place], lowest)
        lowest -= _APART
    for line, y in zip(order, places, strict=True):
        yield Label(f"end-{line + 1}", 1, y + 4, str(line + 1), shift=5)
