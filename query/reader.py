"""The current row of a key: what is stored, summed over owners, plus hits here that are not stored yet.

The order matters. Pending hits, also those of this machine's other workers, are taken first and the stored rows after
that, so that a flush which ends in between is seen twice, never not at all; each stored row's mark then says which of
the pending hits it has already.

A row of a link that several owners count is decoded again only when its bytes have changed, and the sum is changed by
what is new in it: every read still asks the store for all of them, and what is kept is only what those bytes say.

The row is folded to `now` here, in memory, so an answer depends on the hits and on `now` and on nothing else.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from clickcurve.access import access
from clickcurve.buckets.breakdowns.disavow import disavowed_of
from clickcurve.buckets.codec import decode, decode_header
from clickcurve.buckets.disavowed import Disavowed
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder, fold_day
from clickcurve.buckets.quarantine import is_row_damaged
from clickcurve.buckets.row import Row, add, fold, merge, merge_again
from clickcurve.budget import POINTS, ROWS, spend
from clickcurve.keys import AS_GIVEN, KeyForm, moved_key
from clickcurve.pending import Pending
from clickcurve.row_kinds.names import what_it_is
from clickcurve.waiting import computed, locked
from storage.contract import StoredLink, StoredRow

_MAX_REVISITED = 10_000
MOMENT_TRIES = 40  # for one second: between events and clicks a flush writes for some milliseconds
MOMENT_WAIT_S = 0.025
AT_ONCE_MINUTES = 2_000  # of pending hits, that are added without leaving the event loop: some 2 ms
# Of the merged links that are kept, each owner's and their sums: 19 MB, with ten full rows of a link.
KEPT_BUCKETS = 250_000


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store has of one key, merged and folded to now.

    marks: owner -> the last flush that its row includes. fat: folding a stored row drops buckets.
    """

    row: Row
    marks: Mapping[int, int]
    fat: bool


HEAD = -1  # for `since`: no buckets at all, only what stands in the head (lifetime, first and last hit)


def stored(link: StoredLink, now: int, ladder: Ladder, *, since: int = 0, bots: bool = True) -> Stored:
    """Returns the sum of the stored rows, without those that an erasure has emptied.

    Rows that are folded to now already may come without the buckets before `since`, the start of a kept bucket, and
    without those of bots: that is up to four times as quick, for callers that do not need them.
    """
    day = fold_day(now)
    return sum_of_rows_read(link, [read_row(each.data, day, ladder, since, bots) for each in link.rows], day, ladder)


FoldedRow = tuple[Row, bool]  # a stored row, folded; is it fat?


def read_row(data: bytes, day: int, ladder: Ladder, since: int, bots: bool) -> FoldedRow:
    """Decodes a stored row and folds it to `day`; since and bots as in `stored`."""
    row = decode_header(data) if since == HEAD else decode(data, since, bots)
    if row.fold_day == day or since == HEAD:
        return row, False
    older = decode(data)
    row = fold(older, day, ladder)
    return row, (row.people_cells, row.bot_cells) != (older.people_cells, older.bot_cells)


def sum_of_rows_read(link: StoredLink, rows: Sequence[FoldedRow], day: int, ladder: Ladder) -> Stored:
    """Sums the rows of a link, `rows` in their order, without those that an erasure has emptied."""
    marks = {each.owner: row.mark for each, (row, _) in zip(link.rows, rows, strict=True)}
    counted = [each for each in rows if each[0].erased_at >= link.erased_at]
    whole = counted[0][0] if len(counted) == 1 else merge([row for row, _ in counted], ladder)
    return Stored(fold(whole, day, ladder), marks, any(fat for _, fat in counted))


def naming(error: RowCorrupt, key: str, link: StoredLink) -> RowCorrupt:
    """Returns the error of a damaged row with the link, and the owners whose rows are damaged."""
    owners = ", ".join(str(each.owner) for each in link.rows if is_row_damaged(each.data))
    what, name = what_it_is(key)
    detail = f"{what}, of owner {owners}, is damaged ({error.detail}); `clickcurve repair` says more"
    return RowCorrupt(detail, field="key", value=name)


def with_pending(row: Row, pending: Sequence[Pending], marks: Mapping[int, int], ladder: Ladder) -> Row:
    """Returns the row with those pending hits added that stored rows with these marks do not include."""
    for hits in pending:
        if hits.is_missing(marks):
            row = add(row, hits.delta, ladder)
    return row


def row_without_called(row: Row, moved: Row, since: int, ladder: Ladder) -> Row:
    """Returns a row that knows which of its hits are called bots, by the row of these; since: what was read of both."""
    if moved.lifetime <= moved.bots:
        return row
    if since == HEAD:
        return row._replace(disavowed=Disavowed(moved.lifetime - moved.bots))
    day = max(row.fold_day, moved.fold_day)
    return fold(row, day, ladder)._replace(disavowed=disavowed_of(fold(moved, day, ladder), day, ladder))


