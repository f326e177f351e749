"""Totals and curves of a row: what its kept buckets say about a span, and what they cannot say.

A span that cuts a kept bucket has no exact total: the bucket's hits may lie in the span or outside. So a total is two
bounds, and a curve is made of whole kept buckets only. Nothing is interpolated, nothing clipped: a point that the span
only contains in part says so (`partial`), has its own start and end, and its whole count.

Where a step's edge falls inside a kept bucket it moves up to that bucket's end, because the bucket's count cannot be
divided. So the points always tile, and their counts always add up to the same total whatever the steps.

Pure and without calendar zones: the steps come in as edges. The row must be folded to the day that is meant.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, repeat
from operator import add, sub
from typing import NamedTuple

from buckets.ladder import Ladder
from buckets.row import Cells, Row


class Bots(StrEnum):
    """Which of the two series an answer counts."""

    exclude = "exclude"
    include = "include"
    only = "only"


class State(StrEnum):
    """complete: the point lies in the asked span, and in the past. partial: the span has only a part of it.
    open: it has not ended yet."""

    complete = "complete"
    partial = "partial"
    open = "open"


class Point(NamedTuple):
    """The count of [start, end), epoch seconds. A named tuple: a curve makes hundreds."""

    start: int
    end: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks of a point
    state: State


class Columns(NamedTuple):
    """A curve's points as columns: point i is [edges[i], edges[i + 1]). One edge more than counts, or none at all."""

    edges: list[int]
    counts: list[int]
    states: list[State]


@dataclass(frozen=True, slots=True)
class Span:
    """What is known of the count in a span: between at_least and at_most. total is that of all buckets it touches."""

    total: int
    at_least: int
    at_most: int

    @property
    def exact(self) -> bool:
        return self.at_least == self.at_most


def total(row: Row, start: int, end: int, bots: Bots, ladder: Ladder) -> Span:
    """The bounds of the count in [start, end), epoch seconds. An empty span counts 0."""
    if start >= end:
        return Span(0, 0, 0)
    touched = _touched(row, start, end, bots, ladder)
    return _span(touched, sum(sum(counts) for _, counts in touched.series), start, end)


def curve(
    row: Row, start: int, end: int, edges: Sequence[int], now: int, bots: Bots, ladder: Ladder
) -> tuple[list[Point], Span]:
    """The points of [start, end) and its bounds; `edges` are the steps' edges, ascending, strictly inside.

    The first point begins with the kept bucket that holds `start`. Each edge, and `end`, moves up to the end of the
    kept bucket that it falls inside; edges that become equal are one, so a step finer than what is kept gives points of
    the kept width, zeros included. The points' counts add up to the span's total. An empty span has no points.
    """
    columns, span = curve_columns(row, start, end, edges, now, bots, ladder)
    rows = zip(columns.edges, columns.edges[1:], columns.counts, columns.states, strict=False)
    return list(map(tuple.__new__, repeat(Point), rows)), span  # Point(...) of each, in C: a third of the time


def curve_columns(
    row: Row, start: int, end: int, edges: Sequence[int], now: int, bots: Bots, ladder: Ladder
) -> tuple[Columns, Span]:
    """`curve` without its points, for answers that are written from columns."""
    if start >= end:
        return Columns([], [], []), Span(0, 0, 0)
    touched = _touched(row, start, end, bots, ladder)
    at = [touched.start, *_moved_up([*edges, end], row.fold_day, ladder)]
    counts = [0] * (len(at) - 1)
    for starts, of_bucket in touched.series:
        counts = _rebucketed(starts, of_bucket, at, counts)
    return Columns(at, counts, _states(at, start, end, now)), _span(touched, sum(counts), start, end)


