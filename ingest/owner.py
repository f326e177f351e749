"""The owner: one journal, the buffer in front of the store, and the only writer of its rows.

    accept ──> journal (synced) ──> buffer ──flush──> rows

Rules that exactness rests on, all kept here:

1. What is in the buffer is in the journal: counted on the loop, in the turn that follows the sync.
2. A flush is recorded in the journal before its first attempt. From then on the buffer it takes is never added to, and
   the same record is tried again until the store has taken it; only then does the next flush begin.
3. `pending` shows taken buffers with their flush number, so that a reader who took hold of them before reading the row
   knows by the row's mark whether they are in it.
4. Once the store says that somebody else holds this owner, nothing more is accepted or written.

The event loop owns all state. The store and the journal's slower calls run in threads, one call at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from clickcurve.buckets.errors import (
    ClickcurveError,
    JournalBehind,
    JournalBroken,
    JournalError,
    JournalSuperseded,
    OwnerFenced,
    StoreUnavailable,
)
from clickcurve.buckets.ladder import Ladder, fold_day, minutes_since
from clickcurve.buckets.row import Pending
from clickcurve.keys import link_key
from ingest.batch import Batch
from ingest.buffer import Buffer, replay
from ingest.claim import claim, epoch_is_used_up, first_flush, given_back
from ingest.deduplication import Deduplication
from ingest.flush import Flush, Pace
from ingest.imports.offsets import Offsets
from ingest.journal.group_commit import Group, GroupCommit
from ingest.journal.journal import FlushRecord, Identity, Journal
from ingest.owner_status import OwnerStatus
from storage.contract import Held, Source, Store

BUFFER_ENTRIES = 4_000_000  # (key, minute) pairs that may wait for the store, some 400 MB; more are answered 429
ID_WINDOW_S = 48 * 3600

T = TypeVar("T")


class Owner:
    """See the module's text. `alone`: no other owner writes this store, so an id can be judged when it comes."""

    def __init__(
        self,
        journal: Journal,
        store: Store,
        ladder: Ladder,
        clock: Callable[[], float],
        token: Callable[[], str],
        pace: Pace,
        place: str,
        alone: bool,
        buffer_entries: int = BUFFER_ENTRIES,
        flushed: Callable[[OwnerStatus], None] = lambda status: None,
    ) -> None:
        self._journal = journal
        self._store = store
        self._ladder = ladder
        self._clock = clock
        self._token = token
        self._pace = pace
        self._place = place
        self._buffer_entries = buffer_entries
        self._flushed = flushed  # hears of every flush that went through
        self._held: Held | None = None
        # A write that failed may have reached one replica only, where we would see its mark though it may yet be lost:
        # what follows a failure, and the first flush after a claim, write every row again.
        self._rewrite = True
        self._closed: ClickcurveError | None = None  # why nothing is accepted any more
        self._revisit: set[str] = set()
        self._flushing = asyncio.Lock()
        self._journal_thread = ThreadPoolExecutor(1, "journal")
        self._store_thread = ThreadPoolExecutor(1, "flush")
        self._commit = GroupCommit(journal, clock, self._stamp, self._committed, self._journal_thread)
        self._deduplication = Deduplication(store, self._buffered_id, alone, ID_WINDOW_S * 1_000_000, self._stamp)
        self._offsets = Offsets(store, lambda: self._held, self._in_store_reader)
        self._status = OwnerStatus()
        self._recover()

    def _recover(self) -> None:
        """The journal's frames become buffers again; the unfinished flush keeps its own."""
        self._stamp_us = 0
        self._record: FlushRecord | None = self._journal.state.flush
        self._taken: Buffer | None = None
        if self._record is not None:
            self._taken = replay(self._journal.frames(self._record), {}, self._late_before())
            self._taken.flush = self._record.number
            self._offsets.buffered(self._taken.sources)
        self._buffer = replay(self._journal.frames(), {}, self._late_before())
        self._offsets.buffered(self._buffer.sources)
        self._stamp_us = max(b.until_us for b in self._buffers())

    def _late_before(self) -> int:
        return minutes_since(int(self._clock()))

    def _buffers(self) -> list[Buffer]:
        return [self._buffer] if self._taken is None else [self._taken, self._buffer]

    def _stamp(self) -> int:
        """Accept stamps rise strictly, also when the clock steps back: they order hits and erasures."""
        self._stamp_us = max(self._stamp_us + 1, int(self._clock() * 1e6))
        return self._stamp_us

    # --- accepting -----------------------------------------------------------------------------------------------
    def accept_one(self, key: str) -> asyncio.Future[None]:
        """One person's hit now: done when it is synced. All hits of a group share this future."""
        if self._closed is not None:
            raise self._closed.with_traceback(None)
        if self._buffer.people.entries > self._buffer_entries:
            raise self._behind()
        return self._commit.single(key)

    async def accept(self, batch: Batch) -> frozenset[str]:
        """Count a batch; returns, after the sync, the ids in it that were counted before and whose hits were left out.

        Raises JournalBehind, JournalFull, JournalBroken, OwnerFenced (certainly not counted), JournalUnknown (nobody
        knows), ImportOutOfStep, ImportElsewhere.
        """
        if self._closed is not None:
            raise self._closed.with_traceback(None)
        if self._buffer.entries() > self._buffer_entries:
            raise self._behind()
        if batch.source is not None:
            async with self._offsets.step(batch.source):
                await self._join(batch, visible=False)
            return frozenset()
        if not batch.identified:
            if not batch.is_empty():
                await self._join(batch, visible=False)
            return frozenset()
        async with self._deduplication.under_way([identified.id for identified in batch.identified]) as judged:
            batch.identified = [one for one in batch.identified if one.id not in judged.duplicates]
            if not batch.is_empty():
                await self._join(batch, visible=judged.settled)
        return judged.duplicates

    def _join(self, batch: Batch, visible: bool) -> asyncio.Future[None]:
        if self._closed is not None:  # while the store was asked
            raise self._closed.with_traceback(None)
        return self._commit.batch(batch, visible)

    def _behind(self) -> JournalBehind:
        return JournalBehind(f"{self._buffer_entries} counts wait for the store; try again in a moment")

    def _committed(self, group: Group, minute: int, accepted_us: int) -> None:
        if group.keys:
            self._buffer.add_singles(minute, group.keys, accepted_us)
        for batch, visible, _ in group.batches:
            self._buffer.add_batch(batch, accepted_us, visible)

    def _buffered_id(self, id_: str) -> int | None:
        """The accept stamp of an id that is buffered here."""
        return next((b.undecided[id_].accepted_us for b in self._buffers() if id_ in b.undecided), None)

    async def source(self, source: str) -> Source:
        """How far an import has come, unflushed pieces included."""
        return await self._offsets.where(source)

    # --- reading -------------------------------------------------------------------------------------------------
    def pending(self, key: str) -> list[Pending]:
        """What may not be in this owner's stored row of `key` (a stored key) yet.

        Take it before reading the row, which then says by its mark what is missing in it.
        """
        if self._status.state == "fenced":
            return []  # somebody else holds this owner: what is left here was set aside
        owner = self._journal.state.identity.owner
        return [
            Pending(owner, partial(getattr, buffer, "flush"), delta)
            for buffer in self._buffers()
            if (delta := buffer.delta_of_row(key)).adds_anything()
        ]

    def buffered_links(self) -> set[str]:
        """Links with hits that may not be in the store yet."""
        return {link for buffer in self._buffers() for link in buffer.links()}

    def revisit(self, keys: Iterable[str]) -> None:
        """The next flush folds these own rows (stored keys) though they have no hits."""
        self._revisit.update(keys)

    def due(self, fold_day: int, after: str | None, limit: int) -> list[str]:
        """A page of own rows (stored keys) that are due at fold_day, as the store has it. May block."""
        return self._store.due(self._holding().owner, fold_day, after, limit)

    def visited(self, fold_day: int) -> None:
        """All that was due at fold_day has been revisited and flushed. May block."""
        self._store.visited(self._holding(), fold_day)

    def _holding(self) -> Held:
        if self._held is None:
            raise StoreUnavailable("the store has not been reached since the start")
        return self._held

    async def erase(self, key: str) -> None:
        """Everything counted for this link until now is gone, in the store when this returns.

        Raises StoreUnavailable; then nothing is erased.
        """
        async with self._commit.exclusive():
            at_us = self._stamp()
            before = [(buffer, buffer.erase(key, at_us)) for buffer in self._buffers()]
        try:
            await self._in_store_reader(lambda: self._store.erase(link_key(key), at_us))
        except StoreUnavailable:
            for buffer, gone in before:
                buffer.restore(key, gone)
            raise
        self.revisit([link_key(key)])

    # --- flushing ------------------------------------------------------------------------------------------------
    async def flush(self) -> None:
        """Move what is buffered into the store; claim the owner and finish an unfinished flush first.

        One at a time. Raises StoreUnavailable (nothing is lost, the next flush tries again) and OwnerFenced or
        JournalSuperseded (nothing is accepted any more).
        """
        async with self._flushing:
            if self._status.state == "closed" and self._closed is not None:
                raise self._closed.with_traceback(None)
            await self._flush()

    async def _flush(self) -> None:
        try:
            await self._claim()
            if self._record is not None:
                await self._carry_out(self._record)
            if record := await self._take():
                await self._carry_out(record)
            self._status = replace(self._status, store_up=True)
        except ClickcurveError as error:
            if isinstance(error, OwnerFenced | JournalSuperseded):
                self._closed = error
                self._status = replace(self._status, state="fenced")
            self._rewrite = True
            store_up, failed = not isinstance(error, StoreUnavailable), self._status.failed_flushes + 1
            self._status = replace(self._status, store_up=store_up, failed_flushes=failed)
            raise

    async def _claim(self) -> None:
        if self._held is not None and not epoch_is_used_up(self._journal.state.last_flush):
            return
        loop = asyncio.get_running_loop()

        def record(identity: Identity) -> None:
            asyncio.run_coroutine_threadsafe(self._record_identity(identity), loop).result()

        now = int(self._clock())
        self._held = await self._in_store_thread(
            lambda: claim(self._journal, record, self._store, self._place, self._token, now)
        )
        self._rewrite = True
        self._status = replace(self._status, owner=self._held.owner, epoch=self._held.epoch, state="open")

    async def _record_identity(self, identity: Identity) -> None:
        async with self._commit.exclusive():
            await self._in_journal_thread(lambda: self._journal.record_identity(identity))

    async def _take(self) -> FlushRecord | None:
        """Record the next flush and take the buffer; None if there is nothing to move."""
        assert self._held is not None
        if self._buffer.is_empty() and not self._revisit:
            return None
        number = max(self._journal.state.last_flush, first_flush(self._held.epoch)) + 1
        async with self._commit.exclusive():
            day = fold_day(int(self._clock()))
            self._record = await self._in_journal_thread(lambda: self._journal.record_flush(number, day))
            self._taken, self._buffer = self._buffer, Buffer(self._late_before())
            self._taken.flush = number
        return self._record

    async def _carry_out(self, record: FlushRecord) -> None:
        assert self._held is not None and self._taken is not None
        started, held, taken, store = self._clock(), self._held, self._taken, self._store
        if not await self._in_store_thread(lambda: store.begin(held, record.previous, record.number, int(started))):
            raise OwnerFenced(f"another process has taken owner {held.owner} over; restart to go on as another owner")
        if taken.undecided:
            ids = {id_: waiting.accepted_us for id_, waiting in taken.undecided.items()}
            self._check_replay(min(ids.values()))
            claim_ids = partial(store.claim_ids, held, record.number, ids, ID_WINDOW_S * 1_000_000)
            taken.decide(await self._in_store_thread(claim_ids))
        revisit, self._revisit = frozenset(self._revisit), set()
        flush = Flush(
            held=held,
            number=record.number,
            fold_day=record.fold_day,
            rewrite=self._rewrite,
            taken=taken,
            revisit=revisit,
            again=partial(self._replay_taken, taken.refused),
            store=store,
            ladder=self._ladder,
            pause=self._pace.over(taken.entries() + len(revisit)) if self._closed is None else lambda: None,
        )
        try:
            rows = await self._in_store_thread(flush.write)
            async with self._commit.exclusive():
                await self._in_journal_thread(lambda: self._journal.complete_flush(record.number))
                self._record = self._taken = None
        except ClickcurveError:
            self._revisit |= revisit
            raise
        self._rewrite = False
        self._completed(started, rows, taken.hits())

    def _check_replay(self, oldest_us: int) -> None:
        replay_us = self._store.replay_us
        if replay_us is not None and oldest_us < self._clock() * 1e6 - replay_us:
            raise JournalSuperseded(
                f"the journal holds ids that were accepted more than {replay_us // 86_400_000_000} days ago: what they"
                " stand for may be counted already, and the store no longer knows",
                field="journal",
                value=self._place,
            )

    def _replay_taken(self, refused: set[str], erasures: Mapping[str, int]) -> Buffer:
        buffer = replay(self._journal.frames(self._record), erasures, self._late_before())
        buffer.decide(refused)
        return buffer

    def _completed(self, started: float, rows: int, hits: int) -> None:
        self._status = replace(
            self._status,
            flushes=self._status.flushes + 1,
            last_flush_at=started,
            last_flush_s=self._clock() - started,
            last_flush_rows=rows,
            last_flush_hits=hits,
        )
        self._flushed(self.status)

    async def _in_store_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, call)

    async def _in_store_reader(self, call: Callable[[], T]) -> T:
        """Beside a flush under way, not behind it."""
        return await asyncio.get_running_loop().run_in_executor(None, call)

    async def _in_journal_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._journal_thread, call)

    # --- state and end -------------------------------------------------------------------------------------------
    @property
    def status(self) -> OwnerStatus:
        buffers = self._buffers()
        since_us = min((b.since_us for b in buffers if b.since_us is not None), default=None)
        return replace(
            self._status,
            buffered_hits=sum(b.hits() for b in buffers),
            buffered_entries=sum(b.entries() for b in buffers),
            journal_bytes=self._journal.bytes_held,
            lag_s=0.0 if since_us is None else max(0.0, self._clock() - since_us / 1e6),
        )

    async def _let_go_of(self, held: Held) -> None:
        """All is stored, and nothing more comes. An identity without a holder says that who takes the number may."""
        with suppress(JournalError):  # a full disk does not keep the number from being given back
            await self._record_identity(given_back(held))
        await self._in_store_thread(lambda: self._store.close_owner(held))
        self._status = replace(self._status, state="closed")

    async def close(self) -> None:
        """Accept nothing more, flush, give the number back and release the journal.

        Raises StoreUnavailable when the store could not take the last flush; it stays in the journal for the next
        start. The journal is released in any case.
        """
        self._closed = self._closed or JournalBroken("the server is shutting down")
        await self._commit.drain()
        try:
            async with self._flushing:
                if self._status.state != "fenced":
                    await self._flush()
                    if self._held is not None:
                        await self._let_go_of(self._held)
        finally:
            async with self._commit.exclusive():
                await self._in_journal_thread(self._journal.close)
            self._journal_thread.shutdown()
            self._store_thread.shutdown()
