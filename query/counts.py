"""A row's counts along a grid's edges, with the bounds of the requested range."""

from __future__ import annotations

from bisect import bisect_left

from clickcurve.buckets.cells import Cells
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, Span, between, bounded
from clickcurve.buckets.ranges import total as span_of
from clickcurve.buckets.row import Row
from query.grid import Grid


def counts_along(row: Row, grid: Grid, bots: Bots, ladder: Ladder) -> tuple[list[int], Span]:
    """Returns one count per point, and what is known of the requested range.

    The row must be folded to the grid's fold day, and no edge lie inside a bucket with hits that are called bots.
    """
    counts = between(row, grid.edges, bots)
    total = sum(counts)
    if row.disavowed is not None:
        window = span_of(row, grid.window.start, grid.window.end, bots, ladder)
        return counts, Span(total, window.at_least, window.at_most)
    if not grid.cut:
        return counts, Span(total, total, total)
    cut = [(bucket, _count_of(row, tier, bucket[0], bots)) for tier, bucket in grid.cut]
    return counts, bounded(total, cut, row, grid.window.start, grid.window.end)


def _count_of(row: Row, tier: int, start: int, bots: Bots) -> int:
    """Returns the count of the bucket of a tier that begins at `start`."""
    count = 0
    if bots is not Bots.only:
        count += _in_cells(row.people_cells, tier, start)
    if bots is not Bots.exclude:
        count += _in_cells(row.bot_cells, tier, start)
    return count


def _in_cells(cells: tuple[Cells, ...], tier: int, start: int) -> int:
    starts, counts = cells[tier] if cells else ((), ())
    at = bisect_left(starts, start)
    return counts[at] if at < len(starts) and starts[at] == start else 0
