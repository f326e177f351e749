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
from itertools import repeat
from typing import NamedTuple

from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.row import Cells, Row


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
    first, last = ladder.kept(start, row.fold_day), ladder.kept(end - 1, row.fold_day)
    cut = set()
    if first[0] < start:
        cut.add(first)
    if last[1] > end:
        cut.add(last)
    count = sum(between(row, (first[0], last[1]), bots))
    return Span(count, count - sum(sum(between(row, bucket, bots)) for bucket in cut), count)


def curve(
    row: Row, start: int, end: int, edges: Sequence[int], now: int, bots: Bots, ladder: Ladder
) -> tuple[list[Point], Span]:
    """The points of [start, end) and its bounds; `edges` are the steps' edges, ascending, strictly inside.

    The first point begins with the kept bucket that holds `start`. Each edge, and `end`, moves up to the end of the
    kept bucket that it falls inside; edges that become equal are one, so a step finer than what is kept gives points of
    the kept width, zeros included. The points' counts add up to the span's total. An empty span has no points.
    """
    if start >= end:
        return [], Span(0, 0, 0)
    at = [ladder.kept(start, row.fold_day)[0], *_moved_up([*edges, end], row.fold_day, ladder)]
    columns = zip(at, at[1:], between(row, at, bots), _states(at, start, end, now), strict=False)
    points = list(map(tuple.__new__, repeat(Point), columns))  # Point(...) of each, in C: a third of the time
    return points, total(row, start, end, bots, ladder)


def between(row: Row, edges: Sequence[int], bots: Bots) -> list[int]:
    """The count in each [edges[i], edges[i + 1]), for ascending edges that lie between kept buckets of the row."""
    counts = [0] * (len(edges) - 1)
    if counts and bots is not Bots.only:
        counts = _added(row.people_cells, edges, counts)
    if counts and bots is not Bots.exclude:
        counts = _added(row.bot_cells, edges, counts)
    return counts


def _added(cells: tuple[Cells, ...], edges: Sequence[int], counts: list[int]) -> list[int]:
    """`counts` with each bucket's count added to that between the edges around it."""
    starts, of_bucket = _joined(cells, edges[0], edges[-1])
    if len(starts) < len(counts):
        for start, count in zip(starts, of_bucket, strict=True):
            counts[bisect_right(edges, start) - 1] += count
        return counts
    at = [bisect_left(starts, edge) for edge in edges]
    return [count + sum(of_bucket[since:until]) for count, since, until in zip(counts, at, at[1:], strict=False)]


def _joined(cells: tuple[Cells, ...], since: int, until: int) -> tuple[list[int], list[int]]:
    """The buckets of all tiers that start in [since, until), oldest first. Coarse is old: the last tier comes first."""
    joined: tuple[list[int], list[int]] = [], []
    for starts, counts in reversed(cells):
        if starts and starts[0] < until and starts[-1] >= since:
            first, last = bisect_left(starts, since), bisect_left(starts, until)
            joined[0].extend(starts[first:last])
            joined[1].extend(counts[first:last])
    return joined


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
