"""Whether an alert's condition is met, now or in hindsight, judged on bounds and never by guess: pure.

Where a range cuts a kept bucket and its count could be on either side of the limit, nothing is decided, and the alert
stays as it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from clickcurve.answers.counts import PointAnswer
from clickcurve.buckets.ladder import MINUTE_S
from clickcurve.buckets.ranges import Span
from server.settings.alerts import Condition, ConditionKind


@dataclass(frozen=True, slots=True)
class Counted:
    """What is known when a condition is judged: the hits of its span, of the span before, and the first hit ever."""

    last: Span
    before: Span
    first_hit: int | None


def is_met(condition: Condition, counted: Counted, now: int) -> bool | None:
    """Returns whether a condition is met; None where the bounds do not tell.

    A link that was never hit is not silent, and one that is younger than the span is neither silent nor under a limit:
    there is nothing to compare yet.
    """
    last = counted.last
    is_young = counted.first_hit is None or counted.first_hit > now - condition.length_s
    if condition.kind is ConditionKind.over:
        return _decided(last.at_least > condition.limit, last.at_most <= condition.limit)
    if condition.kind is ConditionKind.times:
        return _is_changed(condition.factor, last, counted.before)
    if is_young:
        return False
    limit = condition.limit if condition.kind is ConditionKind.under else 1
    return _decided(last.at_most < limit, last.at_least >= limit)


def _is_changed(factor: Fraction, last: Span, before: Span) -> bool | None:
    """Compares two spans; after a span without a hit nothing is a multiple."""
    if before.at_most == 0:
        return False
    if factor > 1:
        certainly = before.at_least > 0 and last.at_least >= factor * before.at_most
        return _decided(certainly, last.at_most < factor * before.at_least)
    certainly = before.at_least > 0 and last.at_most <= factor * before.at_least
    return _decided(certainly, last.at_least > factor * before.at_most)


def _decided(certainly: bool, certainly_not: bool) -> bool | None:
    return True if certainly else False if certainly_not else None


@dataclass(frozen=True, slots=True)
class Period:
    """Minutes [start, end) in which a condition was met (True), was not (False), or may have been (None)."""

    start: int
    end: int
    met: bool | None


class Hindsight:
    """Judges when a condition would have been met, by the points of a curve of kept buckets.

    It is judged at the end of each minute, on the span that ends there, as a server does that looks at its last moment.
    Hits count where they belong, also those that were reported late. The points tile the past in order, from two spans
    before the first moment that is asked for on.
    """

    def __init__(self, condition: Condition, points: Sequence[PointAnswer], first_hit: int | None) -> None:
        self._condition = condition
        self._first_hit = first_hit
        self._starts = [point.start for point in points]
        self._ends = [point.end for point in points]
        self._sums = [0, *accumulate(point.count for point in points)]

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
