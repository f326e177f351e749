"""A curve on a page: the picture, the numbers of its points, and the addresses that lead from it to others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from urllib.parse import quote
from zoneinfo import ZoneInfo

from clickcurve.answers.counts import CurveAnswer, PointAnswer
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from dashboard.page.changes import change_of
from dashboard.page.periods import in_address, length_of
from dashboard.page.proofs.noted import NotedLine, noted_lines
from dashboard.page.proofs.uncertain import PointLink, Uncertain, counts_words, most_of, uncertain_of
from dashboard.page.view import PageView
from dashboard.pictures.axes import WEEKDAYS, is_midnight, range_words, wall, with_commas
from dashboard.pictures.curve_picture import (
    HIT,
    Unit,
    bars_of,
    curve_sentence,
    draw_curve,
    draw_spark,
    legend_of,
    period_words,
)
from dashboard.pictures.svg import svg_inline

WIDTH, HEIGHT, LOW = 1_200, 230, 110
SPARK, CARD_SPARK = (120, 20), (120, 40)
_QUIET = 3  # hits of a bar below which, on average, a curve is read better by longer steps
_FEW_BARS = 8  # so few bars are no barcode
# The steps that a quiet curve may have in place of the usual one, with their seconds.
_LONGER: Mapping[str, Mapping[str, int]] = {
    "1m": {"5m": 300},
    "5m": {"15m": 900, "1h": HOUR_S},
    "1h": {"6h": 6 * HOUR_S, "1d": DAY_S},
}
# The steps whose points are as long as old buckets that are kept whole.
_KEPT: Mapping[str, int] = {"1h": HOUR_S, "1d": 25 * HOUR_S, "1w": 7 * DAY_S + HOUR_S}
MANY_POINTS = 340  # 14 days by hour are 336, 24 hours by 5 minutes 288
MOST_ROWS = MANY_POINTS  # points whose numbers stand on the page


@dataclass(frozen=True, slots=True)
class PointRow:
    """One point in words. before, before_when, change: the point that it is compared with, empty without one.

    address: the view of this point alone; empty where that would be of minutes.
    """

    start: int
    end: int
    when: str
    count: str
    state: str
    before: str = ""
    before_when: str = ""
    change: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """svg is markup that is safe; rows are empty where there are too many. earlier, later and out are views.

    compared: rows say what was before; range: when it is of, in words.
    every_s: the length of each point, 0 where they are not equally long. first_day, last_day: those of which the range
    has a part. kept_whole: what to say in place of the picture where the range is inside one kept bucket.
    """

    svg: str
    sentence: str
    legend: str
    range: str
    start: int
    end: int
    rows: list[PointRow]
    compared: bool
    every_s: int
    points: int
    earlier: str
    later: str
    out: str
    first_day: date
    last_day: date
    kept_whole: str
    noted: Sequence[NotedLine] = ()
    uncertain: Uncertain | None = None


DRAWING = "drawing a curve"  # in a thread: one of 3,000 points takes 8 to 16 ms


def make_chart(
    curve: CurveAnswer,
    view: PageView,
    now: int,
    height: int = HEIGHT,
    noun: str = HIT,
    beside: CurveAnswer | None = None,
    earlier: CurveAnswer | None = None,
    unit: Unit | None = None,
) -> Chart:
    """Makes a curve's picture and its numbers. noun: what is counted; unit: how, if the curve is of amounts.

    beside: a curve that shares the scale; earlier: one of another range, drawn as a line over the bars.
    """
    zone = ZoneInfo(curve.tz)
    few = curve.points if len(curve.points) <= MOST_ROWS else []
    if earlier is not None and not earlier.at_most:
        earlier = None  # a line along the ground says nothing
    previous, later, out = neighbours(curve, view, now)
    written = with_commas if unit is None else unit.shown
    notes = [legend_of(curve, bars_of(curve, WIDTH))]
    if earlier is not None:
        notes.append("line: the range before")

    def point_link(point: PointAnswer, counts: str) -> PointLink:
        is_shown = (point.start, point.end) == (curve.start, curve.end)
        return PointLink(when_words(point, zone), counts, "" if is_shown else _alone(point, view))

    return Chart(
        svg=svg_inline(draw_curve(curve, WIDTH, height, False, noun, beside, earlier, unit), "curve"),
        sentence=curve_sentence(curve, noun, unit),
        legend="; ".join(filter(None, notes)),
        range=period_words(curve),
        start=curve.points[0].start if curve.points else curve.start,
        end=curve.points[-1].end if curve.points else curve.end,
        rows=_point_rows(few, [] if earlier is None else earlier.points, view, zone, written),
        compared=earlier is not None,
        every_s=lengths.pop() if len(lengths := {each.end - each.start for each in few}) == 1 else 0,
        points=len(curve.points),
        earlier=previous,
        later=later,
        out=out,
        first_day=wall(curve.start, zone).date(),
        last_day=wall(max(curve.start, curve.end - 1), zone).date(),
        kept_whole=_kept_whole(curve),
        noted=noted_lines(curve, view),
        uncertain=uncertain_of(curve, written, point_link),
    )


def _point_rows(
    points: Sequence[PointAnswer],
    earlier: Sequence[PointAnswer],
    view: PageView,
    zone: ZoneInfo,
    written: Callable[[int], str],
) -> list[PointRow]:
    """Writes points, each beside the earlier one that is as far from its beginning, if they are equally long."""
    in_order = len(points) == len(earlier)
    by_place = {each.start - earlier[0].start: each for each in earlier}
    rows = []
    for place, point in enumerate(points):
        row = PointRow(point.start, point.end, when_words(point, zone), counts_words(point, written), point.state)
        row = replace(row, address=_alone(point, view))
        was = earlier[place] if in_order else by_place.get(point.start - points[0].start)
        if was is not None and _are_alike(point, was):
            is_certain = most_of(was) == was.count and most_of(point) == point.count
            words = _difference_words(was.count, point.count, written) if is_certain else ""
            row = replace(row, before=counts_words(was, written), before_when=when_words(was, zone), change=words)
        rows.append(row)
    return rows


def _alone(point: PointAnswer, view: PageView) -> str:
    """Returns the view of a point alone; empty for minutes, which have none."""
    if point.end - point.start < HOUR_S:
        return ""
    return view.address(start=str(point.start), end=str(point.end), step="")


def _difference_words(before: int, count: int, written: Callable[[int], str]) -> str:
    """Writes a difference: `+144 (+7 %)`."""
    if before == count:
        return "0"
    sign = "+" if count > before else "\N{MINUS SIGN}"
    return f"{sign}{written(abs(count - before))} ({change_of((before, before), (count, count)).text})"


def _are_alike(point: PointAnswer, other: PointAnswer) -> bool:
    """Tells whether two points may be compared: days of 23 and 25 hours and months may, a day and a week may not."""
    length_s, other_s = point.end - point.start, other.end - other.start
    return abs(length_s - other_s) <= max(length_s, other_s) * 0.11


def when_words(point: PointAnswer, zone: ZoneInfo) -> str:
    """Writes the time of a point, of a day with its weekday."""
    words = range_words(point.start, point.end, zone)
    first, after = wall(point.start, zone), wall(point.end, zone)
    return f"{WEEKDAYS[first.weekday()]} {words}" if is_midnight(first) and first + timedelta(1) == after else words


def fitting_step(curve: CurveAnswer) -> str:
    """Returns the step in which a curve is read better than in its own; empty where that one is good.

    Longer steps suit a curve of few hits, of many bars, and one whose old points are longer than its step.
    """
    widest_s = max((point.end - point.start for point in curve.points if point.wide), default=0)
    if widest_s:
        return next((step for step, step_s in _KEPT.items() if widest_s <= step_s), "1mo")
    if curve.step not in _LONGER:
        return ""
    longer = _LONGER[curve.step]
    if len(curve.points) > MANY_POINTS:
        return next(iter(longer))
    busy = [point.count for point in curve.points if point.count]
    if len(busy) < _FEW_BARS or sum(busy) >= _QUIET * len(busy):
        return ""
    length_s = curve.points[-1].end - curve.points[0].start
    return next((step for step, step_s in longer.items() if sum(busy) * step_s >= _QUIET * length_s), list(longer)[-1])


def _kept_whole(curve: CurveAnswer) -> str:
    """Says of a range inside one kept bucket what that bucket had; empty for any other."""
    if len(curve.points) != 1 or curve.exact:
        return ""
    (point,) = curve.points
    if point.state == "open" or point.end - point.start <= curve.end - curve.start:
        return ""
    days, zone = (point.end - point.start) / DAY_S, ZoneInfo(curve.tz)
    unit = "months" if days > 7 else "weeks" if days > 1 else "days" if days == 1 else "hours"
    number = f" (week {wall(point.start, zone).isocalendar().week})" if unit == "weeks" else ""
    when = f"{range_words(point.start, point.end, zone)}{number}"
    return f"Only whole {unit} are kept from then: {when} had {with_commas(point.count)} hits."


def spark(curve: CurveAnswer, size: tuple[int, int] = SPARK) -> str:
    """Draws a curve for a line of a table, or for a card."""
    return svg_inline(draw_spark(curve, *size), "spark") if curve.points else ""


def in_path(name: str) -> str:
    """Returns a name as it stands in a path, "" for one that no browser can ask for.

    Browsers take `.` and `..` for steps in a path, also where they are percent-encoded.
    """
    return "" if name in (".", "..") else quote(name, safe="")


def neighbours(curve: CurveAnswer, view: PageView, now: int) -> tuple[str, str, str]:
    """Returns three views: the period before, the one after (empty if that is ahead), and a wider range."""
    zone = ZoneInfo(curve.tz)
    length = length_of(curve.start, curve.end, zone, view.span)

    def address(start: int, end: int) -> str:
        return view.address(**in_address(max(0, start), end, zone), step="")

    start = length.back(curve.start, zone)
    earlier = address(start, curve.start) if curve.start else ""
    later = address(curve.end, length.forward(curve.end, zone)) if curve.end <= now else ""
    half = max(60, curve.end - curve.start) // 2
    out = address(curve.start - half, min(curve.end + half, max(curve.end, now - now % 60 + 60)))
    return earlier, later, out
