"""The owner: one journal, the buffer in front of the store, and the only writer of its rows.

    accept ──> journal (synced) ──> buffer ──flush──> rows

Rules that exactness rests on, all kept here:

1. What is in the buffer is in the journal: the loop begins to count a group in the turn that follows its sync. A large
   one takes several turns; a flush, an erasure and a stop wait for its end.
2. A flush is recorded in the journal before its first attempt. From then on nothing is added to the buffer that it
   takes, and the same record is tried again until the store has taken it. Only then does the next flush begin.
3. `pending` shows taken buffers with their flush number. A reader takes hold of them before it reads the row, and the
   row's mark tells whether they are in it.
4. Once the store says that another process holds this owner, nothing more is accepted or written.

Only the event loop changes the state. Store calls and the journal's slower calls run in threads, one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeVar

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder
from clickcurve.buckets.breakdowns.erased import ErasedWords
from clickcurve.buckets.codec import decode_header
from clickcurve.buckets.errors import (
    ClickcurveError,
    JournalBroken,
    JournalSuperseded,
    OwnerFenced,
    RowCorrupt,
    StoreUnavailable,
)
from clickcurve.buckets.ladder import fold_day, minutes_since
from clickcurve.buckets.row import MAX_COUNT
from clickcurve.keys import ALL_LINKS, breakdown_of
from clickcurve.pending import Pending, PendingBreakdown
from ingest.batch import Batch, encode_batch
from ingest.buffer import BUFFER_BYTES, Buffer, Buffers, replay
from ingest.claim import epoch_is_used_up, first_flush, refuse_old_ids
from ingest.deduplication import Deduplication
from ingest.flush import Flush, Pace, load_quarantine
from ingest.hit import Hit
from ingest.hit_sums import close_group
from ingest.imports.offsets import Offsets
from ingest.journal.contract import BetweenCommits, FlushRecord, Journal
from ingest.journal.group_commit import GroupCommit
from ingest.owner_status import OwnerStatus
from ingest.stamps import Stamps
from storage.contract import Held, Source, Store, StoredLink

ID_WINDOW_S = 48 * 3600
KEPT_TIMES = "kept-times:"  # a note; then an owner: for how long its breakdowns keep values of which dimensions
IDS_ENCODED_AT_ONCE = 2_000  # without leaving the event loop: 2 to 3 us each

T = TypeVar("T")


class Owner:
    """One journal, its buffer and its rows; see the module's text.

    `clock` gives the time that hits are counted at, `careful` the one that what cannot be undone goes by, in epoch
    seconds: folding, and accept stamps, by which ids are remembered and forgotten. None: the same. `running` gives
    seconds that nobody can set, to measure durations; None: as `clock`.

    `token` makes a random name for each claim. `place`: the journal's address in the owner's record, for people.
    `alone`: no other owner writes this store. `buffers`: what the journal holds; None: it is read here. `stamps` None:
    no other process stamps its hits. `flushed` is called with the status after each complete flush, `unreadable` with
    the key of a damaged row and what is wrong with it, in the flush's thread. `erased_words` reads the values that must
    be forgotten, as each flush begins; None: nothing is erased. `finish` ends, once the owner is claimed and before any
    row is written, what another process had begun to write of its rows. `late` is called after it, with the first
    accept stamp, where hits were accepted before the store knew of this owner: nobody could wait for them until then.
    """

    def __init__(
        self,
        journal: Journal,
        store: Store,
        clock: Callable[[], float],
        token: Callable[[], str],
        pace: Pace,
        place: str,
        alone: bool,
        buffer_bytes: int = BUFFER_BYTES,
        buffers: Buffers | None = None,
        stamps: Stamps | None = None,
        bounded: BoundedLadder = BREAKDOWN,
        flushed: Callable[[OwnerStatus], None] = lambda status: None,
        unreadable: Callable[[str, ClickcurveError], object] = lambda key, error: None,
        erased_words: Callable[[], ErasedWords] | None = None,
        careful: Callable[[], float] | None = None,
        running: Callable[[], float] | None = None,
        finish: Callable[[Held], None] = lambda held: None,
        late: Callable[[int], None] = lambda since_us: None,
    ) -> None:
        self._finish, self._late = finish, late
        self._late_since_us: int | None = None  # what `late` is to be called with, before the next row is written
        self._journal = journal
        self._store = store
        self._clock, self._careful, self._running = clock, careful or clock, running or clock
        self._token = token
        self._pace = pace
        self._place = place
        self._flushed = flushed
        self._unreadable = unreadable
        self._erased_words = erased_words
        self._knows_erased_words = erased_words is None
        self._bounded = bounded
        self._held: Held | None = None
        # A write that failed may have reached only one replica: its mark can be read, and the row can still be lost.
        # So the flush after a failure, and the first one after a claim, write every row again.
        self._rewrite = True
        self._closed: ClickcurveError | None = None  # why nothing is accepted any more
        self._revisit: set[str] = set()
        self._given_up: set[str] = set()  # damaged rows that begin anew
        self._flushing = asyncio.Lock()
        self._erasing = asyncio.Lock()
        self._journal_thread = ThreadPoolExecutor(1, "journal")
        self._store_thread = ThreadPoolExecutor(1, "flush")
        self._offsets = Offsets(store, lambda: self._held, self._in_reader_thread)
        self._status = OwnerStatus()  # as of the last flush, without what is buffered
        self._record: FlushRecord | None = journal.state.flush
        self._buffers = buffers or Buffers(journal, self._late_before(), buffer_bytes)
        self._buffers.measure(self._careful(), self._running)
        self._stamps = stamps or Stamps(self._careful, [0])
        self._stamps.follow(max(buffer.until_us for buffer in self._buffers.all()))
        self._commit = GroupCommit(
            journal.commit,
            clock,
            self._stamps.next,
            close_group,
            self._buffers.add,
            journal.commits_at_once,
            journal.check_timely,
        )
        self._deduplication = Deduplication(
            store, self._buffers.accepted_at, alone, ID_WINDOW_S * 1_000_000, self._stamps.next
        )
        for buffer in self._buffers.all():
            self._offsets.buffered(buffer.sources)

    def _late_before(self) -> int:
        return minutes_since(int(self._clock()))

    # --- accepting -----------------------------------------------------------------------------------------------
    def accept_one(self, hit: str | Hit) -> asyncio.Future[None]:
        """Counts one hit: a person's now by its key, or any without an id. Its group is done when synced."""
        if self._closed is not None:
            raise self._closed.with_traceback(None)
        if self._buffers.full:
            raise self._buffers.behind()
        return self._commit.add_single(hit)

    async def accept(self, batch: Batch) -> frozenset[str]:
        """Counts a batch; returns, after the sync, the ids that were counted before and left out.

        Raises JournalBehind, JournalFull, JournalBroken, OwnerFenced (certainly not counted), JournalUnknown (nobody
        knows), ImportOutOfStep, ImportElsewhere.
        """
        if self._closed is not None:
            raise self._closed.with_traceback(None)
        if self._buffers.full:
            raise self._buffers.behind()
        self._commit.check_overdue()  # before it waits for an id, or an import's step, that waits for the journal
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

    async def _join(self, batch: Batch, visible: bool) -> None:
        many = len(batch.identified) > IDS_ENCODED_AT_ONCE
        payload = await self._in_reader_thread(partial(encode_batch, batch)) if many else encode_batch(batch)
        if self._closed is not None:  # it closed while the store was asked, or the batch encoded
            raise self._closed.with_traceback(None)
        await self._commit.add_batch(batch, payload, visible)

    async def source(self, source: str) -> Source:
        """Returns how far a source was counted, unflushed pieces included; it belongs to this owner afterwards."""
        return await self._offsets.claimed(source)

    async def kept_offset(self, source: str) -> Source:
        """Returns how far a source was counted, unflushed pieces included, as `source` does; writes nothing."""
        return await self._offsets.kept(source)

    # --- reading -------------------------------------------------------------------------------------------------
    def pending(self, key: str) -> list[Pending]:
        """Returns what may not be in this owner's stored row of `key` (a stored key) yet.

        Call it before reading the row: its mark then tells which of these it lacks. Raises RowCorrupt where hits are
        quarantined.
        """
        return [] if self._status.hides(key) else self._buffers.pending(key)

    def pending_breakdowns(self, key: str) -> list[PendingBreakdown]:
        """Returns what may not be in this owner's stored breakdown of `key` (its stored key) yet, as `pending` does.

        Raises StoreUnavailable for what a journal held at a start until the store has said which values were erased.
        """
        found = [] if self._status.hides(key) else self._buffers.pending_breakdowns(key)
        if found and not self._knows_erased_words:
            raise StoreUnavailable("it is not known before the first flush which values were erased; try again")
        return found

    @property
    def number(self) -> int:
        """The owner's number, as the journal knows it; 0 before the first claim."""
        return self._journal.state.identity.owner

    @property
    def next_flush(self) -> int:
        """The least number that the next flush to be recorded can get; StoreUnavailable before the claim."""
        taken, last_flush = self._buffers.taken, self._journal.state.last_flush
        return 1 + (taken.flush if taken and taken.flush else max(last_flush, first_flush(self._holding().epoch)))

    def buffered_links(self) -> Iterator[dict[str, int]]:
        """Yields links with hits that the store may lack yet, and parts of the most that these may be."""
        return chain(self._buffers.counted_links(), [dict.fromkeys(self._status.damaged_links(), MAX_COUNT)])

    def buffered_beside(self, name_of: Callable[[str], str | None]) -> Iterator[dict[str, int]]:
        """Yields the same of rows beside links: of groups, and events. name_of: stored key -> name, None: not meant."""
        damaged = {name for key in self._status.quarantined if (name := name_of(key)) is not None}
        return chain(self._buffers.counted_beside(name_of), [dict.fromkeys(damaged, MAX_COUNT)])

    def revisit(self, keys: Iterable[str]) -> None:
        """Makes the next flush fold these own rows (stored keys) even if they get no hits."""
        self._revisit.update(keys)

    def give_up(self, keys: Iterable[str]) -> None:
        """Makes the next flush begin these own rows (stored keys) anew, if they are damaged still."""
        self._given_up.update(keys)
        self.revisit(keys)

    def due(self, fold_day: int, after: str | None, limit: int) -> list[str]:
        """Returns a page of the own rows (stored keys) that are due at fold_day. May block."""
        return self._store.due(self._holding().owner, fold_day, after, limit)

    def visited(self, fold_day: int) -> None:
        """Records in the store that all rows due at fold_day were revisited and flushed. May block."""
        self._store.visited(self._holding(), fold_day)

    def folded_to(self) -> int:
        """Returns the day to which the own row of all links, which each flush writes, is folded. May block.

        0 if there is none that can be read.
        """
        own = self._store.read_own(self._holding().owner, [ALL_LINKS]).get(ALL_LINKS)
        with suppress(RowCorrupt):  # which the flush tells
            return 0 if own is None or own.data is None else decode_header(own.data).fold_day
        return 0

    def walk(self, after: str | None, limit: int) -> list[tuple[str, StoredLink]]:
        """Returns a page of all rows of counts, by stored key. May block."""
        return self._store.walk(after, limit)

    def times_changed(self) -> bool:
        """Returns whether values are kept for another time than when all own breakdowns were revisited. May block."""
        return (self._store.noted(self._note_of_times()) or "") != self._kept_times()

    def note_times(self) -> None:
        """Notes in the store for how long values are kept, after all own breakdowns were revisited. May block."""
        name, times = self._note_of_times(), self._kept_times()
        self._store.drop_notes([name])
        if times:
            self._store.note(name, times)

    def _note_of_times(self) -> str:
        return f"{KEPT_TIMES}{self._holding().owner}"

    def _kept_times(self) -> str:
        return ",".join(map(str, self._bounded.times))

    def _holding(self) -> Held:
        if self._held is None:
            raise StoreUnavailable("the store has not been reached since the start")
        return self._held

    async def erase(self, *keys: str, last: Sequence[str] = ()) -> None:
        """Erases everything counted for these links and groups (stored keys) until now, durably.

        last: erased with them, as by `Store.erase`.

        Raises JournalFull while the journal does not answer: nothing is erased. StoreUnavailable: nothing is erased
        here, and perhaps some of them in the store.
        """
        all_keys = (*keys, *last)
        self._commit.check_overdue()
        if not self._stamps.known():
            raise StoreUnavailable("another worker is still reading its journal; try again in a second")
        if self._held is None:
            await self.claim()
        async with self._erasing:  # no id is decided between the two: what is taken back would be as it was before
            async with self._commit.exclusive():
                at_us = self._stamps.next()
                restores = [self._buffers.erase(key, at_us) for key in all_keys]
            try:
                await self._in_reader_thread(lambda: self._store.erase(keys, at_us, last))
            except Exception:
                for restore in restores:
                    restore()
                raise
        self.revisit(chain(all_keys, map(breakdown_of, all_keys)))

    def counts_after(self, erased_at_us: int) -> bool:
        """Tells whether hits that are accepted from now on count in a row that was erased then.

        They do not while the clock of the machine that erased it is ahead of this one's.
        """
        return self._stamps.next() > erased_at_us

    async def hide_erased(self, *keys: str) -> None:
        """Hides what is buffered of rows that another owner has erased; the flush goes by the store's stamp."""
        async with self._commit.exclusive():
            for key in keys:
                if self._buffers.pending(key):
                    self._buffers.erase(key, self._stamps.next())

    # --- flushing ------------------------------------------------------------------------------------------------
    async def flush(self) -> None:
        """Moves what is buffered into the store, after claiming the owner and finishing an unfinished flush.

        Flushes run one at a time. Raises StoreUnavailable (nothing is lost, the next flush tries again), OwnerFenced or
        JournalSuperseded (nothing is accepted any more).

        A flush that is cancelled goes on, as its threads do, and the next one waits for it: it may be half recorded.
        """
        await asyncio.shield(self._flush_alone())

    async def _flush_alone(self) -> None:
        async with self._flushing:
            if self._status.state == "closed" and self._closed is not None:
                raise self._closed.with_traceback(None)
            await self._flush()

    async def between_flushes(self, write: Callable[[Held], None]) -> None:
        """Writes own rows in the flush's thread, while no flush is under way. Raises what `write` does."""
        async with self._flushing:
            with self._counting_failures():
                await self._claim()
                await self._in_store_thread(lambda: write(self._holding()))

    async def claim(self) -> None:
        """Becomes the holder of the owner, as the first flush does. Raises as `flush`."""
        async with self._flushing:
            with self._counting_failures():
                await self._claim()

    async def _flush(self) -> None:
        with self._counting_failures():
            await self._claim()
            if self._erased_words is not None:
                self._buffers.forget_words(await self._in_store_thread(self._erased_words))
                self._knows_erased_words = True
            if self._late_since_us is not None:
                await self._in_store_thread(partial(self._late, self._late_since_us))
                self._late_since_us = None
            if self._record is not None:
                revisit = frozenset(self._revisit)
                await self._carry_out(self._record)
                self._revisit |= revisit  # once more: it may have written these rows before they were asked for
            if record := await self._take():
                await self._carry_out(record)
            self._status = replace(self._status, store_up=True)

    @contextmanager
    def _counting_failures(self) -> Iterator[None]:
        """Notes what a flush that fails leaves behind, whatever it fails with."""
        try:
            yield
        except BaseException as error:  # a flush that is cancelled goes on in its thread, and may fail there unheard
            if isinstance(error, OwnerFenced | JournalSuperseded):
                self._closed = error
            self._rewrite = True
            self._status = self._status.after_failure(error)
            raise

    async def _claim(self) -> None:
        if self._held is not None and not epoch_is_used_up(self._journal.state.last_flush):
            return
        self._stamps.follow(await self._in_store_thread(self._store.newest_erasure))
        now, between = int(self._careful()), self._between_commits()
        held, was_known = await self._in_store_thread(
            lambda: self._journal.claim(self._store, self._place, self._token, now, between)
        )
        await self._in_store_thread(lambda: self._finish(held))
        if not was_known:
            async with self._commit.exclusive():
                self._late_since_us = self._buffers.since_us
        self._held = held
        self._rewrite = True
        self._status = replace(self._status, owner=held.owner, epoch=held.epoch, state="open")
        with suppress(RowCorrupt):  # the next flush says so
            quarantined = await self._in_store_thread(lambda: load_quarantine(self._store, held.owner))
            self._status = self._status.with_quarantine(quarantined or {})

    def _between_commits(self) -> BetweenCommits:
        """Returns what makes another thread's call in the journal's thread, while no commit is under way."""
        loop = asyncio.get_running_loop()

        async def make(call: Callable[[], None]) -> None:
            async with self._commit.exclusive():
                await self._in_journal_thread(call)

        return lambda call: asyncio.run_coroutine_threadsafe(make(call), loop).result()

    async def _take(self) -> FlushRecord | None:
        """Records the next flush and takes the buffer; returns None if there is nothing to flush."""
        assert self._held is not None
        is_idle = self._buffers.filling.is_empty() and not self._revisit and not self._status.quarantined
        if is_idle and not self._journal.must_flush:
            return None
        number = self.next_flush
        async with self._commit.exclusive():
            day = fold_day(int(self._careful()))
            self._record = await self._in_journal_thread(lambda: self._journal.record_flush(number, day))
            self._buffers.take(number, self._late_before())
        return self._record

    async def _carry_out(self, record: FlushRecord) -> None:
        held, taken, store = self._held, self._buffers.taken, self._store
        started, at, began = self._clock(), int(self._careful()), self._running()
        assert held is not None and taken is not None
        if not await self._in_store_thread(lambda: self._journal.begin(store, held, record, at)):
            raise OwnerFenced(f"another process has taken owner {held.owner} over; restart to go on as another owner")
        if taken.undecided:
            ids = {id_: one.accepted_us for id_, one in taken.undecided.items()}
            refuse_old_ids(store.replay_us, min(ids.values()), self._careful(), self._place)
            window_us = ID_WINDOW_S * 1_000_000
            refused = await self._in_store_thread(lambda: store.claim_ids(held, record.number, ids, window_us))
            async with self._erasing:
                for _ in taken.deciding(refused):
                    await asyncio.sleep(0)
        revisit, self._revisit = frozenset(self._revisit), set()
        pause = self._pace.over(asyncio.get_running_loop().call_soon_threadsafe, self._commit.after_requests)
        flush = Flush(
            held=held,
            number=record.number,
            fold_day=record.fold_day,
            rewrite=self._rewrite,
            sound=not self._rewrite and not self._status.quarantined,
            taken=taken,
            revisit=revisit,
            given_up=frozenset(self._given_up),
            again=partial(self._replay_taken, taken.refused),
            store=store,
            bounded=self._bounded,
            unreadable=self._unreadable,
            pause=pause if self._closed is None else lambda: None,
        )
        try:
            rows = await self._in_store_thread(flush.write)
            async with self._commit.exclusive():
                await self._in_journal_thread(lambda: self._journal.complete_flush(record.number))
                self._record = None
                self._buffers.complete()
        except BaseException:
            self._revisit |= revisit
            raise
        self._rewrite = False
        self._status = self._status.with_quarantine(flush.quarantined)
        self._status = self._status.after_flush(started, self._running() - began, rows, taken.hits())
        self._given_up -= flush.given_up
        self._flushed(self.status)
        await self._in_store_thread(self._journal.drop_completed)
        await self._in_store_thread(lambda: taken.drain(pause))

    def _replay_taken(self, refused: set[str], erasures: Mapping[str, int]) -> Buffer:
        buffer = replay(self._journal.frames(self._record), erasures, self._late_before())
        buffer.words = self._buffers.words
        buffer.decide(refused)
        return buffer

    async def _in_store_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, call)

    async def _in_reader_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, call)  # next to a flush, not after it

    async def _in_journal_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._journal_thread, call)

    # --- state and end -------------------------------------------------------------------------------------------
    @property
    def status(self) -> OwnerStatus:
        return self._status.with_buffers(self._buffers, self._journal.bytes_held, self._running())

    async def _give_back_number(self, held: Held) -> None:
        between = self._between_commits()
        await self._in_store_thread(lambda: self._journal.give_back(self._store, held, between))
        self._status = replace(self._status, state="closed")

    async def close(self) -> None:
        """Refuses new hits, flushes, gives the number back and releases the journal.

        Raises StoreUnavailable if the store could not take the last flush, which stays in the journal for the next
        start. The journal is released in any case.
        """
        self._closed = self._closed or JournalBroken("the server is shutting down")
        await self._commit.drain()
        try:
            async with self._flushing:
                if self._status.state != "fenced":
                    await self._flush()
                    if self._held is not None:
                        await self._give_back_number(self._held)
        finally:
            await self.release()

    def lose(self, error: OwnerFenced) -> None:
        """Accepts and flushes nothing more, and shows nothing of what is buffered: another process has all of it."""
        self._closed = self._closed or error
        self._status = replace(self._status, state="fenced")

    async def release(self) -> None:
        """Releases the journal without a flush: what it holds stays in it."""
        self._closed = self._closed or JournalBroken("the journal was released")
        async with self._commit.exclusive():
            await self._in_journal_thread(self._journal.close)
        self._journal_thread.shutdown()
        self._store_thread.shutdown()
