"""What hits said, as tables for a page: values with their bounds, and the rest, so that parts are the total."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from clickcurve.answers import CurveAnswer, PointAnswer, ValuesAnswer, VisitorsAnswer
from clickcurve.visible import visible
from dashboard.page.changes import Count, about, count_of
from dashboard.page.chart import LOW, Chart, make_chart
from dashboard.page.subject import PageSubject
from dashboard.page.view import PageView
from dashboard.pictures.axes import PERCENT, with_commas
from dashboard.pictures.curve_picture import step_s
from dashboard.questions import BrokenDown

SHOWN = 10
_DAY_S = 86_400
_TITLES = {
    "ref": "Referrers",
    "country": "Countries",
    "device": "Devices",
    "source": "Sources",
    "browser": "Browsers",
    "os": "Operating systems",
    "lang": "Languages",
    "utm_source": "Campaign sources",
    "utm_medium": "Campaign media",
    "utm_campaign": "Campaigns",
    "bot": "Bots",
}
_NOT_GIVEN = {"ref": "Direct or unknown"}


@dataclass(frozen=True, slots=True)
class ValueRow:
    """One line: a value or, with `rest`, what is of none. part: of the greatest line, 0 to 100; share: of all hits."""

    text: str
    count: Count
    part: float
    share: str
    rest: bool = False
    value: str = ""


@dataclass(frozen=True, slots=True)
class ValueTable:
    """One dimension. total: hits of the kept buckets that the range touches; spoken: whether any said anything."""

    dimension: str
    title: str
    total: str
    rows: list[ValueRow]
    spoken: bool


@dataclass(frozen=True, slots=True)
class Visits:
    """Daily visitors of the range, added up, and their days as a chart if there are several."""

    count: Count
    unknown: str
    chart: Chart | None


async def value_tables(broken_down: BrokenDown, subject: PageSubject, view: PageView) -> list[ValueTable]:
    """Asks for each dimension, in the order of the settings. Raises what the questions raise."""
    query = view.total_query + b"&limit=%d" % SHOWN
    asked = (broken_down.questions.by(subject.asked, each, query) for each in broken_down.dimensions)
    return [value_table(answer) for answer in await asyncio.gather(*asked)]


def value_table(answer: ValuesAnswer) -> ValueTable:
    """Makes a table of values, greatest first, and of the rest."""
    most = max((each.at_most for each in answer.values), default=1) or 1
    not_given = _NOT_GIVEN.get(answer.dimension, "(not given)")
    rows = [
        ValueRow(
            visible(each.value) or not_given,
            count_of(each.at_least, each.at_most),
            each.at_least * 100 / most,
            _share_text(each.at_least, answer.total) if each.at_least == each.at_most else "",
            value=each.value,
        )
        for each in answer.values
    ]
    rest = (
        (f"{answer.not_shown.values:,} more", answer.not_shown.count),
        ("other", answer.other),
        ("before this was recorded", answer.unrecorded),
    )
    rows += [
        ValueRow(text, count_of(count, count), 0, _share_text(count, answer.total), rest=True)
        for text, count in rest
        if count
    ]
    title = _TITLES.get(answer.dimension, answer.dimension.removeprefix("tag."))
    return ValueTable(
        answer.dimension,
        title,
        with_commas(answer.total),
        rows,
        any(each.value for each in answer.values) or bool(answer.other),
    )


async def visits(broken_down: BrokenDown, subject: PageSubject, view: PageView, axis: CurveAnswer, now: int) -> Visits:
    """Asks for the visitors of the view's range. axis: the curve of the page, whose times their chart has too."""
    answer = await broken_down.questions.visitors(subject.asked, view.total_query)
    days = visitor_curve(answer, axis, now)
    chart = None if days is None else make_chart(days, view, now, LOW, "daily visitor")
    count = about(answer.at_least, answer.at_most)
    if answer.visitor_days is not None and not answer.exact:
        count = Count(f"about {with_commas(answer.visitor_days)}", f"estimated, standard error {answer.error}")
    return Visits(count, with_commas(answer.unknown) if answer.unknown else "", chart)


def visitor_curve(answer: VisitorsAnswer, axis: CurveAnswer, now: int) -> CurveAnswer | None:
    """Returns daily visitors along the points of another curve; None where it is too short to show days.

    A day, week or month that is kept whole takes the points that it touches most; its own edges are those of UTC.
    """
    if not axis.points or axis.points[-1].end - axis.points[0].start <= 2 * _DAY_S:
        return None
    edges = [*(point.start for point in axis.points), axis.points[-1].end]
    pieces: list[tuple[int, int, int]] = []  # from and to in edges, and the count
    for day in answer.days:
        if day.end <= edges[0] or day.start >= edges[-1]:
            continue
        low, high = _nearest(edges, day.start), _nearest(edges, day.end)
        if low == high:
            low = max(0, bisect_right(edges, day.start) - 1)
            high = low + 1
        before = pieces.pop() if pieces and low < pieces[-1][1] else (low, low, 0)
        pieces.append(
            (before[0], max(before[1], high), before[2] + (day.at_least if day.visitors is None else day.visitors))
        )
    if len(pieces) < 2:
        return None
    step = "1d" if axis.step == "native" or step_s(axis) < _DAY_S else axis.step
    points = [
        PointAnswer(edges[low], edges[high], count, "open" if edges[high] > now else "complete", high - low > 1)
        for low, high, count in _with_gaps(pieces, len(edges) - 1)
    ]
    total = sum(point.count for point in points)
    first = edges[pieces[0][0]]
    return CurveAnswer(None, axis.start, axis.end, step, axis.tz, first, total, total, total, True, points)


def _nearest(edges: Sequence[int], t: int) -> int:
    """Returns the place of the edge that is nearest to t."""
    place = bisect_right(edges, t)
    return min((each for each in (place - 1, place) if 0 <= each < len(edges)), key=lambda each: abs(edges[each] - t))


def _with_gaps(pieces: Iterable[tuple[int, int, int]], end: int) -> Iterator[tuple[int, int, int]]:
    """Yields pieces that tile [0, end): what lies between two, or at an end, is one of count 0."""
    reached = 0
    for low, high, count in pieces:
        if reached < low:
            yield reached, low, 0
        yield low, high, count
        reached = high
    if reached < end:
        yield reached, end, 0


def _share_text(count: int, total: int) -> str:
    """Writes a part of a total in percent, without claiming all or nothing of what is only nearly so."""
    part = count * 100 / total if total else 0
    if 0 < part < 1:
        return f"<1{PERCENT}"
    return f"{min(int(part + 0.5), 99) if part < 100 else 100}{PERCENT}"
