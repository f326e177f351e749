"""A link's row of counts and its breakdown as of one moment.

Both are read as `query.reader` reads a row: what is pending is taken first, and the mark of each stored row says which
of it that row has already. But they are two rows, and a flush may write both in between. So marks are compared: equal
ones are of one moment; and if the breakdown's are the same before and after the counts were read, then what the counts
have more was flushed without a word. Else both are read again, TRIES times at most. After that the answer says what is
true of rows of different moments: nothing is known of the hits that are counted and not recorded.

It needs a flush to write both rows of a link at once: in one call of `save_own`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from clickcurve.access import access
from clickcurve.buckets.breakdowns.breakdown import (
    WIDEST,
    BoundedLadder,
    Breakdown,
    BreakdownDelta,
    fold_breakdown,
    land,
    merge_breakdowns,
)
from clickcurve.buckets.breakdowns.check import common_span
from clickcurve.buckets.breakdowns.disavow import CORRECTIONS, Moved, without_called
from clickcurve.buckets.breakdowns.few_hits import hide_few
from clickcurve.buckets.breakdowns.open_part import BreakdownHead
from clickcurve.buckets.breakdowns.parts import Parts, decode_open, decode_parts, separate_parts
from clickcurve.buckets.codec import decode_header
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.row import fold
from clickcurve.budget import ROWS, spend
from clickcurve.keys import AS_GIVEN, KeyForm, breakdown_of, moved_key
from clickcurve.pending import Pending, PendingBreakdown
from clickcurve.row_kinds.names import what_it_is
from clickcurve.waiting import computed, locked
from query.breakdowns.unrecorded import BreakdownRow
from query.reader import (
    MOMENT_TRIES,
    MOMENT_WAIT_S,
    are_of_one_moment,
    naming,
    row_without_called,
    stored,
    with_pending,
)
from storage.contract import StoredLink

TRIES = 4
AT_ONCE_BYTES = 30_000  # that are read and merged without leaving the event loop: up to 5 ms
AT_ONCE_HITS = 1_000  # that are pending: at most so many minutes, and values of each dimension


class OtherWorkers(Protocol):
    """Other workers, with their pending hits of a stored key."""

    async def pending(self, key: str) -> Sequence[Pending]: ...

    async def pending_breakdowns(self, key: str) -> Sequence[PendingBreakdown]: ...


@dataclass(eq=False)
class BreakdownReader:
    """Reads rows of counts with their breakdowns for queries.

    rows and ladder are the store's; pending and pending_breakdowns the owner's, by stored key. elsewhere: what other
    owners hold that are near enough to be asked, of both kinds; None: there are none. is_corrected: as in
    `query.reader.Reader`. least: values with fewer hits in a bucket are not named (`few_hits`); 0: all are.
    key_form: of links.
    """

    rows: Callable[[str], Awaitable[StoredLink]]
    pending: Callable[[str], Sequence[Pending]]
    pending_breakdowns: Callable[[str], Sequence[PendingBreakdown]]
    ladder: Callable[[], Ladder]
    bounded: BoundedLadder
    other_workers: OtherWorkers | None = None
    is_corrected: Callable[[str], bool] = lambda stored: False
    least: int = 0
    key_form: KeyForm = AS_GIVEN

    def __post_init__(self) -> None:
        self._widest = replace(WIDEST, times=self.bounded.times)
        self._merging = asyncio.Lock()

    async def read(self, stored_key: str, now: int, only: Container[str], start: int | None = None) -> BreakdownRow:
        """Returns the current row of a stored key, with these dimensions of its breakdown.

        Nothing of the breakdown need be right before `start`, which may leave its older part unread. Raises
        StoreUnavailable, RowCorrupt, RequestTooCostly; OutsidePrefix for a row that the request may not see.
        """
        rows, _ = await self.of_one_moment((stored_key,), now, only, start)
        return rows[0]

    async def of_one_moment(
        self, keys: Sequence[str], now: int, only: Container[str], start: int | None = None
    ) -> tuple[list[BreakdownRow], bool]:
        """Returns what `read` does of clicks, first, and of events beside them; and whether all is of one moment.

        As `query.reader.Reader.of_one_moment`.
        """
        keys = [access().row(self.key_form.of_row(key)) for key in keys]
        await spend(ROWS, len(keys))
        called = {key: await self._called(key, now) for key in keys if self.is_corrected(key)}
        both: list[_BothRows] = []
        for attempt in range(MOMENT_TRIES):
            if attempt:
                await asyncio.sleep(MOMENT_WAIT_S)
            pending, last_read = await self._pending_of(keys), [each.counts for each in both]
            both = [await self._read_both(key, breakdown_of(key)) for key in keys]
            if is_settled := are_of_one_moment([each.counts for each in both], last_read):
                break
        rows = []
        for key, stored_row, waiting in zip(keys, both, pending, strict=True):
            row = await self._joined(key, stored_row, waiting, now, only, start, self.bounded)
            if key in called:
                row = await computed(
                    "leaving out hits that are called bots", _corrected, row, called[key], self._widest
                )
            if self.least:
                shown = await computed("hiding values with few hits", hide_few, row.breakdown, self.least)
                row = replace(row, breakdown=shown)
            rows.append(row)
        return rows, is_settled

    async def _called(self, stored_key: str, now: int) -> BreakdownRow:
        """Returns the row of what is called bots of a row."""
        key = moved_key(stored_key)
        (pending,) = await self._pending_of((key,))
        both = await self._read_both(key, breakdown_of(key))
        return await self._joined(key, both, pending, now, None, None, CORRECTIONS)

    async def _pending_of(self, keys: Sequence[str]) -> list[_PendingOfRow]:
        """Returns the pending hits of these keys, and those of their breakdowns: of each worker those of one moment."""
        theirs: Sequence[tuple[Sequence[Pending], Sequence[PendingBreakdown]]] = [((), ())] * len(keys)
        if self.other_workers is not None:  # asked at once, so that each answers for one moment
            others = self.other_workers
            theirs = await asyncio.gather(*(_both_of(others, key) for key in keys))
        return [
            _PendingOfRow([*counts, *self.pending(key)], [*parts, *self.pending_breakdowns(breakdown_of(key))])
            for key, (counts, parts) in zip(keys, theirs, strict=True)
        ]

    async def _joined(
        self,
        stored_key: str,
        both: _BothRows,
        waiting: _PendingOfRow,
        now: int,
        only: Container[str] | None,
        start: int | None,
        bounded: BoundedLadder,
    ) -> BreakdownRow:
        """Returns the current row as it was counted; only: None for all dimensions."""
        counts, stored_parts, settled = both
        pending, pending_parts = waiting
        erased_at = max(counts.erased_at, stored_parts.erased_at)
        ladder = self.ladder()
        try:
            stored_counts = stored(replace(counts, erased_at=erased_at), now, ladder)
        except RowCorrupt as error:
            raise naming(error, stored_key, counts) from error
        day = max([stored_counts.row.fold_day, *(each.head.fold_day for each in stored_parts.owners)])
        hours_only = start is not None and self._are_hours_from(start, day, ladder)

        def merged() -> BreakdownRow:
            row = fold(with_pending(stored_counts.row, pending, stored_counts.marks, ladder), day, ladder)
            breakdown = self._merged(stored_parts, pending_parts, erased_at, day, only, hours_only, bounded)
            pending.clear()  # to let go of 120,000 tables of values takes 20 ms: here, not on the event loop
            pending_parts.clear()
            return BreakdownRow(row, breakdown, ladder, self.bounded, settled)

        hits = sum([sum(each.delta.people.values()) + sum(each.delta.bots.values()) for each in pending])
        if stored_parts.size() <= AT_ONCE_BYTES and hits <= AT_ONCE_HITS:
            return merged()
        async with locked(self._merging, "merging breakdowns"):  # each thread more makes the event loop wait longer
            return await computed("merging a breakdown", merged)

    def _are_hours_from(self, start: int, day: int, ladder: Ladder) -> bool:
        """Returns whether all buckets from the one that holds `start` on are of the breakdown's finest tier."""
        return common_span(start, start + 1, day, self.bounded.ladder, ladder)[0] >= self.bounded.ladder.cuts(day)[0]

    async def _read_both(self, counts_key: str, parts_key: str) -> _BothRows:
        """Returns the stored counts, the stored breakdown, and whether both are of one moment."""
        again = _stored_breakdowns(await self.rows(parts_key), parts_key)
        for _ in range(TRIES):
            stored_parts = again
            counts = await self.rows(counts_key)
            of_counts = _marks_of_counts(counts, counts_key)
            if stored_parts.marks == of_counts:
                return _BothRows(counts, stored_parts, True)
            again = _stored_breakdowns(await self.rows(parts_key), parts_key)
            is_ahead = any(mark > of_counts.get(owner, 0) for owner, mark in stored_parts.marks.items())
            if again.marks == stored_parts.marks and not is_ahead:
                return _BothRows(counts, stored_parts, True)
        # The breakdown is the older one: nothing that it records is missing in the counts.
        return _BothRows(counts, stored_parts, False)

    def _merged(
        self,
        stored_parts: _StoredBreakdowns,
        pending: Sequence[PendingBreakdown],
        erased_at: int,
        day: int,
        only: Container[str] | None,
        hours_only: bool,
        bounded: BoundedLadder,
    ) -> Breakdown:
        """Returns the sum of the owners' breakdowns; what is pending lands in its owner's, as its flush will do it."""
        rows: dict[int, Breakdown] = {}
        for owner, parts, head in stored_parts.owners:
            if head.erased_at >= erased_at:
                try:
                    rows[owner] = decode_open(parts, only) if hours_only else decode_parts(parts, only)
                except RowCorrupt as error:
                    raise _naming_breakdown(error, stored_parts.key, owner) from error
        deltas: dict[int, list[BreakdownDelta]] = {}
        for waiting in pending:
            if waiting.is_missing(stored_parts.marks):
                values = {name: hours for name, hours in waiting.delta.values.items() if only is None or name in only}
                deltas.setdefault(waiting.owner, []).append(replace(waiting.delta, values=values))
        for owner, of_owner in deltas.items():
            rows[owner] = land(rows.get(owner, bounded.empty), of_owner, day, bounded)
        if len(rows) == 1:
            (row,) = rows.values()
            return fold_breakdown(row, day, bounded)
        return merge_breakdowns(rows.values(), day, bounded)