@dataclass(frozen=True)
class MergedLink:
    """A link with its rows decoded and folded to `day`, and their sum. since, bots: what was asked of the rows."""

    link: StoredLink
    day: int
    since: int
    bots: bool
    rows: Sequence[FoldedRow]
    sum: Stored

    def row_of(self, each: StoredRow) -> FoldedRow | None:
        """Returns the row that this stored one was decoded to, if it was."""
        for before, row in zip(self.link.rows, self.rows, strict=True):
            if before.owner == each.owner:
                return row if before.data == each.data else None
        return None

    def changed_to(self, link: StoredLink, rows: Sequence[FoldedRow], ladder: Ladder) -> Stored:
        """Returns the sum of the link's rows now: made of the one before, if few rows have changed since."""
        changes = [(old, new) for (old, _), (new, _) in zip(self.rows, rows, strict=False) if new is not old]
        alike = [each.owner for each in self.link.rows] == [each.owner for each in link.rows]
        folded = all(row.fold_day == self.day for row, _ in (*self.rows, *rows))
        # Fewer than two rows have no sum of their own, and one that an erasure has emptied is in none.
        counted = all(row.erased_at >= link.erased_at == self.link.erased_at for row, _ in (*self.rows, *rows))
        if not (alike and folded and counted) or 2 * len(changes) > len(rows):
            return sum_of_rows_read(link, rows, self.day, ladder)
        marks = {each.owner: row.mark for each, (row, _) in zip(link.rows, rows, strict=True)}
        whole = merge_again(self.sum.row, [row for row, _ in rows], changes)
        return Stored(whole, marks, any(fat for _, fat in rows))

    @cached_property
    def buckets(self) -> int:
        """How many buckets it keeps in memory."""
        rows = [self.sum.row, *(row for row, _ in self.rows)]
        return sum(len(starts) for row in rows for starts, _ in (*row.people_cells, *row.bot_cells))


class MergedLinks:
    """The links of several owners that were read last, up to `most` buckets of them. For one event loop."""

    def __init__(self, most: int = KEPT_BUCKETS) -> None:
        self._most = most
        self._links: OrderedDict[str, MergedLink] = OrderedDict()
        self._buckets = 0

    def stored(self, key: str, link: StoredLink, now: int, ladder: Ladder, since: int, bots: bool) -> Stored:
        """Returns what `stored` does, perhaps with more buckets than were asked for."""
        if len(link.rows) < 2 or since == HEAD:
            return stored(link, now, ladder, since=since, bots=bots)
        day = fold_day(now)
        kept = self._links.get(key)
        if kept is not None and kept.day == day and kept.since <= since and kept.bots >= bots:
            self._links.move_to_end(key)
            if kept.link == link:
                return kept.sum
            since, bots = kept.since, kept.bots
        else:
            kept = None
        rows = [(kept and kept.row_of(each)) or read_row(each.data, day, ladder, since, bots) for each in link.rows]
        whole = kept.changed_to(link, rows, ladder) if kept else sum_of_rows_read(link, rows, day, ladder)
        self._keep(key, MergedLink(link, day, since, bots, rows, whole))
        return whole

    def _keep(self, key: str, merged: MergedLink) -> None:
        if (before := self._links.pop(key, None)) is not None:
            self._buckets -= before.buckets
        self._links[key] = merged
        self._buckets += merged.buckets
        while self._buckets > self._most:
            _, dropped = self._links.popitem(last=False)
            self._buckets -= dropped.buckets


class RowsOfMoment(NamedTuple):
    """Rows in the order in which they were asked for. is_settled: they certainly are of one moment."""

    rows: list[Row]
    is_settled: bool


def are_of_one_moment(links: Sequence[StoredLink], last_read: Sequence[StoredLink]) -> bool:
    """Tells whether no event's row includes a later flush than the row of clicks, which was read before it.

    And whether none was erased in between: they are together, unless an event is alone. last_read: what was read of
    them before, if anything; what differed then as it does now is not being erased.
    """
    erased = [link.erased_at for link in links]
    if len(set(erased)) > 1 and erased != [link.erased_at for link in last_read]:
        return False
    try:
        clicks, *events = ({row.owner: decode_header(row.data).mark for row in link.rows} for link in links)
    except RowCorrupt:
        return True  # it is said where the row is read
    return all(mark <= clicks.get(owner, 0) for marks in events for owner, mark in marks.items())


