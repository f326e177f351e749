"""Calling counted hits bots, and calling them back: two rows beside those of a link, which only ever grow.

No row of hits is changed. What is called bots is a row of counts, `moved`, with its breakdown, `named`:

    moved   people: hits that were called bots, at the start of a bucket of the breakdown
            bots: those of them that were called back, or that another dimension had called already
    named   dimension `ref`: how many of which value were called; dimension `-ref`: how many of these were called back

So signed counts are pairs of counts that both only rise, and the two rows are written, flushed and folded as a group's.

In a bucket, `T(d, v)` are the called hits of value v of dimension d, `S` all called hits. Two values of one dimension
are different hits, so they add up. Two dimensions may mean the same hits, so there the greater counts, never the sum:

    S == max over dimensions of the sum of T(d, .), as long as a bucket is not folded

The laws, each with a property test against raw hits (`tests/buckets/breakdowns/test_disavow.py`):

1. People and bots of each bucket together stay as they were, and 0 <= S <= people.
2. S is at most the hits that were meant, and just these where nothing was trimmed and one dimension is used.
3. Calling the same twice is calling it once. After all is called back every answer is as it was.
4. No fold changes what is left of a bucket that is not folded, nor any sum.

What cannot be done: pairs of dimensions, parts of a bucket, hits of values that were not kept, visitors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from clickcurve.buckets.breakdowns.breakdown import NOT_GIVEN, WIDEST, Breakdown, BreakdownDelta, ValueCounts
from clickcurve.buckets.breakdowns.check import BACK, OF_BOTS
from clickcurve.buckets.cells import Cells
from clickcurve.buckets.disavowed import Disavowed
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, between
from clickcurve.buckets.row import EMPTY, Delta, Row

CORRECTIONS = WIDEST  # of `named`: a bucket with more called values than that forgets which they were


class Moved(NamedTuple):
    """The correction of a link: its two rows, summed over owners and folded to the day of the link's rows."""

    counts: Row = EMPTY
    named: Breakdown = CORRECTIONS.empty


class CalledLink(NamedTuple):
    """A link as a correction sees it: its rows, summed over owners and folded to one day, and what was called."""

    counts: Row
    breakdown: Breakdown
    moved: Moved
    ladder: Ladder  # of counts

    def span(self, start: int) -> tuple[int, int]:
        """Returns the bucket of the breakdown that holds a moment."""
        return CORRECTIONS.ladder.kept(start, self.breakdown.fold_day)


class Correction(NamedTuple):
    """What is to be added to `moved` and `named`.

    at_least, at_most  bounds of the value's hits in the range that were not called before. buckets: how many whole
    ones there are in the range.
    """

    counts: Delta = Delta({}, {})
    named: BreakdownDelta = BreakdownDelta({})
    at_least: int = 0
    at_most: int = 0
    buckets: int = 0

    def __bool__(self) -> bool:
        return bool(self.counts.people or self.counts.bots)


def disavow(link: CalledLink, dimension: str, value: str, since: int, until: int) -> Correction:
    """Calls bots what is certain of a value, in the whole buckets of [since, until)."""
    people: dict[int, int] = {}
    bots: dict[int, int] = {}
    named: dict[int, dict[str, int]] = {}
    at_least = at_most = buckets = 0
    for start, counts in _buckets_of(link.breakdown, dimension):
        low, high = link.span(start)
        if high <= since or low >= until:
            continue
        before = called_values(link.moved.named, dimension, low)
        more = counts.values.get(value, 0) - before.get(value, 0)
        at_most += max(0, more) + (0 if value == NOT_GIVEN else min(counts.slack, counts.other))
        if not since <= low < high <= until:
            continue  # perhaps all of them are outside
        buckets += 1
        counted = sum(between(link.counts, (low, high), Bots.exclude))
        called = called_between(link.moved.counts, low, high)
        more = min(more, counted - sum(before.values()))  # hits of an erased link may have been called
        if more <= 0:
            continue
        at_least += more
        named[low] = {value: more}
        people[low] = more
        if (called_already := min(more, called - sum(before.values()))) > 0:
            bots[low] = called_already
    return Correction(
        Delta(people, bots), BreakdownDelta({dimension: named} if named else {}), at_least, at_most, buckets
    )


