"""Several curves as one chart of a page: the picture, the numbers of its points, and the ways to other ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from zoneinfo import ZoneInfo

from clickcurve.answers.counts import CurveAnswer, PointState
from clickcurve.answers.written import Tabular
from dashboard.page.chart import HEIGHT, MOST_ROWS, WIDTH, neighbours, when_words
from dashboard.page.several.common_points import with_common_points
from dashboard.page.view import PageView
from dashboard.pictures.axes import wall, with_commas
from dashboard.pictures.curve_picture import HIT, curve_sentence, period_words, step_words
from dashboard.pictures.lines_picture import draw_lines
from dashboard.pictures.svg import svg_inline


@dataclass(frozen=True, slots=True)
class PointsRow:
    """A point of all curves in words."""

    start: int
    when: str
    counts: list[str]
    state: PointState


@dataclass(frozen=True, slots=True)
class LinesChart:
    """svg is markup that is safe, empty without points; rows are empty where there are too many.

    every_s: the length of each point, 0 where they are not equally long. earlier, later and out are views; first_day
    and last_day are those of which the range has a part.
    """

    svg: str
    range: str
    legend: str
    start: int
    end: int
    rows: list[PointsRow]
    every_s: int
    points: int
    earlier: str
    later: str
    out: str
    first_day: date
    last_day: date


def make_lines_chart(curves: Sequence[CurveAnswer], names: Sequence[str], view: PageView, now: int) -> LinesChart:
    """Makes the chart of curves of one range. names: what each is called, as text."""
    curves = with_common_points(curves)
    axis = curves[0]
    zone, points = ZoneInfo(axis.tz), axis.points
    said = "; ".join(f"{name}: {curve_sentence(curve, HIT)}" for name, curve in zip(names, curves, strict=True))
    earlier, later, out = neighbours(axis, view, now)
    rows = _rows(curves, zone) if len(points) <= MOST_ROWS else []
    lengths = {each.end - each.start for each in points}
    return LinesChart(
        svg=svg_inline(draw_lines(curves, WIDTH, HEIGHT, said), "curve") if points else "",
        range=period_words(axis),
        legend=_legend(curves),
        start=points[0].start if points else axis.start,
        end=points[-1].end if points else axis.end,
        rows=rows,
        every_s=lengths.pop() if len(lengths) == 1 else 0,
        points=len(points),
        earlier=earlier,
        later=later,
        out=out,
        first_day=wall(axis.start, zone).date(),
        last_day=wall(max(axis.start, axis.end - 1), zone).date(),
    )


def _rows(curves: Sequence[CurveAnswer], zone: ZoneInfo) -> list[PointsRow]:
    of_each = zip(*(curve.points for curve in curves), strict=True)
    return [
        PointsRow(some[0].start, when_words(some[0], zone), [with_commas(each.count) for each in some], some[0].state)
        for some in of_each
    ]


def _legend(curves: Sequence[CurveAnswer]) -> str:
    """Explains what is unusual about the points."""
    points = [point for curve in curves for point in curve.points]
    notes = []
    if any(point.state == "open" for point in points):
        notes.append("grey: still counting")
    if any(point.state == "partial" for point in points):
        notes.append("partly outside the range where the table says partial")
    if any(point.wide for point in points):
        notes.append(f"some points are kept as one sum, shown {step_words(curves[0])}")
    return "; ".join(notes)


class LinesAnswer(Tabular, frozen=True):
    """Curves with common points as CSV: a column for each, under its name."""

    LIST = "curves"

    names: list[str]
    start: int
    end: int
    curves: list[CurveAnswer]

    def columns(self) -> Sequence[str]:
        """Returns the names of the columns."""
        return "start", "end", *self.names, "state"

    def lines(self) -> list[Sequence[object]]:
        """Returns the points."""
        of_each = zip(*(curve.points for curve in self.curves), strict=True)
        return [(some[0].start, some[0].end, *(each.count for each in some), some[0].state) for some in of_each]


def lines_answer(curves: Sequence[CurveAnswer], names: Sequence[str]) -> LinesAnswer:
    """Returns curves of one range as CSV. names: what each is called, as text."""
    return LinesAnswer(list(names), curves[0].start, curves[0].end, with_common_points(curves))