class Reader:
    """Reads rows for queries.

    rows and ladder: the store's; pending and revisit: the owner's. A row that is found fat is asked to be folded, once
    a fold day. other_workers: asks those of this machine for their pending hits; None: there are none. is_corrected:
    tells of which stored keys some hits may be called bots; of others nothing is read for that.
    """

    def __init__(
        self,
        rows: Callable[[str], Awaitable[StoredLink]],
        pending: Callable[[str], Sequence[Pending]],
        revisit: Callable[[Iterable[str]], None],
        ladder: Callable[[], Ladder],
        other_workers: Callable[[str], Awaitable[Sequence[Pending]]] | None = None,
        is_corrected: Callable[[str], bool] = lambda stored: False,
        key_form: KeyForm = AS_GIVEN,
    ) -> None:
        self._key_form = key_form
        self._ladder = ladder
        self.is_corrected = is_corrected
        self._other_workers = other_workers
        self._rows = rows
        self._pending = pending
        self._revisit = revisit
        self._revisited: set[str] = set()
        self._day = -1
        self._merged = MergedLinks()
        self._adding = asyncio.Lock()

    @cached_property
    def ladder(self) -> Ladder:
        """Returns the store's ladder; raises StoreUnavailable until the store has been reached once."""
        return self._ladder()

    async def row(self, key: str, now: int, *, since: int = 0, bots: bool = True) -> Row:
        """Returns the current row of a stored key; since and bots as in `stored`.

        Raises StoreUnavailable, RowCorrupt, RequestTooCostly; OutsidePrefix for a row that the request may not see.
        """
        key = access().row(self._key_form.of_row(key))
        await spend(ROWS)
        corrected = await self.corrected(key, now, since=since, bots=bots)
        return await self._current(key, now, since, bots) if corrected is None else corrected

    async def corrected(self, key: str, now: int, *, since: int = 0, bots: bool = True) -> Row | None:
        """Returns what `row` does, if some hits of the row are called bots; else None."""
        if not self.is_corrected(key):
            return None
        await spend(ROWS)
        # What is called bots first: the hits of which it is said are in the row that is read after it.
        moved = await self._current(moved_key(key), now, HEAD if since == HEAD else 0, True)
        if moved.lifetime <= moved.bots:
            return None
        # A bucket in which hits are called may begin before the first that is asked for: all of it must be known.
        return row_without_called(await self._current(key, now, min(since, 0), bots), moved, since, self.ladder)

    async def of_one_moment(self, keys: Sequence[str], now: int, *, since: int = 0, bots: bool = True) -> RowsOfMoment:
        """Returns the current rows of clicks and of the events beside them, which is said of one moment.

        keys: that of the clicks first. A flush writes events before the clicks beside them, and these then in any case,
        so what the mark of the clicks says is in events that are read after them; where these have a later mark, a
        flush is between the two, and all are read again, MOMENT_TRIES times at most. So they are where some were
        erased and others not. Raises as `row`.
        """
        keys = [access().row(self._key_form.of_row(key)) for key in keys]
        await spend(ROWS, len(keys))
        moved: dict[str, Row] = {}
        for key in filter(self.is_corrected, keys):
            moved[key] = await self._current(moved_key(key), now, HEAD if since == HEAD else 0, True)
        links: list[StoredLink] = []
        for attempt in range(MOMENT_TRIES):
            if attempt:
                await asyncio.sleep(MOMENT_WAIT_S)
            pending, last_read = await self._pending_of(keys), links
            links = [await self._rows(keys[0]), *await asyncio.gather(*map(self._rows, keys[1:]))]
            if is_settled := are_of_one_moment(links, last_read):
                break
        rows = [
            await self._joined(key, link, each, now, min(since, 0) if key in moved else since, bots)
            for key, link, each in zip(keys, links, pending, strict=True)
        ]
        corrected = [
            row_without_called(row, moved[key], since, self.ladder) if key in moved else row
            for key, row in zip(keys, rows, strict=True)
        ]
        return RowsOfMoment(corrected, is_settled)

    async def _current(self, key: str, now: int, since: int, bots: bool) -> Row:
        others = () if self._other_workers is None else await self._other_workers(key)
        pending = [*others, *self._pending(key)]  # before the row is read
        return await self._joined(key, await self._rows(key), pending, now, since, bots)

    async def _pending_of(self, keys: Sequence[str]) -> list[list[Pending]]:
        """Returns the pending hits of these keys: of each worker those of one moment."""
        asked = self._other_workers
        others = [()] * len(keys) if asked is None else await asyncio.gather(*map(asked, keys))
        return [[*theirs, *self._pending(key)] for key, theirs in zip(keys, others, strict=True)]

    async def _joined(
        self, key: str, link: StoredLink, pending: Sequence[Pending], now: int, since: int, bots: bool
    ) -> Row:
        """Returns the current row: what is stored, with the pending hits that it lacks."""
        minutes = sum([len(each.delta.people) + len(each.delta.bots) for each in pending])
        if minutes > AT_ONCE_MINUTES:
            await spend(POINTS, 5 * minutes)  # what it has cost to collect them
        try:
            without_pending = self._merged.stored(key, link, now, self.ladder, since, bots)
        except RowCorrupt as error:
            raise naming(error, key, link) from error
        if without_pending.fat:
            self._revisit_once(key, fold_day(now))
        if not pending:
            return without_pending.row
        if minutes <= AT_ONCE_MINUTES:
            return with_pending(without_pending.row, pending, without_pending.marks, self.ladder)
        async with locked(self._adding, "adding pending hits"):  # each thread more makes the event loop wait longer
            return await computed(
                "adding pending hits", with_pending, without_pending.row, pending, without_pending.marks, self.ladder
            )

    def _revisit_once(self, key: str, day: int) -> None:
        if day != self._day or len(self._revisited) >= _MAX_REVISITED:
            self._revisited.clear()
            self._day = day
        if key not in self._revisited:
            self._revisited.add(key)
            self._revisit((key,))
