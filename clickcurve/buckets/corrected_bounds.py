"""Upper bounds of a link some hits of which are called bots: of all its owners' rows together, as they are answered.

Its ranks go by what is left of its people, and its bots by what was called beside what was counted. They must hold for
every later question (see `upper_bounds`). By then the spans in which hits were called are wider, and nobody knows on
which side of a cut these hits are: at last they are the months of the calendar, in which all narrower ones nest. So of
each month's people the earliest are taken for those that were called, since a range that cuts the month begins after
them, and of its bots the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Protocol

from clickcurve.buckets.cells import NO_CELLS, Cells
from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import MONTH, Ladder, Tier
from clickcurve.buckets.row import EMPTY, Row, merge
from clickcurve.buckets.upper_bounds import UNREADABLE, UpperBounds, upper_bounds_of

_MONTH = Tier(MONTH, None, None)


class StoredBytes(Protocol):
    """A row as it is stored."""

    @property
    def data(self) -> bytes: ...


class StoredRows(Protocol):
    """The rows of all owners under one key. erased_at: when they were erased, epoch microseconds; 0: never."""

    @property
    def erased_at(self) -> int: ...

    @property
    def rows(self) -> Sequence[StoredBytes]: ...


def corrected_bounds_in(link: StoredRows, moved: StoredRows, ladder: Ladder) -> UpperBounds:
    """Returns the upper bounds of a link, given what is stored of it and of what is called of it."""
    try:
        return upper_bounds_of(row_left(_sum(link, ladder), _sum(moved, ladder), ladder), ladder)
    except RowCorrupt:
        return UNREADABLE


def _sum(stored: StoredRows, ladder: Ladder) -> Row:
    rows = [row for each in stored.rows if (row := decode(each.data)).erased_at >= stored.erased_at]
    return merge(rows, ladder) if len(rows) > 1 else rows[0] if rows else EMPTY


def row_left(row: Row, moved: Row, ladder: Ladder) -> Row:
    """Returns a row that counts, from any moment on, at least what is left of `row` there.

    Its bots are those of the row with the called ones. Both are sums over owners. In all its life it counts just that.
    """
    called, called_at_most = _called_by_month(moved)
    if not called_at_most:
        return row
    buckets = [
        (*each, tier) for tier in reversed(range(len(row.people_cells))) for each in _buckets(row.people_cells[tier])
    ]
    people = [dict(_buckets(cells)) for cells in row.people_cells]
    bots = [dict(_buckets(cells)) for cells in row.bot_cells]
    for start, count, tier in buckets:
        month = _MONTH.start(start)
        if taken := min(count, called.get(month, 0)):
            called[month] -= taken
            people[tier][start] -= taken
    for start, count, tier in reversed(buckets):
        month = _MONTH.start(start)
        if taken := min(count, called_at_most.get(month, 0)):
            called_at_most[month] -= taken
            bots[tier][start] = bots[tier].get(start, 0) + taken
    in_life = max(0, min(moved.lifetime - moved.bots, row.lifetime - row.opening))
    return row._replace(
        people_cells=tuple(map(_cells, people)),
        bot_cells=tuple(map(_cells, bots)),
        lifetime=row.lifetime - in_life,
        bots=row.bots + in_life,
    )


def _called_by_month(moved: Row) -> tuple[dict[int, int], dict[int, int]]:
    """Returns how many hits are called in each month, and how many at most: some bucket may have more called back."""
    by_start: dict[int, int] = {}
    for sign, series in ((1, moved.people_cells), (-1, moved.bot_cells)):
        for start, count in chain.from_iterable(map(_buckets, series)):
            by_start[start] = by_start.get(start, 0) + sign * count
    called: dict[int, int] = {}
    at_most: dict[int, int] = {}
    for start, count in by_start.items():
        month = _MONTH.start(start)
        called[month] = called.get(month, 0) + count
        if count > 0:
            at_most[month] = at_most.get(month, 0) + count
    return {month: count for month, count in called.items() if count > 0}, at_most


def _buckets(cells: Cells) -> Iterable[tuple[int, int]]:
    starts, counts = cells
    return zip(starts, counts, strict=True)


def _cells(buckets: dict[int, int]) -> Cells:
    some = sorted(each for each in buckets.items() if each[1])
    return (tuple(start for start, _ in some), tuple(count for _, count in some)) if some else NO_CELLS
