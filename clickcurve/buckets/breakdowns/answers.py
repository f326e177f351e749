"""What a breakdown's kept buckets say about a span of time, with bounds; and what they cannot say.

As for totals (`clickcurve.buckets.ranges`), a span that cuts kept buckets is answered by those buckets whole:
nothing is interpolated, nothing clipped. The breakdown must be folded, or merged, to the day that is meant.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from clickcurve.buckets.breakdowns.breakdown import NOT_GIVEN, BoundedLadder, Breakdown, ValueCounts, sum_of_all
from clickcurve.buckets.breakdowns.columns import ColumnTier
from clickcurve.buckets.breakdowns.visitors import STANDARD_ERROR, VisitorDays
from clickcurve.buckets.ladder import DAY_S, Ladder


class Bounds(NamedTuple):
    """A count that lies between the two."""

    at_least: int
    at_most: int


@dataclass(frozen=True, slots=True)
class BreakdownTotal:
    """How the recorded hits of [start, end), whole kept buckets, divide by one dimension.

    values  value -> at least so many hits. other: hits of values that were not kept. slack: the most one may lack.
    """

    start: int
    end: int
    values: Mapping[str, int]
    other: int
    slack: int

    @property
    def recorded(self) -> int:
        return sum(self.values.values()) + self.other

    def bounds(self, value: str) -> Bounds:
        """Returns the bounds of a value's hits, also of one that was never kept; `""` is exact."""
        at_least = self.values.get(value, 0)
        return Bounds(at_least, at_least if value == NOT_GIVEN else at_least + self.slack)


def whole_buckets(start: int, end: int, fold_day: int, ladder: Ladder) -> tuple[int, int]:
    """Returns the span of the kept buckets that [start, end) touches; an empty span stays as it is."""
    if start >= end:
        return start, start
    return ladder.kept(start, fold_day)[0], ladder.kept(end - 1, fold_day)[1]


def breakdown_total(row: Breakdown, dimension: str, start: int, end: int, bounded: BoundedLadder) -> BreakdownTotal:
    """Returns how the recorded hits of the kept buckets that [start, end) touches divide by a dimension."""
    first, last = whole_buckets(start, end, row.fold_day, bounded.ladder)
    columns: list[ColumnTier] = []
    parts: list[ValueCounts] = []
    for tier in row.dimensions.get(dimension, ()):
        if isinstance(tier, ColumnTier):
            columns.append(tier)
        else:
            parts += [counts for at, counts in tier.items() if first <= at < last]
    # The columns first, since they have most values: the first is copied.
    total = sum_of_all([ColumnTier.sum_between(columns, first, last), *parts])
    return BreakdownTotal(first, last, total.values, total.other, total.slack)


def values_between(row: Breakdown, dimension: str, named: Collection[str], edges: Sequence[int]) -> list[Bounds]:
    """Bounds the hits of values together in each [edges[i], edges[i + 1]).

    The edges ascend and lie between kept buckets. named: values, each once.
    """
    if len(edges) < 2:
        return []
    may_lack = len(named) - (NOT_GIVEN in named)
    at_least, at_most = [0] * (len(edges) - 1), [0] * (len(edges) - 1)
    for tier in row.dimensions.get(dimension, ()):
        for start in tier:
            if edges[0] <= start < edges[-1]:
                values, other, slack = tier[start]
                point = bisect_right(edges, start) - 1
                count = sum([values.get(value, 0) for value in named])
                at_least[point] += count
                at_most[point] += count + lacked_together(may_lack, slack, other)
    return list(map(Bounds, at_least, at_most))


def lacked_together(values: int, slack: int, other: int) -> int:
    """Returns the most that so many values may lack together: each the slack, all what was not kept of any."""
    return min(values * slack, max(slack, other))


def recorded_between(row: Breakdown, dimension: str, edges: Sequence[int]) -> list[int]:
    """Counts the recorded hits in each [edges[i], edges[i + 1]). The other hits of a row of counts recorded nothing."""
    recorded = [0] * max(0, len(edges) - 1)
    for tier in row.dimensions.get(dimension, ()):
        if isinstance(tier, ColumnTier):
            recorded = list(map(add, recorded, tier.recorded_between(edges)))
            continue
        for start, counts in tier.items():
            if recorded and edges[0] <= start < edges[-1]:
                recorded[bisect_right(edges, start) - 1] += counts.recorded()
    return recorded


class VisitorSpan(NamedTuple):
    """The visitor-days of one kept bucket [start, end): one UTC day, or the sum over a week's or month's days."""

    start: int
    end: int
    visitors: VisitorDays


def visitors_between(row: Breakdown, start: int, end: int, bounded: BoundedLadder) -> list[VisitorSpan]:
    """Returns the visitor-days of each day or kept bucket that [start, end) touches and that had some, oldest first.

    Days whose hours are kept are days here: a visitor is known by the day, not by the hour.
    """
    if start >= end:
        return []
    spans = []
    for tier, numbers in enumerate(row.visitor_days, 1):
        for at, number in numbers.items():
            spans.append(VisitorSpan(*bounded.ladder.bucket(tier, at), number))
    spans += [VisitorSpan(day, day + DAY_S, visitors.as_days()) for day, visitors in row.days.items()]
    return sorted(span for span in spans if span.start < end and span.end > start)


def visitor_days(spans: Sequence[VisitorSpan]) -> VisitorDays:
    """Sums visitor-days over different days. A visitor of two days counts twice: these are never unique visitors."""
    days = [span.visitors for span in spans]
    sizes = [each.estimate() for each in days]
    return VisitorDays(
        None if None in sizes else sum(filter(None, sizes)),
        all(each.exact for each in days),
        sum([each.known for each in days]),
        sum([each.at_least for each in days]),
        sum([each.at_most for each in days]),
    )


def standard_error(spans: Sequence[VisitorSpan]) -> int:
    """Returns the standard error of the estimated visitor-days of different days, at most; 0 if there are none.

    Days have hashes of their own, so their errors are independent. How a week's number is made of its days is not
    kept: its error is that of one day of so many visitors, which is the greatest possible.
    """
    squares = 0.0
    for span in spans:
        if span.visitors.size is None:
            return 0  # nor an estimate
        if not span.visitors.exact:
            squares += (STANDARD_ERROR * span.visitors.size) ** 2
    return math.ceil(math.sqrt(squares))