def between(row: Row, edges: Sequence[int], bots: Bots) -> list[int]:
    """The count in each [edges[i], edges[i + 1]), for edges that are edges of the row's kept buckets already."""
    counts = [0] * (len(edges) - 1) if edges else []
    series = []
    if bots is not Bots.only:
        series.append(row.people_cells)
    if bots is not Bots.exclude:
        series.append(row.bot_cells)
    for cells in series if counts else ():
        counts = _rebucketed(*_joined(cells, edges[0], edges[-1]), edges, counts)
    return counts


class _Touched(NamedTuple):
    """The kept buckets that a span touches: where the first begins, where the last begins and ends; and for each series
    asked for the starts and counts of those that are not empty, all tiers in one."""

    start: int
    last_start: int
    end: int
    series: list[tuple[list[int], list[int]]]


def _touched(row: Row, start: int, end: int, bots: Bots, ladder: Ladder) -> _Touched:
    since = ladder.kept(start, row.fold_day)[0]
    last_start, until = ladder.kept(end - 1, row.fold_day)
    series = []
    if bots is not Bots.only:
        series.append(_joined(row.people_cells, since, until))
    if bots is not Bots.exclude:
        series.append(_joined(row.bot_cells, since, until))
    return _Touched(since, last_start, until, series)


def _joined(cells: tuple[Cells, ...], since: int, until: int) -> tuple[list[int], list[int]]:
    """The buckets of all tiers that start in [since, until), oldest first. Coarse is old: the last tier comes first."""
    joined: tuple[list[int], list[int]] = [], []
    for starts, counts in reversed(cells):
        if starts and starts[0] < until and starts[-1] >= since:
            first, last = bisect_left(starts, since), bisect_left(starts, until)
            joined[0].extend(starts[first:last])
            joined[1].extend(counts[first:last])
    return joined


def _rebucketed(starts: list[int], of_bucket: list[int], at: Sequence[int], counts: list[int]) -> list[int]:
    """`counts` with each bucket's count added to the point, between the edges `at`, that holds the bucket."""
    if len(starts) < len(counts):
        for start, count in zip(starts, of_bucket, strict=True):
            counts[bisect_right(at, start) - 1] += count
        return counts
    sums = list(accumulate(of_bucket, initial=0))
    until = [sums[bisect_left(starts, edge)] for edge in at]
    return list(map(add, counts, map(sub, until[1:], until)))


def _span(touched: _Touched, count: int, start: int, end: int) -> Span:
    """The bounds: what is counted in the first and the last bucket is uncertain where the span cuts them."""
    cut = set()
    if touched.start < start:
        cut.add(touched.start)
    if touched.end > end:
        cut.add(touched.last_start)
    uncertain = 0
    for bucket in cut:
        for starts, counts in touched.series:
            at = bisect_left(starts, bucket)
            if at < len(starts) and starts[at] == bucket:
                uncertain += counts[at]
    return Span(count, count - uncertain, count)


def _moved_up(edges: list[int], fold_day: int, ladder: Ladder) -> list[int]:
    """Each edge moved up to an edge between kept buckets; equal ones once. Tier by tier, so the loops are short."""
    cuts = ladder.cuts(fold_day)
    moved: list[int] = []
    done = 0
    for tier in range(len(cuts) - 1, -1, -1):
        first, done = done, bisect_left(edges, cuts[tier - 1], done) if tier else len(edges)
        if first < done:
            inside = edges[first:done]
            up = ladder.tiers[tier].edges_up(inside)
            if moved and moved[-1] == up[0]:
                moved.pop()  # an older tier's edge had moved up to the cut
            moved += up if up is inside else dict.fromkeys(up)
    return moved


def _states(at: list[int], start: int, end: int, now: int) -> list[State]:
    """The states of the points between the edges `at`. Only the first and the last can be cut by the span."""
    states = [State.complete] * (len(at) - 1)
    if at[0] < start:
        states[0] = State.partial
    if at[-1] > end:
        states[-1] = State.partial
    if at[-1] > now:
        ended = bisect_right(at, now) - 1  # the point that holds now, and all after it, are open
        states[max(ended, 0) :] = [State.open] * (len(states) - max(ended, 0))
    return states
