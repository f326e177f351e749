"""A row's counts: within a range, with bounds, and along a layout's edges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add, sub

from buckets.curve import Bots
from buckets.row import Cells, Row
from query.layout import Layout


@dataclass(frozen=True, slots=True)
class Along:
    """counts[i] belongs to point i of the layout; total is their sum. at_least leaves out the buckets that the range cuts."""

    counts: list[int]
    total: int
    at_least: int


def along(row: Row, layout: Layout, bots: Bots) -> Along:
    """Count a row that is folded to the layout's fold day along its points."""
    if bots is Bots.include:
        people, machines = _counts(row.people_cells, layout.edges), _counts(row.bot_cells, layout.edges)
        counts = list(map(add, people, machines))
        uncertain = _cut(row.people_cells, layout) + _cut(row.bot_cells, layout)
    else:
        cells = row.people_cells if bots is Bots.exclude else row.bot_cells
        counts = _counts(cells, layout.edges)
        uncertain = _cut(cells, layout)
    total = sum(counts)
    return Along(counts, total, total - uncertain)


def _counts(cells: tuple[Cells, ...], edges: Sequence[int]) -> list[int]:
    """The sum of the cells in each [edges[i], edges[i + 1])."""
    points = max(0, len(edges) - 1)
    starts, values = _within(cells, edges)
    if len(starts) < points:
        counts = [0] * points
        for start, value in zip(starts, values, strict=True):
            counts[bisect_right(edges, start) - 1] += value
        return counts
    if not starts:
        return [0] * points
    sums = [0, *accumulate(values)]
    before = [sums[bisect_left(starts, edge)] for edge in edges]
    return list(map(sub, before[1:], before))


def _within(cells: tuple[Cells, ...], edges: Sequence[int]) -> Cells:
    """The cells of all tiers between the first and the last edge, oldest first. Tiers do not overlap, coarse = old."""
    if not edges:
        return (), ()
    starts: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    first, last = edges[0], edges[-1]
    for tier_starts, tier_values in reversed(cells):
        if tier_starts and tier_starts[-1] >= first and tier_starts[0] < last:
            low, high = bisect_left(tier_starts, first), bisect_left(tier_starts, last)
            starts += tier_starts[low:high]
            values += tier_values[low:high]
    return starts, values


def _cut(cells: tuple[Cells, ...], layout: Layout) -> int:
    """What the buckets hold of which the range has only a part."""
    cut = 0
    for tier, start in layout.cut:
        starts, values = cells[tier] if cells else ((), ())
        at = bisect_left(starts, start)
        if at < len(starts) and starts[at] == start:
            cut += values[at]
    return cut
