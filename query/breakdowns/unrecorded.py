"""The hits of a row of counts that recorded no value of a dimension, and what is known of them.

A hit that says nothing is counted and not recorded: it is cheap, and it gave no value, `""`. But neither did the hits
record anything that came before the dimension was switched on, whatever they would have said: those are `unrecorded`.
Which of the two a hit is can be told by its bucket, but for the one in which the dimension was switched on: there the
hits that may have come before are `unrecorded`, and the most that `""` may have holds them too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clickcurve.buckets.breakdowns.answers import recorded_between
from clickcurve.buckets.breakdowns.breakdown import BoundedLadder, Breakdown
from clickcurve.buckets.breakdowns.check import OF_BOTS, common_span
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME, Ladder
from clickcurve.buckets.ranges import Bots, between
from clickcurve.buckets.row import Row


class WithoutValue(NamedTuple):
    """The hits of a span that recorded no value.

    not_given  hits that certainly gave no value. unrecorded: those that may have come before the dimension was on.
    unsure  how many of the unrecorded may be hits that gave no value.
    """

    not_given: int = 0
    unrecorded: int = 0
    unsure: int = 0


@dataclass(frozen=True, slots=True)
class BreakdownRow:
    """A link's row of counts and its breakdown as of one moment, folded to one day, with their ladders.

    settled  False: they changed each time they were read, so they are of different moments. unsure: dimension -> start
    of a bucket -> hits without a value that may be among those that are called bots. since: dimension -> the moment it
    was switched on; no hit at or after it was counted before.
    """

    counts: Row
    breakdown: Breakdown
    ladder: Ladder
    bounded: BoundedLadder
    settled: bool = True
    unsure: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    since: Mapping[str, int] = field(default_factory=dict)

    def whole_span(self, start: int, end: int) -> tuple[int, int]:
        """Returns the shortest span around [start, end) that cuts no kept bucket; an empty span stays as it is."""
        if start >= end:
            return start, end
        return common_span(start, end, self.counts.fold_day, self.bounded.ladder, self.ladder)

    def whole_days(self, start: int, end: int) -> tuple[int, int]:
        """Returns the shortest span of whole UTC days around [start, end) that cuts no kept bucket."""
        return self.whole_span(start - start % DAY_S, end + -end % DAY_S) if start < end else (start, end)

    def is_edge(self, t: int) -> bool:
        """Returns whether a kept bucket begins at t, in both."""
        return t == END_OF_TIME or all(
            ladder.kept(t, self.counts.fold_day)[0] == t for ladder in (self.bounded.ladder, self.ladder)
        )

    def edge_at_or_after(self, t: int) -> int:
        """Returns the first edge of a kept bucket that is not before t."""
        return t if self.is_edge(t) else self.whole_span(t, t + 1)[1]

    def edge_at_or_before(self, t: int) -> int:
        """Returns the last edge of a kept bucket that is not after t."""
        return t if self.is_edge(t) else self.whole_span(t, t + 1)[0]

    def without_value(self, dimension: str, edges: Sequence[int]) -> list[WithoutValue]:
        """Returns the hits without a value in each [edges[i], edges[i + 1]). The edges ascend and cut no kept bucket.

        A recorded hit is a counted one: only rows of different moments can say anything else.
        """
        points = [WithoutValue()] * max(0, len(edges) - 1)
        if not points or edges[0] == edges[-1]:
            return points
        parts, since = edges, self.since[dimension]
        if edges[0] < since < edges[-1]:
            parts = sorted({*edges, *self.whole_span(since, since + 1)})  # the bucket in which it was switched on
        counted = between(self.counts, parts, series_of(dimension))
        recorded = recorded_between(self.breakdown, dimension, parts)
        for start, end, hits, of_values in zip(parts, parts[1:], counted, recorded, strict=False):
            point = bisect_right(edges, start) - 1
            more = self._without_value_of(dimension, start, end, max(hits, of_values), of_values)
            points[point] = WithoutValue(*map(sum, zip(points[point], more, strict=True)))
        for start, unsure in self.unsure.get(dimension, {}).items():
            if edges[0] <= start < edges[-1]:
                point = bisect_right(edges, start) - 1
                points[point] = points[point]._replace(unsure=points[point].unsure + unsure)
        return points

    def _without_value_of(self, dimension: str, start: int, end: int, hits: int, recorded: int) -> WithoutValue:
        plain, since = hits - recorded, self.since[dimension]
        if not self.settled:  # what was not recorded may have said something that was not read
            return WithoutValue(0, plain, plain)
        if start >= since:
            return WithoutValue(plain, 0, 0)
        if end <= since:
            return WithoutValue(0, plain, 0)
        certainly, perhaps = self._counted_before(dimension, start, since)
        unrecorded = min(plain, perhaps)
        return WithoutValue(plain - unrecorded, unrecorded, unrecorded - max(0, min(plain, certainly - recorded)))

    def _counted_before(self, dimension: str, start: int, since: int) -> tuple[int, int]:
        """Returns how many hits were counted in [start, since), at least and at most: rows of counts are finer."""
        low, high = self.ladder.kept(since, self.counts.fold_day)
        certainly, more = between(self.counts, (start, low, since if since == low else high), series_of(dimension))
        return certainly, certainly + more


def series_of(dimension: str) -> Bots:
    """Returns the series of a row of counts whose hits the dimension divides."""
    return Bots.only if dimension in OF_BOTS else Bots.exclude