def call_back(link: CalledLink, dimension: str, value: str, kept: Sequence[tuple[int, int]] = ()) -> Correction:
    """Calls all hits of a value people again, but those that another dimension is sure of.

    kept: ranges in which another rule calls the same value; in the whole buckets of these nothing changes.
    """
    people: dict[int, int] = {}
    bots: dict[int, int] = {}
    named: dict[int, dict[str, int]] = {}
    names = [name for name in link.moved.named.dimensions if not name.startswith(BACK)]
    at_least = 0
    for start, _ in _buckets_of(link.moved.named, dimension):
        low, high = link.span(start)
        if any(since <= low and high <= until for since, until in kept):
            continue
        called = {name: called_values(link.moved.named, name, low) for name in names}
        gone = called[dimension].pop(value, 0)
        if gone <= 0:
            continue
        named[low] = {value: gone}
        sure = max(sum(values.values()) for values in called.values())
        back = max(0, min(gone, called_between(link.moved.counts, low, high) - sure))
        at_least += back
        bots[low] = gone
        if back < gone:
            people[low] = gone - back  # called again, by the other dimension
    return Correction(
        Delta(people, bots), BreakdownDelta({BACK + dimension: named} if named else {}), at_least, at_least, len(named)
    )


def call_back_all(link: CalledLink) -> Correction:
    """Makes nothing be called bots of a link, whatever was: it was erased while a correction was under way.

    Of hits that are no more a correction may also have called back what nobody calls now: that is made up for, too.
    """
    named: dict[str, dict[int, dict[str, int]]] = {}
    most: dict[int, int] = {}  # by bucket: the values of a dimension that change
    for name in sorted({name.removeprefix(BACK) for name in link.moved.named.dimensions}):
        changed: dict[int, int] = {}
        for start in sorted(
            {start for each in (name, BACK + name) for start, _ in _buckets_of(link.moved.named, each)}
        ):
            called, back = (_bucket(link.moved.named, each, start) for each in (name, BACK + name))
            for value in sorted({*called, *back} - {NOT_GIVEN}):
                if left := called.get(value, 0) - back.get(value, 0):
                    low = link.span(start)[0]
                    named.setdefault(BACK + name if left > 0 else name, {}).setdefault(low, {})[value] = abs(left)
                    changed[low] = changed.get(low, 0) + abs(left)
        most = {low: max(most.get(low, 0), changed.get(low, 0)) for low in {*most, *changed}}
    spans = spans_of(link.moved.counts, link.breakdown.fold_day, link.ladder)
    over = {low: called for low, _, called in spans if called}
    people = {low: count for low in {*over, *most} if (count := most.get(low, 0) + max(0, -over.get(low, 0)))}
    bots = {low: count for low in {*over, *most} if (count := most.get(low, 0) + max(0, over.get(low, 0)))}
    return Correction(Delta(people, bots), BreakdownDelta(named), buckets=len({*people, *bots}))


def reconcile(link: CalledLink) -> Correction:
    """Calls back what was called of hits that are no more: a link was erased while a correction was under way."""
    bots = {}
    for low, high, called in spans_of(link.moved.counts, link.breakdown.fold_day, link.ladder):
        over = called - sum(between(link.counts, (low, high), Bots.exclude))
        if over > 0:
            bots[low] = over
    return Correction(Delta({}, bots))


def called_between(moved: Row, low: int, high: int) -> int:
    """Counts the hits of a whole bucket that were counted as people and are called bots now."""
    edges = (low, high)
    return between(moved, edges, Bots.exclude)[0] - between(moved, edges, Bots.only)[0]


def called_values(named: Breakdown, dimension: str, start: int) -> dict[str, int]:
    """Returns how many hits of which values of a bucket are called bots."""
    called, back = (_bucket(named, name, start) for name in (dimension, BACK + dimension))
    return {value: left for value, count in called.items() if (left := count - back.get(value, 0)) > 0}


