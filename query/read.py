"""The current row of a key: what is stored, summed over owners, plus this owner's hits that are not stored yet.

The order matters. The owner's pending hits are taken first and the stored rows after that, so that a flush which ends
in between is seen twice, never not at all; each stored row's mark then says which of the pending hits it has already.
The row is folded to `now` here, in memory, so an answer depends on the hits and on `now` and on nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from buckets.codec import decode, decode_header
from buckets.ladder import Ladder, fold_day
from buckets.row import Delta, Pending, Row, add, fold, merge
from storage.contract import StoredLink

_ASKED_MAX = 10_000


def current(
    link: StoredLink, pending: Sequence[Pending], now: int, ladder: Ladder, *, cells: bool = True
) -> tuple[Row, bool]:
    """The row of everything counted, folded to now, and whether a stored row is fat: folding it drops buckets.

    cells=False leaves the stored buckets out, for who needs only the head (lifetime, first and last hit); it is quick.
    """
    day = fold_day(now)
    read = decode if cells else decode_header
    marks: dict[int, int] = {}
    rows: list[Row] = []
    fat = False
    for stored in link.rows:
        row = read(stored.data)
        marks[stored.owner] = row.mark
        if row.erased_at < link.erased_at:
            continue
        if row.fold_day < day:
            folded = fold(row, day, ladder)
            fat = fat or folded.people_cells != row.people_cells or folded.bot_cells != row.bot_cells
            row = folded
        rows.append(row)
    total = rows[0] if len(rows) == 1 else fold(merge(rows, ladder), day, ladder)
    for each in pending:
        if each.flush is None or each.flush > marks.get(each.owner, 0):
            total = add(total, each.delta, ladder)
    return total, fat and cells


class Reader:
    """Reads rows for queries.

    rows: the store's; pending and revisit: the owner's. A row that is found fat is asked to be folded, once a fold day.
    """

    def __init__(
        self,
        rows: Callable[[str], Awaitable[StoredLink]],
        pending: Callable[[str], Sequence[Pending]],
        revisit: Callable[[Iterable[str]], None],
        ladder: Ladder,
    ) -> None:
        self.ladder = ladder
        self._rows = rows
        self._pending = pending
        self._revisit = revisit
        self._revisited: set[str] = set()
        self._day = -1

    async def row(self, stored: str, now: int, *, cells: bool = True) -> Row:
        """The current row of a stored key. Raises StoreUnavailable, RowCorrupt."""
        pending = self._pending(stored)
        link = await self._rows(stored)
        row, fat = current(link, pending, now, self.ladder, cells=cells)
        if fat:
            self._revisit_once(stored, fold_day(now))
        return row

    def _revisit_once(self, stored: str, day: int) -> None:
        if day != self._day or len(self._revisited) >= _ASKED_MAX:
            self._revisited.clear()
            self._day = day
        if stored not in self._revisited:
            self._revisited.add(stored)
            self._revisit((stored,))


def people_and_bots(deltas: Iterable[Delta]) -> tuple[int, int]:
    """Lifetime counts that some deltas add."""
    people = bots = 0
    for delta in deltas:
        people += delta.opening + sum(delta.people.values())
        bots += sum(delta.bots.values())
    return people, bots
