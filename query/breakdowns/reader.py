"""A link's row of counts and its breakdown as of one moment.

Both are read as `query.reader` reads a row: what is pending is taken first, and the mark of each stored row says which
of it that row has already. But they are two rows, and a flush may write both in between. So marks are compared: equal
ones are of one moment; and if the breakdown's are the same before and after the counts were read, then what the counts
have more was flushed without a word. Else both are read again, TRIES times at most. After that the answer says what is
true of rows of different moments: nothing is known of the hits that are counted and not recorded.

It needs a flush to write both rows of a link at once: in one call of `save_own`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import replace

from clickcurve.buckets.breakdowns.breakdown import (
    Breakdown,
    CappedLadder,
    PendingBreakdown,
    fold_breakdown,
    land,
    merge_breakdowns,
)
from clickcurve.buckets.breakdowns.open_part import head_of
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.codec import decode_header
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder, fold_day
from clickcurve.buckets.row import Pending, Row, fold
from clickcurve.keys import ALL_LINKS, breakdown_key, link_key
from query.breakdowns.rest import DividedRow
from query.reader import naming, stored, unstored
from storage.contract import StoredLink

TRIES = 4

Marks = dict[int, int]  # owner -> the last flush that its row includes


class BreakdownReader:
    """Reads rows of counts with their breakdowns for queries.

    rows and ladder are the store's; pending and pending_breakdowns the owner's, by stored key.
    """

    def __init__(
        self,
        rows: Callable[[str], Awaitable[StoredLink]],
        pending: Callable[[str], Sequence[Pending]],
        pending_breakdowns: Callable[[str], Sequence[PendingBreakdown]],
        ladder: Callable[[], Ladder],
        capped: CappedLadder,
    ) -> None:
        self._rows = rows
        self._pending = pending
        self._pending_breakdowns = pending_breakdowns
        self._ladder = ladder
        self.capped = capped

    async def read(self, key: str | None, now: int, only: Container[str]) -> DividedRow:
        """Returns the current rows of a link, or of all links (None), with these dimensions of the breakdown.

        Raises StoreUnavailable, RowCorrupt.
        """
        counts_key, words_key = (
            (ALL_LINKS, breakdown_key(ALL_LINKS)) if key is None else (link_key(key), breakdown_key(key))
        )
        pending, said = self._pending(counts_key), self._pending_breakdowns(words_key)
        counts, words, settled = await self._read_both(counts_key, words_key)
        erased_at = max(counts.erased_at, words.erased_at)
        ladder = self._ladder()
        try:
            found = stored(replace(counts, erased_at=erased_at), now, ladder)
        except RowCorrupt as error:
            raise naming(error, counts_key, counts) from error
        row = unstored(pending, found.marks, found.row, ladder)
        breakdown = self._merged(words_key, words, said, erased_at, max(row.fold_day, fold_day(now)), only)
        row = fold(row, breakdown.fold_day, ladder)
        return DividedRow(row, breakdown, ladder, self.capped.ladder, settled)

    async def _read_both(self, counts_key: str, words_key: str) -> tuple[StoredLink, StoredLink, bool]:
        """Returns the stored counts, the stored breakdown, and whether both are of one moment."""
        again = await self._rows(words_key)
        marks_again = _marks(again, words_key, _mark_of_breakdown)
        for _ in range(TRIES):
            words, marks = again, marks_again
            counts = await self._rows(counts_key)
            of_counts = _marks(counts, counts_key, _mark_of_counts)
            if marks == of_counts:
                return counts, words, True
            again = await self._rows(words_key)
            marks_again = _marks(again, words_key, _mark_of_breakdown)
            is_ahead = any(mark > of_counts.get(owner, 0) for owner, mark in marks.items())
            if marks_again == marks and not is_ahead:
                return counts, words, True
        return counts, words, False  # the breakdown is the older one: nothing that it records is missing in the counts

    def _merged(
        self,
        words_key: str,
        words: StoredLink,
        pending: Sequence[PendingBreakdown],
        erased_at: int,
        day: int,
        only: Container[str],
    ) -> Breakdown:
        """Returns the sum of the owners' breakdowns; what is pending lands in its owner's, as its flush will do it."""
        rows: dict[int, Breakdown] = {}
        marks: Marks = {}
        for each in words.rows:
            try:
                row = decode_parts(separate_parts(each.data), only)
            except RowCorrupt as error:
                raise _naming_breakdown(error, words_key, each.owner) from error
            marks[each.owner] = row.mark
            if row.erased_at >= erased_at:
                rows[each.owner] = row
        day = max([day, *(row.fold_day for row in rows.values())])
        for waiting in pending:
            if waiting.is_missing(marks.get(waiting.owner, 0)):
                row = fold_breakdown(rows.get(waiting.owner, self.capped.empty), day, self.capped)
                values = {name: hours for name, hours in waiting.delta.values.items() if name in only}
                rows[waiting.owner] = land(row, replace(waiting.delta, values=values), self.capped)
        if len(rows) == 1:
            (row,) = rows.values()
            return fold_breakdown(row, day, self.capped)
        return merge_breakdowns(rows.values(), day, self.capped)


def _mark_of_counts(data: bytes) -> int:
    row: Row = decode_header(data)
    return row.mark


def _mark_of_breakdown(data: bytes) -> int:
    return head_of(separate_parts(data).open).mark


def _marks(link: StoredLink, key: str, mark_of: Callable[[bytes], int]) -> Mapping[int, int]:
    marks: Marks = {}
    for each in link.rows:
        try:
            marks[each.owner] = mark_of(each.data)
        except RowCorrupt as error:
            if mark_of is _mark_of_breakdown:
                raise _naming_breakdown(error, key, each.owner) from error
            raise naming(error, key, link) from error
    return marks


def _naming_breakdown(error: RowCorrupt, key: str, owner: int) -> RowCorrupt:
    of_all = key == breakdown_key(ALL_LINKS)
    what = "the breakdown of all links" if of_all else "this link's breakdown"
    value = None if of_all else key.removeprefix(breakdown_key(ALL_LINKS))
    return RowCorrupt(f"{what}, of owner {owner}, is damaged ({error.detail})", field="key", value=value)