def spans_of(moved: Row, fold_day: int, ladder: Ladder) -> Iterator[tuple[int, int, int]]:
    """Yields the breakdown's buckets in which hits were called, in order: start, end, and how many are called now.

    moved  is folded to fold_day, by the ladder of counts.
    """
    starts = {CORRECTIONS.ladder.kept(at, fold_day) for cells in _all_cells(moved) for at in cells[0]}
    for low, high in sorted(starts):
        yield low, high, called_between(moved, low, high)


def _all_cells(moved: Row) -> Iterator[Cells]:
    yield from moved.people_cells
    yield from moved.bot_cells


def disavowed_of(moved: Row, fold_day: int, ladder: Ladder) -> Disavowed | None:
    """Returns what is called of a row's hits; None for nothing."""
    return Disavowed.of(spans_of(moved, fold_day, ladder))


class CorrectedBreakdown(NamedTuple):
    """A breakdown without the called hits. unsure: dimension -> start of a bucket -> hits without a value that may be
    called: so many more than are counted may have none."""

    breakdown: Breakdown
    unsure: Mapping[str, Mapping[int, int]]


def without_called(breakdown: Breakdown, moved: Moved, ladder: Ladder) -> CorrectedBreakdown:
    """Returns a link's breakdown without what is called of it; its sums fall by what is called of recorded hits.

    In the dimension of a rule a value loses what is called of it; what a fold has trimmed since comes off `other`. In
    every other dimension nobody knows which values the hits had: each is certain of so much less, and the slack grows
    by that. Both are folded to one day.
    """
    called = {low: count for low, _, count in spans_of(moved.counts, breakdown.fold_day, ladder) if count > 0}
    if not called:
        return CorrectedBreakdown(breakdown, {})
    dimensions = dict(breakdown.dimensions)
    unsure: dict[str, dict[int, int]] = {}
    for name, tiers in breakdown.dimensions.items():
        if name in OF_BOTS:
            continue
        new: list[Mapping[int, ValueCounts]] = []
        for tier in tiers:
            touched = called.keys() & set(tier)
            if not touched:
                new.append(tier)
                continue
            buckets = dict(tier.items())
            for start in touched:
                gone = called_values(moved.named, name, start)
                by_others = max(0, called[start] - sum(gone.values()))
                buckets[start], maybe = _without(buckets[start], gone, by_others)
                if maybe:
                    unsure.setdefault(name, {})[start] = maybe
            new.append({start: counts for start, counts in buckets.items() if counts.values or counts.other})
        dimensions[name] = tuple(new)
    return CorrectedBreakdown(breakdown._replace(dimensions=dimensions), unsure)


def _without(counts: ValueCounts, gone: Mapping[str, int], by_others: int) -> tuple[ValueCounts, int]:
    """Returns a bucket without called hits, and how many hits without a value may be among those called by others."""
    values, other, slack = dict(counts.values), counts.other, counts.slack
    for value, count in gone.items():
        left = values.pop(value, 0) - count
        if left > 0:
            values[value] = left
        else:
            other = max(0, other + left)  # a fold has trimmed some of them
    if not by_others:
        return ValueCounts(values, other, min(slack, other)), 0
    recorded = sum(values.values()) + other
    maybe = min(by_others, values.get(NOT_GIVEN, 0))
    sure = {value: count - by_others for value, count in values.items() if count > by_others}
    left = max(0, recorded - by_others) - sum(sure.values())
    # Of a sum that is all in single values nothing may be left for `other`: those are certain then.
    return ValueCounts(sure, max(0, left), min(slack + by_others, max(0, left))), maybe


def _buckets_of(row: Breakdown, dimension: str) -> Iterator[tuple[int, ValueCounts]]:
    for tier in row.dimensions.get(dimension, ()):
        yield from tier.items()


def _bucket(row: Breakdown, dimension: str, start: int) -> Mapping[str, int]:
    for tier in row.dimensions.get(dimension, ()):
        if start in tier:
            return tier[start].values
    return {}
