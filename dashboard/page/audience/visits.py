"""Daily visitors of a range, along the times of another curve."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from clickcurve.answers.breakdowns import VisitorsAnswer
from clickcurve.answers.counts import CurveAnswer, PointAnswer
from clickcurve.buckets.ladder import DAY_S
from dashboard.page.changes import Count, about
from dashboard.pictures.axes import with_commas
from dashboard.pictures.curve_picture import step_s


def visitor_count(answer: VisitorsAnswer) -> Count:
    """Says how many daily visitors there were, added up."""
    if answer.visitor_days is not None and not answer.exact:
        return Count(f"about {with_commas(answer.visitor_days)}", f"estimated, standard error {answer.error}")
    return about(answer.at_least, answer.at_most)


def visitor_curve(answer: VisitorsAnswer, axis: CurveAnswer, now: int) -> CurveAnswer | None:
    """Returns daily visitors along the points of another curve; None where it is too short to show days.

    A day, week or month that is kept whole takes the points that it touches most; its own edges are those of UTC.
    """
    if not axis.points or axis.points[-1].end - axis.points[0].start <= 2 * DAY_S:
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
    step = "1d" if axis.step == "native" or step_s(axis) < DAY_S else axis.step
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