def _corrected(row: BreakdownRow, called: BreakdownRow, bounded: BoundedLadder) -> BreakdownRow:
    """Returns a row without the hits that are called bots, by the row of these."""
    day = max(row.counts.fold_day, called.counts.fold_day)
    counts = row_without_called(row.counts, called.counts, 0, row.ladder)
    breakdown = fold_breakdown(row.breakdown, day, bounded)
    moved = Moved(fold(called.counts, day, row.ladder), fold_breakdown(called.breakdown, day, CORRECTIONS))
    left = without_called(breakdown, moved, row.ladder)
    return replace(row, counts=counts, breakdown=left.breakdown, unsure=left.unsure)


class _OwnerBreakdown(NamedTuple):
    """One owner's stored breakdown, of which only the head is read."""

    owner: int
    parts: Parts
    head: BreakdownHead


class _StoredBreakdowns(NamedTuple):
    """A link's stored breakdowns. marks: owner -> the last flush that its breakdown includes."""

    key: str
    erased_at: int
    owners: list[_OwnerBreakdown]
    marks: dict[int, int]

    def size(self) -> int:
        """Returns the bytes of all owners' breakdowns."""
        return sum([len(each.parts.open) + len(each.parts.closed) for each in self.owners])


class _BothRows(NamedTuple):
    """A link's stored counts and breakdowns. is_settled: both are of one moment."""

    counts: StoredLink
    parts: _StoredBreakdowns
    is_settled: bool


