"""When a condition would have been met in the past, judged on the buckets that are kept of it: pure.

It is judged at the end of each minute, on the span that ends there, as a server does that looks at its last moment.
Hits count where they belong, also those that were reported late. Where the span cuts a bucket and the bounds do not
tell, nothing is said.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from clickcurve.buckets.ladder import MINUTE_S
from clickcurve.buckets.ranges import Span
from server.alerts.condition import Counted, is_met
from server.settings.alerts import Condition


@dataclass(frozen=True, slots=True)
class KeptBucket:
    """Hits in [start, end), epoch seconds."""

    start: int
    end: int
    count: int


@dataclass(frozen=True, slots=True)
class Period:
    """Minutes [start, end) in which a condition was met (True), was not (False), or may have been (None)."""

    start: int
    end: int
    met: bool | None


class Hindsight:
    """Judges a condition over kept buckets, which tile the past in order, from two spans before its first moment on."""

    def __init__(self, condition: Condition, buckets: Sequence[KeptBucket], first_hit: int | None) -> None:
        self._condition = condition
        self._first_hit = first_hit
        self._starts = [bucket.start for bucket in buckets]
        self._ends = [bucket.end for bucket in buckets]
        self._sums = [0, *accumulate(bucket.count for bucket in buckets)]

    def met_at(self, end: int) -> bool | None:
        """Returns whether the condition was met in the minute that ends at `end`; None where the bounds do not tell."""
        length_s = self._condition.length_s
        last, before = self._span(end - length_s, end), self._span(end - 2 * length_s, end - length_s)
        return is_met(self._condition, Counted(last, before, self._first_hit), end - 1)

    def periods(self, start: int, end: int) -> Iterator[Period]:
        """Yields what was the case in the minutes of [start, end), without a gap; neighbours differ."""
        begun, met = start, self.met_at(start + MINUTE_S)
        for at in self._changes(start + MINUTE_S, end):
            now_met = self.met_at(at)
            if now_met is not met:
                yield Period(begun, at - MINUTE_S, met)
                begun, met = at - MINUTE_S, now_met
        yield Period(begun, end, met)

    def _span(self, start: int, end: int) -> Span:
        """Returns the bounds of the hits in [start, end): of the buckets inside it, and of those that it touches."""
        inside = self._sums[bisect_right(self._ends, end)] - self._sums[bisect_left(self._starts, start)]
        touched = self._sums[bisect_left(self._starts, end)] - self._sums[bisect_right(self._ends, start)]
        return Span(touched, max(0, inside), touched)

    def _changes(self, after: int, until: int) -> list[int]:
        """Returns the ends of minutes at which the answer can change: where an edge of a span meets one of a bucket."""
        edges = {*self._starts, *self._ends, *(() if self._first_hit is None else (self._first_hit,))}
        met = {edge + spans * self._condition.length_s for edge in edges for spans in range(3)}
        return sorted(at for edge in met for at in (edge, edge + MINUTE_S) if after < at <= until)
