"""A row's counts along a grid's edges, with the bounds of the requested range."""

from __future__ import annotations

from bisect import bisect_left

from clickcurve.buckets.ranges import Bots, Span, between
from clickcurve.buckets.row import Cells, Row
from query.grid import Grid


def counts_along(row: Row, grid: Grid, bots: Bots) -> tuple[list[int], Span]:
    """Returns one count per point, and what is known of the requested range.

    The row must be folded to the grid's fold day.
    """
    counts = between(row, grid.edges, bots)
    uncertain = 0
    if bots is not Bots.only:
        uncertain += _uncertain(row.people_cells, grid)
    if bots is not Bots.exclude:
        uncertain += _uncertain(row.bot_cells, grid)
    total = sum(counts)
    return counts, Span(total, total - uncertain, total)


def _uncertain(cells: tuple[Cells, ...], grid: Grid) -> int:
    """Returns the count of the buckets of which the range holds only a part."""
    count = 0
    for tier, start in grid.cut:
        starts, counts = cells[tier] if cells else ((), ())
        at = bisect_left(starts, start)
        if at < len(starts) and starts[at] == start:
            count += counts[at]
    return count
