"""A row's counts along a layout's edges, with the bounds of the asked range."""

from __future__ import annotations

from bisect import bisect_left

from clickcurve.buckets.ranges import Bots, Span, between
from clickcurve.buckets.row import Cells, Row
from query.grid import Layout


def along(row: Row, layout: Layout, bots: Bots) -> tuple[list[int], Span]:
    """One count per point, of a row that is folded to the layout's fold day; and what is known of the asked range."""
    counts = between(row, layout.edges, bots)
    uncertain = 0
    if bots is not Bots.only:
        uncertain += _cut(row.people_cells, layout)
    if bots is not Bots.exclude:
        uncertain += _cut(row.bot_cells, layout)
    total = sum(counts)
    return counts, Span(total, total - uncertain, total)


def _cut(cells: tuple[Cells, ...], layout: Layout) -> int:
    """What the buckets hold of which the range has only a part."""
    cut = 0
    for tier, start in layout.cut:
        starts, counts = cells[tier] if cells else ((), ())
        at = bisect_left(starts, start)
        if at < len(starts) and starts[at] == start:
            cut += counts[at]
    return cut
