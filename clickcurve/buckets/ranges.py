"""What a row's kept buckets say about a span of time, and what they cannot say.

A span that cuts a kept bucket has no exact total: the bucket's hits may lie in the span or outside. So a total is two
bounds. They meet where the cut is certain: where the bucket is empty, or where the row's first and last hit, known to
the minute, put all its hits on one side. Counts are those of whole kept buckets only: nothing is interpolated.

Pure and without calendar zones: the edges come in as epoch seconds. The row must be folded to the day that is meant.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from clickcurve.buckets.cells import Cells
from clickcurve.buckets.ladder import MINUTE_S, Ladder
from clickcurve.buckets.row import Row

Bucket: TypeAlias = tuple[int, int]  # [start, end)


class Bots(StrEnum):
    """Which of the two series an answer counts."""

    exclude = "exclude"
    include = "include"
    only = "only"


@dataclass(frozen=True, slots=True)
class Span:
    """What is known of the count in a span: between at_least and at_most. total is that of all buckets it touches.

    So at_most is less than the total where a cut bucket is known to have all its hits outside.
    """

    total: int
    at_least: int
    at_most: int

    @property
    def exact(self) -> bool:
        return self.at_least == self.at_most


def total(row: Row, start: int, end: int, bots: Bots, ladder: Ladder) -> Span:
    """Returns the bounds of the count in [start, end), epoch seconds. An empty span counts 0."""
    span = _counted(row, start, end, bots, ladder)
    if row.disavowed is None or bots is Bots.include or start >= end:
        return span
    for low, high, called in row.disavowed.overlapping(start, end):
        (counted,) = _between(row, (low, high), Bots.exclude)
        piece = _counted(row, max(low, start), min(high, end), Bots.exclude, ladder)
        span = _corrected(span, piece, counted, min(called, counted), bots)
    return span


def _corrected(span: Span, piece: Span, counted: int, called: int, bots: Bots) -> Span:
    """Returns a span's count without the called hits of a piece of it, or with them where bots are counted.

    counted: people in all of the bucket that the piece is of; called: those of them that are called bots.
    """
    stay = counted - called
    if bots is Bots.only:
        return Span(
            span.total + min(called, piece.total),
            span.at_least + max(0, piece.at_least - stay),
            span.at_most + min(called, piece.at_most),
        )
    return Span(
        span.total - max(0, piece.total - stay),
        span.at_least - min(piece.at_least, called),
        span.at_most - max(0, piece.at_most - stay),
    )


def _counted(row: Row, start: int, end: int, bots: Bots, ladder: Ladder) -> Span:
    """Returns the bounds of what was counted in [start, end)."""
    if start >= end:
        return Span(0, 0, 0)
    first, last = ladder.kept(start, row.fold_day), ladder.kept(end - 1, row.fold_day)
    cut = set()
    if first[0] < start:
        cut.add(first)
    if last[1] > end:
        cut.add(last)
    count = sum(_between(row, (first[0], last[1]), bots))
    return bounded(count, [(bucket, sum(_between(row, bucket, bots))) for bucket in cut], row, start, end)


def bounded(total: int, cut: Iterable[tuple[Bucket, int]], row: Row, start: int, end: int) -> Span:
    """Returns the bounds of the count in [start, end), from the buckets that it cuts with their counts."""
    at_least = at_most = total
    for (low, high), count in cut:
        if not count or row.first is None or row.last is None:
            continue
        # Of people or bots: so these hold the hits of both.
        earliest, latest = max(low, row.first), min(high, row.last + MINUTE_S)
        if earliest < start or latest > end:
            at_least -= count
        if latest <= start or earliest >= end:
            at_most -= count
    return Span(total, at_least, at_most)


def between(row: Row, edges: Sequence[int], bots: Bots) -> list[int]:
    """Counts the hits in each [edges[i], edges[i + 1]). The edges ascend and lie between kept buckets of the row.

    Where they cut a bucket with hits that are called bots, each part counts the most people that it may have left.
    """
    counts = _between(row, edges, bots)
    if row.disavowed is None or bots is Bots.include or not counts:
        return counts
    for low, high, called in row.disavowed.overlapping(edges[0], edges[-1]):
        (counted,) = _between(row, (low, high), Bots.exclude)
        stay = max(0, counted - called)
        first, last = max(0, bisect_right(edges, low) - 1), min(len(counts), bisect_left(edges, high))
        for point in range(first, last):
            (piece,) = _between(row, (max(low, edges[point]), min(high, edges[point + 1])), Bots.exclude)
            gone = max(0, piece - stay)
            counts[point] += gone if bots is Bots.only else -gone
    return counts


def _between(row: Row, edges: Sequence[int], bots: Bots) -> list[int]:
    """Counts what was counted, as `between` does."""
    counts = [0] * (len(edges) - 1)
    if counts and bots is not Bots.only:
        counts = _with_series(row.people_cells, edges, counts)
    if counts and bots is not Bots.exclude:
        counts = _with_series(row.bot_cells, edges, counts)
    return counts


def _with_series(cells: tuple[Cells, ...], edges: Sequence[int], counts: list[int]) -> list[int]:
    """Adds each bucket's count to the one between the edges around it."""
    starts, of_bucket = _joined(cells, edges[0], edges[-1])
    if len(starts) < len(counts):
        for start, count in zip(starts, of_bucket, strict=True):
            counts[bisect_right(edges, start) - 1] += count
        return counts
    at = [bisect_left(starts, edge) for edge in edges]
    return [count + sum(of_bucket[since:until]) for count, since, until in zip(counts, at, at[1:], strict=False)]


def _joined(cells: tuple[Cells, ...], since: int, until: int) -> tuple[list[int], list[int]]:
    """Joins the buckets of all tiers that start in [since, until), oldest first. Coarse is old: the last tier comes
    first."""
    joined: tuple[list[int], list[int]] = [], []
    for starts, counts in reversed(cells):
        if starts and starts[0] < until and starts[-1] >= since:
            first, last = bisect_left(starts, since), bisect_left(starts, until)
            joined[0].extend(starts[first:last])
            joined[1].extend(counts[first:last])
    return joined
