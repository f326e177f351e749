"""Cells: the buckets of one tier of a row, and what happens to them when hits land, a day ends or rows are summed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Protocol

from clickcurve.buckets.ladder import MINUTE_S, Ladder


class UnreadCells(Protocol):
    """Cells of one bucket or more that are read when they are asked for. `oldest` is known: the first start."""

    @property
    def oldest(self) -> int: ...

    def sum_since(self, start: int) -> int: ...

    def __iter__(self) -> Iterator[tuple[int, ...]]: ...

    def __getitem__(self, index: int, /) -> tuple[int, ...]: ...


Cells = tuple[tuple[int, ...], tuple[int, ...]] | UnreadCells  # bucket starts, ascending; their counts, each > 0
NO_CELLS: Cells = ((), ())


def land_minutes(
    cells: tuple[Cells, ...], minutes: Mapping[int, int], fold_day: int, ladder: Ladder
) -> tuple[Cells, ...]:
    """Returns the cells with the minutes' counts added, each in the tier that holds it."""
    if not minutes:
        return cells
    if ladder.tiers[0].width_s == MINUTE_S and min(minutes) >= ladder.cuts(fold_day)[0]:
        return (_added(cells[0], minutes), *cells[1:])
    more: dict[int, dict[int, int]] = {}
    for t, count in minutes.items():
        tier = ladder.tier_of(t, fold_day)
        start = ladder.tiers[tier].start(t)
        of_tier = more.setdefault(tier, {})
        of_tier[start] = of_tier.get(start, 0) + count
    landed = list(cells)
    for tier, of_tier in more.items():
        landed[tier] = _added(landed[tier], of_tier)
    return tuple(landed)


def _added(cells: Cells, more: Mapping[int, int]) -> Cells:
    """Returns the cells with more[start] added to each bucket."""
    starts, counts = map(list, cells)
    for start in sorted(more) if len(more) > 1 else more:
        at = bisect_left(starts, start)
        if at < len(starts) and starts[at] == start:
            counts[at] += more[start]
        else:
            starts.insert(at, start)
            counts.insert(at, more[start])
    return tuple(starts), tuple(counts)


def fold_cells(cells: tuple[Cells, ...], cuts: tuple[int, ...], ladder: Ladder) -> tuple[Cells, ...]:
    """Carries what each tier no longer holds into the next, finest first."""
    folded = []
    carried: Cells = NO_CELLS
    for tier, cut, tier_cells in zip(ladder.tiers, cuts, cells, strict=True):
        oldest = oldest_start(tier_cells)
        if not carried[0] and (oldest is None or oldest >= cut):
            folded.append(tier_cells)
            continue
        starts, counts = tier_cells
        if carried[0]:
            coarse: dict[int, int] = dict(zip(starts, counts, strict=True))
            for start, count in zip(tier.starts(carried[0]), carried[1], strict=True):
                coarse[start] = coarse.get(start, 0) + count
            starts, counts = tuple(coarse), tuple(coarse.values())
        if not starts or starts[0] >= cut:
            carried = NO_CELLS
            folded.append((starts, counts))
        else:
            kept = bisect_left(starts, cut)
            carried = starts[:kept], counts[:kept]
            folded.append((starts[kept:], counts[kept:]))
    return tuple(folded)


def oldest_start(cells: Cells) -> int | None:
    """Returns the first start, without reading the cells; None where there is no bucket."""
    if not isinstance(cells, tuple):
        return cells.oldest
    return cells[0][0] if cells[0] else None


def cells_since(cells: Cells, before: int) -> Cells:
    starts, counts = cells
    at = bisect_left(starts, before)
    return starts[at:], counts[at:]


def sum_cells(rows: list[tuple[Cells, ...]]) -> tuple[Cells, ...]:
    """Sums several rows' cells tier by tier, all rows at once."""
    return tuple([_sum_of_several([cells for cells in tier if cells[0]]) for tier in zip(*rows, strict=True)])


def _sum_of_several(several: list[Cells]) -> Cells:
    """Sums cells of one tier, none of them empty.

    Cells with the same starts, as owners of a busy link have them, are summed column by column: a quarter of the time.
    """
    alike: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for starts, counts in several:
        alike.setdefault(starts, []).append(counts)
    columns = [
        (starts, counts[0] if len(counts) == 1 else tuple(map(sum, zip(*counts, strict=True))))
        for starts, counts in alike.items()
    ]
    if len(columns) < 2:
        return columns[0] if columns else NO_CELLS
    sums = dict(zip(*columns[0], strict=True))
    get = sums.get
    for starts, counts in columns[1:]:
        for start, count in zip(starts, counts, strict=True):
            sums[start] = get(start, 0) + count
    starts = tuple(sorted(sums))
    return starts, tuple(map(sums.__getitem__, starts))


def replace_cells(whole: Cells, before: Cells, after: Cells) -> Cells:
    """Returns `whole`, a sum of several cells of a tier, with `after` in it in place of `before`.

    As a rule a flush has changed the last minutes only: comparing the others is a tenth of summing all anew.
    """
    if before == after:
        return whole
    starts, counts = before
    new_starts, new_counts = after
    alike, step = max(0, min(len(starts), len(new_starts)) - 16), 64
    while alike > 0 and (starts[:alike] != new_starts[:alike] or counts[:alike] != new_counts[:alike]):
        alike, step = max(0, alike - step), step * 4
    changes = dict(zip(new_starts[alike:], new_counts[alike:], strict=True))
    for start, count in zip(starts[alike:], counts[alike:], strict=True):
        changes[start] = changes.get(start, 0) - count
    sum_starts, sum_counts = map(list, whole)
    for start in sorted(changes):
        at = bisect_left(sum_starts, start)
        if at == len(sum_starts) or sum_starts[at] != start:
            sum_starts.insert(at, start)
            sum_counts.insert(at, changes[start])
        elif sum_counts[at] + changes[start]:
            sum_counts[at] += changes[start]
        else:  # no part has this bucket any more
            del sum_starts[at], sum_counts[at]
    return tuple(sum_starts), tuple(sum_counts)


def sum_since(cells: Cells, start: int) -> int:
    """Sums the counts of the buckets from `start` on, which `start` must begin."""
    if not isinstance(cells, tuple):
        return cells.sum_since(start)
    starts, counts = cells
    return sum(counts) if not starts or starts[0] >= start else sum(counts[bisect_left(starts, start) :])


def sum_of_cells(cells: tuple[Cells, ...]) -> int:
    return sum(sum(counts) for _, counts in cells)
