"""Why a total changed: for each dimension the change of each value between two spans, with bounds, pure.

The changes of a dimension's values, of `other` and of `unrecorded` add up to the change of the total, since both spans
are whole kept buckets. Buckets that both spans hold cancel out. The true change of a value lies between its bounds.
Bounds of several values may not be added up: what one lacks another may have.

A value is a cause if its change is certain, whatever the bounds, and goes beyond what it would be had all hits changed
alike. Causes are ranked by how far they go beyond that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import UNSET

from clickcurve.answers.breakdowns import CauseAnswer, DimensionAnswer, HiddenChange
from clickcurve.buckets.breakdowns.answers import breakdown_total
from clickcurve.buckets.breakdowns.breakdown import NOT_GIVEN
from clickcurve.buckets.ranges import between
from query.breakdowns.unrecorded import BreakdownRow, series_of
from query.comparison import TimeSpan

_GREATEST = 3  # values whose part of the change a dimension explains, as far as it is certain; 0 where there is none


@dataclass(frozen=True, slots=True)
class ComparedSpans:
    """Two spans of whole kept buckets."""

    before: TimeSpan
    after: TimeSpan

    @property
    def only_before(self) -> list[TimeSpan]:
        """The pieces of the span before that the other does not hold."""
        return _without(self.before, self.after)

    @property
    def only_after(self) -> list[TimeSpan]:
        """The pieces of the span after that the other does not hold."""
        return _without(self.after, self.before)

    @property
    def shared(self) -> list[TimeSpan]:
        """What both hold."""
        start, end = max(self.before[0], self.after[0]), min(self.before[1], self.after[1])
        return [(start, end)] if start < end else []


def compare_spans(row: BreakdownRow, before: TimeSpan, after: TimeSpan) -> ComparedSpans:
    """Widens both spans to whole kept buckets."""
    return ComparedSpans(row.whole_span(*before), row.whole_span(*after))


def spans_around(row: BreakdownRow, after: TimeSpan, now: int) -> ComparedSpans:
    """Returns a span and the one before it, as long where that can be, both of whole kept buckets.

    A span that has not ended is compared up to the same moment of it. Old buckets are wide, so that the moments that
    both spans begin and end at may lie inside one: `align_spans`.
    """
    length = after[1] - after[0]
    elapsed = max(0, min(after[1], row.bounded.ladder.kept(now, row.counts.fold_day)[1]) - after[0])
    before = max(0, after[0] - length), max(0, after[0] - length + elapsed)
    return align_spans(row, before, (after[0], after[0] + elapsed))


def align_spans(row: BreakdownRow, before: TimeSpan, after: TimeSpan) -> ComparedSpans:
    """Cuts two spans alike to edges of kept buckets inside; where that costs too much, widens both.

    Too much is more than a quarter of one of them.
    """
    cut = row.edge_at_or_after(before[0]), row.edge_at_or_before(before[1])
    cut_after = after[0] + cut[0] - before[0], after[1] - (before[1] - cut[1])
    if _most_of(before, cut) and _most_of(after, cut_after) and all(map(row.is_edge, cut_after)):
        return compare_spans(row, cut, cut_after)
    return compare_spans(row, before, after)


def _most_of(span: TimeSpan, cut: TimeSpan) -> bool:
    return 4 * (cut[1] - cut[0]) >= 3 * (span[1] - span[0])


def _without(span: TimeSpan, other: TimeSpan) -> list[TimeSpan]:
    """Returns the pieces of a span that lie outside another one."""
    pieces = [(span[0], min(span[1], other[0])), (max(span[0], other[1]), span[1])]
    return [(start, end) for start, end in pieces if start < end]


def count_spans(row: BreakdownRow, spans: Sequence[TimeSpan], dimension: str) -> int:
    """Counts the hits of spans of whole kept buckets: people, or bots for the dimension of bots."""
    return sum(sum(between(row.counts, span, series_of(dimension))) for span in spans)


def find_causes(row: BreakdownRow, dimension: str, spans: ComparedSpans, limit: int) -> DimensionAnswer:
    """Divides the change of the total between two spans by a dimension."""
    old = _sum_values(row, dimension, spans.only_before)
    new = _sum_values(row, dimension, spans.only_after)
    shared = _sum_values(row, dimension, spans.shared).counts
    counted = [count_spans(row, pieces, dimension) for pieces in (spans.only_before, spans.only_after)]
    growth = counted[1] / counted[0] if counted[0] else 0.0
    judged = sorted(
        (_judged(value, old, new, shared[value], growth) for value in old.counts.keys() | new.counts.keys()),
        key=lambda each: (-abs(each[0]), -abs(each[1].change), each[1].value),
    )
    causes = [cause for beyond, cause in judged if beyond][:limit]
    total, other = counted[1] - counted[0], new.other - old.other
    changed = sum(cause.change for _, cause in judged)
    parts = sorted((beyond / total for beyond, _ in judged), reverse=True) if total else []
    explains = min(1.0, sum(part for part in parts[:_GREATEST] if part > 0))
    kept_since = row.bounded.kept_since(dimension, row.counts.fold_day)
    return DimensionAnswer(
        dimension,
        round(explains, 3),
        causes,
        HiddenChange(len(judged) - len(causes), changed - sum(cause.change for cause in causes)),
        other,
        total - changed - other,  # what rows of different moments lack is not recorded either
        UNSET if kept_since is None else kept_since,
    )


class _Values(NamedTuple):
    """The values of some spans. lacking: the most that a value may have more; unsure: the same of `""`."""

    counts: Counter[str]
    other: int
    lacking: int
    unsure: int

    def more(self, value: str) -> int:
        return self.unsure if value == NOT_GIVEN else self.lacking


def _sum_values(row: BreakdownRow, dimension: str, spans: Sequence[TimeSpan]) -> _Values:
    counts: Counter[str] = Counter()
    other = slack = unsure = 0
    for start, end in spans:
        part = breakdown_total(row.breakdown, dimension, start, end, row.bounded)
        (missing,) = row.without_value(dimension, (start, end))
        counts.update(part.values)
        if missing.not_given or missing.unsure:
            counts[NOT_GIVEN] += missing.not_given
        other, slack, unsure = other + part.other, slack + min(part.slack, part.other), unsure + missing.unsure
    return _Values(counts, other, slack, unsure)


def _judged(value: str, old: _Values, new: _Values, shared: int, growth: float) -> tuple[float, CauseAnswer]:
    """Returns by how much a value's change certainly exceeds the common change, and the change itself.

    shared: the value's hits in buckets that both spans hold.
    """
    before, after = old.counts[value], new.counts[value]
    less, more = old.more(value), new.more(value)
    change = after - before
    cause = CauseAnswer(value, change, change - less, change + more, before + shared, after + shared)
    beyond = 0.0
    if cause.at_least > 0:
        beyond = max(0.0, after - (before + less) * growth)
    elif cause.at_most < 0:
        beyond = min(0.0, after + more - before * growth)
    return beyond, cause
