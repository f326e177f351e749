"""The journal in the store: frames on a quorum instead of files on a disk. It implements `contract.Journal`.

Rules that keep it exact, beside those of `window.py` and `taking.py`:

1. A frame without an acknowledgement, or without a read of the fence after it, is **given up**: the connections of its
   requests close, no flush of this process names it, and memory does not count it. The next holder may find it.
2. Then it sends nothing, and refuses for certain, until the next flush has begun. So what had no answer never lies
   beside its own repeat: a holder that finds it finds nothing later, and once the flush has begun nobody looks for it.
3. After a claim the flush that the owner's last holder began is carried out again. The next one names what lies behind
   it, perhaps nothing, and only then frames are accepted: so frames of two epochs never lie behind one flush.
4. A begin names its frames. While its outcome is unknown nothing is accepted, and the next call repeats it as it was.
5. The frames of a flush are deleted when it is recorded as done, not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from clickcurve.buckets.errors import ClickcurveError, JournalBroken, JournalUnknown, StoreUnavailable
from ingest.claim import first_flush
from ingest.journal.contract import BetweenCommits, Claimed, FlushRecord, Frame, Identity, JournalState
from ingest.journal.frame_format import decode_frame, encode_frame, text_of
from ingest.journal.taking import claimed_record, frames_named, is_unfinished, made, process_of, take, taken_over
from ingest.journal.unanswered import Unanswered
from ingest.journal.window import Window
from storage.contract import Held, Store
from storage.journals import EMPTYING, FramePlace, JournalRecord, Journals

OVERDUE_S = 1.0  # after that a frame without an answer makes the server not ready, and hits are refused


@dataclass(frozen=True, slots=True)
class NamedFlush(FlushRecord):
    """A flush and the numbers of the frames behind `behind` that it counts, as text."""

    behind: int
    frames: str


class ClusterJournal:
    """The journal of an owner that this process has taken.

    `clock` gives epoch seconds, `timer` seconds that nobody can set.
    """

    commits_at_once = 2  # with one alone all stands still where a node is slow; more send more for the same hits

    def __init__(
        self, journals: Journals, taken: JournalRecord, clock: Callable[[], float], timer: Callable[[], float]
    ) -> None:
        """Reads the frames that the owner's last holder left; blocks.

        Raises StoreUnavailable, OwnerFenced, JournalDamaged.
        """
        record = taken.record
        self._journals, self._clock = journals, clock
        self.held = Held(record.owner, record.epoch, record.holder)
        self._accepts = record.journal != EMPTYING
        self._to_drop: list[int] = []
        self._unfinished: dict[int, bytes] | None = None  # frames of the unfinished flush; None: not in memory
        flush = None
        if is_unfinished(taken):
            flush = NamedFlush(record.begun, taken.done, taken.fold_day, taken.previous, taken.frames)
            self._unfinished = frames_named(journals, taken)
        elif record.begun:
            self._to_drop.append(taken.previous)  # its holder may have died before it did
        self._left = journals.frames(record.owner, record.begun)
        self.state = JournalState(Identity(record.owner, record.epoch, record.holder, ()), taken.done, flush)
        self._window = Window(record.owner, record.epoch, record.begun)
        self._has_begun = False  # a flush of its own
        self._beginning: NamedFlush | None = None  # of unknown outcome
        self._closed = False
        self._waiting: dict[int, asyncio.Future[None]] = {}  # frames that are acknowledged, by number
        self._unanswered = Unanswered(timer, OVERDUE_S, "the cluster has not acknowledged a frame")
        self._reading = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.bytes_held = sum(map(len, (*self._left.values(), *(self._unfinished or {}).values())))
        self._bytes_taken = 0
        self.kept = self.given_up = 0  # frames

    # --- state ----------------------------------------------------------------------------------------------------
    @property
    def is_fenced(self) -> bool:
        """Whether a read of the fence, or a refusal, has told that another process holds the owner."""
        return self._window.fenced

    @property
    def others_from(self) -> int:
        return first_flush(self.held.epoch + 1)

    @property
    def must_flush(self) -> bool:
        return self._beginning is not None or not self._has_begun or self._window.gave_up

    def check_room(self) -> None:
        self._check_accepts()
        self.check_timely()

    def check_timely(self) -> None:
        self._unanswered.check()

    @property
    def stalled_s(self) -> float:
        return self._unanswered.overdue_s()

    def _check_accepts(self) -> None:
        """Raises an error that is certain: nothing is sent."""
        if self._window.fenced:
            raise taken_over(self.held.owner)
        if self._closed:
            raise JournalBroken("the journal is closed")
        if not self._accepts:
            raise JournalBroken(f"owner {self.held.owner} is being emptied, and accepts nothing")
        if self.must_flush:
            since = "a frame had no answer" if self._window.gave_up else "the journal was taken"
            raise JournalBroken(f"no flush has begun since {since}; try again in a second")

    # --- hits -----------------------------------------------------------------------------------------------------
    def commit(self, payloads: Sequence[bytes], accepted_us: int) -> asyncio.Future[None] | None:
        if not payloads:
            return None
        self._check_accepts()
        frame = encode_frame(payloads, accepted_us)
        place = self._window.open_frame(len(frame))
        self._unanswered.begin(place.number)
        self.bytes_held += len(frame)
        kept = asyncio.get_running_loop().create_future()
        self._spawn(self._send(place, frame, kept))
        return kept

    async def _send(self, place: FramePlace, frame: bytes, kept: asyncio.Future[None]) -> None:
        try:
            await self._journals.append(place, frame)
        except BaseException as error:  # whatever it is, no request may wait for ever
            self._give_up(place.number, kept, error)
            if not isinstance(error, StoreUnavailable):
                raise
            return
        self._window.acknowledged(place.number)
        self._waiting[place.number] = kept
        if not self._reading:
            self._reading = True
            self._spawn(self._confirm())

    async def _confirm(self) -> None:
        """Reads the fence, one read after the other, for all frames that are acknowledged when each begins."""
        try:
            while asked := self._window.begin_read():
                counting: frozenset[int] = frozenset()
                error: BaseException = taken_over(self.held.owner)
                try:
                    counting = self._window.end_read(asked, await self._journals.fence(self.held.owner))
                except BaseException as failure:  # whatever it is, no request may wait for ever
                    error = failure
                for number in sorted(asked):
                    self._settle(number, None if number in counting else error)
                if not isinstance(error, ClickcurveError):
                    raise error
        finally:
            self._reading = False

    def _settle(self, number: int, error: BaseException | None) -> None:
        kept = self._waiting.pop(number)
        if error is None:
            self._unanswered.end(number)
            self.kept += 1
            kept.set_result(None)
        else:
            self._give_up(number, kept, error)

    def _give_up(self, number: int, kept: asyncio.Future[None], error: BaseException) -> None:
        self._window.give_up(number)
        self._unanswered.end(number)
        self.given_up += 1
        kept.set_exception(JournalUnknown(f"a frame was sent, and nobody knows whether it counts: {error}"))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop itself keeps none alive
        task.add_done_callback(self._tasks.discard)

    def frames(self, flush: FlushRecord | None = None) -> Iterator[Frame]:
        unfinished = self.state.flush
        if flush is None:
            frames = self._read_counting() if self._has_begun else self._left
        elif flush != unfinished or not isinstance(unfinished, NamedFlush):
            raise ValueError(f"flush {flush.number} is not the unfinished one")
        else:
            frames = self._read_again(unfinished) if self._unfinished is None else self._unfinished
        return (payload for _, frame in sorted(frames.items()) for payload in decode_frame(frame))

    def _read_counting(self) -> dict[int, bytes]:
        counting = self._window.counting()
        found = self._journals.frames(self.held.owner, self._window.after) if counting else {}
        return {number: found[number] for number in counting}

    def _read_again(self, flush: NamedFlush) -> dict[int, bytes]:
        record = self._journals.record(self.held.owner)
        if record is None or (record.record.holder, record.record.begun) != (self.held.holder, flush.number):
            raise taken_over(self.held.owner)
        return frames_named(self._journals, record)

    # --- the owner and its flushes ----------------------------------------------------------------------------------
    def claim(
        self, store: Store, place: str, token: Callable[[], str], now: int, between_commits: BetweenCommits
    ) -> Claimed:
        """Returns the holder that the journal was taken with; takes the next epoch once this one's numbers are used up.

        What was accepted under the former epoch stays: it is this process's own. None of it is older.
        """
        if self.state.last_flush < first_flush(self.held.epoch + 1) - 1:
            return Claimed(self.held, was_known=True)

        def take_again() -> None:
            before = self._journals.record(self.held.owner)
            if before is None or (before.record.epoch, before.record.holder) != (self.held.epoch, self.held.holder):
                raise taken_over(self.held.owner)
            taken = take(store, self._journals, before, claimed_record(before, token(), place, now, not self._accepts))
            if taken is None:
                raise taken_over(self.held.owner)
            self._window.epoch = taken.record.epoch
            self.held = Held(self.held.owner, taken.record.epoch, taken.record.holder)
            identity = Identity(self.held.owner, self.held.epoch, self.held.holder, ())
            self.state = replace(self.state, identity=identity)

        between_commits(take_again)
        return Claimed(self.held, was_known=True)

    def give_back(self, store: Store, held: Held, between_commits: BetweenCommits) -> None:
        self.drop_completed()
        store.close_owner(held)

    def record_flush(self, number: int, fold_day: int) -> FlushRecord:
        self.state.check_next(number)
        if self._window.under_way:
            raise ValueError(f"{self._window.under_way} frames are under way")
        self._drop()  # the next holder looks behind one flush only
        if self._beginning is None:
            numbers = self._window.counting() if self._has_begun else self._left.keys()
            self._beginning = NamedFlush(number, self.state.last_flush, fold_day, self._window.after, text_of(numbers))
        flush = self._beginning
        begun = self._journals.begin(
            self.held, flush.behind, flush.number, int(self._clock()), flush.fold_day, flush.frames
        )
        if not begun:
            self._window.fenced = True
            raise taken_over(self.held.owner)
        self._unfinished = None if self._has_begun else self._left
        self._left = {}
        self._window = Window(self.held.owner, self.held.epoch, flush.number)
        self._beginning, self._has_begun = None, True
        self.state = replace(self.state, flush=flush)
        self._bytes_taken = self.bytes_held
        return flush

    def begin(self, store: Store, held: Held, flush: FlushRecord, at: int) -> bool:
        """Returns True: the flush began when it was recorded."""
        return True

    def complete_flush(self, number: int) -> None:
        if self.state.has_completed(number):
            return
        flush = self.state.flush
        assert isinstance(flush, NamedFlush)
        if not self._journals.done(self.held, number):
            self._window.fenced = True
            raise taken_over(self.held.owner)
        self._to_drop.append(flush.behind)
        self._unfinished = None
        self.state = replace(self.state, last_flush=number, flush=None)
        self.bytes_held, self._bytes_taken = self.bytes_held - self._bytes_taken, 0

    def drop_completed(self) -> None:
        with suppress(StoreUnavailable):  # then before the next flush, or the next holder does it
            self._drop()

    def _drop(self) -> None:
        while self._to_drop:
            self._journals.drop(self.held.owner, self._to_drop[-1])
            self._to_drop.pop()

    def close(self) -> None:
        self._closed = True


def take_journal(
    store: Store,
    before: JournalRecord,
    token: str,
    place: str,
    clock: Callable[[], float],
    timer: Callable[[], float],
    emptying: bool,
) -> ClusterJournal | None:
    """Takes an owner that is free, with its journal; None: another process was first.

    token: a name of this claim alone. Raises StoreUnavailable: take it once more, as it is then. OwnerFenced: another
    process has taken it meanwhile. JournalDamaged.
    """
    journals = store.journals()
    taken = take(store, journals, before, claimed_record(before, token, place, int(clock()), emptying))
    return None if taken is None else ClusterJournal(journals, taken, clock, timer)


def make_journal(
    store: Store, owner: int, token: str, place: str, clock: Callable[[], float], timer: Callable[[], float]
) -> ClusterJournal | None:
    """Makes an owner with a journal of its own; None: another process has made one of this number.

    Raises StoreUnavailable: call again with this number, or the owner may be made for nobody.
    """
    journals, record = store.journals(), made(owner, token, place, int(clock()))
    if store.create_owner(record):
        return ClusterJournal(journals, JournalRecord(record), clock, timer)
    stored = journals.record(owner)  # perhaps of an earlier call
    if stored is None or process_of(stored.record.holder) != process_of(token):
        return None
    return ClusterJournal(journals, stored, clock, timer)