class _PendingOfRow(NamedTuple):
    """Hits that a row of counts, and its breakdown, may lack."""

    counts: list[Pending]
    parts: list[PendingBreakdown]


async def _both_of(others: OtherWorkers, key: str) -> tuple[Sequence[Pending], Sequence[PendingBreakdown]]:
    counts, parts = await asyncio.gather(others.pending(key), others.pending_breakdowns(breakdown_of(key)))
    return counts, parts


def _stored_breakdowns(link: StoredLink, key: str) -> _StoredBreakdowns:
    owners = []
    for row in link.rows:
        try:
            parts = separate_parts(row.data)
            owners.append(_OwnerBreakdown(row.owner, parts, parts.head))
        except RowCorrupt as error:
            raise _naming_breakdown(error, key, row.owner) from error
    return _StoredBreakdowns(key, link.erased_at, owners, {each.owner: each.head.mark for each in owners})


def _marks_of_counts(link: StoredLink, key: str) -> dict[int, int]:
    try:
        return {each.owner: decode_header(each.data).mark for each in link.rows}
    except RowCorrupt as error:
        raise naming(error, key, link) from error


def _naming_breakdown(error: RowCorrupt, key: str, owner: int) -> RowCorrupt:
    what, name = what_it_is(key)
    return RowCorrupt(f"{what}, of owner {owner}, is damaged ({error.detail})", field="key", value=name)
