"""The journal on a disk: a write-ahead log of accepted hits, synced before each answer.

It is a folder of segment files: `segment_format.py` has their bytes, `recovery.py` how they are read after a
stop, `segment_files.py` how they are written. Rules that keep it exact:

1. One group is one frame, one write and one sync. It counts whole or not at all.
2. A group whose write failed is cancelled by a new segment whose header says that the old one ends before it. The group
   is certainly not counted (JournalBroken, JournalFull) only once that header is durable.
3. If the new segment cannot be made either, that one group may count or not (JournalUnknown), and the journal is
   **unsettled**: it has no segment that it may write to. The next call first tries again to make one.
4. The header of a segment repeats the whole state, so old segments can go as soon as a complete flush covers them.
5. Hits are accepted only while a spare file with reserved room is ready for the next segment, so that on a full disk a
   flush can still be recorded and completed, which makes room again. For the same reason `max_bytes` limits hits only.
6. Where the store is on the same disk, hits leave the room that their flush needs there. Otherwise the store could not
   take what the journal holds, and the journal could not let go of it.
"""

from __future__ import annotations

import errno
import threading
import uuid
from asyncio import Future
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from clickcurve.buckets.errors import JournalBroken, JournalError, JournalFull, JournalHeld, JournalUnknown
from clickcurve.buckets.row import NO_MARK
from ingest import claim
from ingest.journal.commit_thread import CommitThread
from ingest.journal.contract import BetweenCommits, Claimed, FlushRecord, Frame, Identity
from ingest.journal.disk import Disk
from ingest.journal.recovery import damaged, recover, segment_path
from ingest.journal.segment_files import SegmentFiles
from ingest.journal.segment_format import (
    GROUP,
    GROUP_BYTES_MAX,
    NEW,
    SEGMENT_BYTES_MAX,
    DiskFlushRecord,
    DiskJournalState,
    Malformed,
    encode_group,
    encode_state_frame,
    frame_bytes,
    payloads_of,
    valid_frames,
)
from ingest.journal.unanswered import Unanswered, WatchedLock
from storage.contract import Held, Store

MAX_BYTES = 1 << 30
SEGMENT_BYTES = 32 << 20  # a recovery, and a flush that is rebuilt, read a segment whole
CHUNK_BYTES = 1 << 20
LOOK_BYTES = 64 << 10  # after so many bytes, and after a flush, the disk is asked again how much room it has
STALL_S = 2.0  # after that a write without an answer makes the server not ready, and hits are refused
LARGE_GROUP_BYTES = 256 * 1024  # a larger group is written in a thread, in memory too
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskJournal:
    """The log of one folder. Any thread may call the methods; one runs at a time.

    name: a uuid, which copies of it share. state: as it is now; found: as it was at opening. torn_bytes: the length of
    the torn tail that was cut then. in_memory: whether its file system is, so that no write waits for a disk.
    """

    commits_at_once = 1

    def __init__(
        self,
        folder: Path,
        disk: Disk | None = None,
        max_bytes: int = MAX_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        sync: Literal["always", "off"] = "always",
        timer: Callable[[], float] = lambda: 0.0,
        stall_s: float = STALL_S,
        flush_bytes: Callable[[int], int] | None = None,
    ) -> None:
        """Locks the folder (JournalHeld if a process has it) and recovers; JournalDamaged gives file and offset.

        An existing journal opens on a disk that refuses writes, too: it can be read, and each call that must write
        tries again. A new one raises JournalFull or JournalBroken there. `flush_bytes` says how much room the flush of
        so many bytes of the journal needs on this disk; None: the store is elsewhere. timer: seconds that nobody can
        set; hits are refused while a write is under way for longer than stall_s.
        """
        self.folder = folder
        self._disk = disk or Disk()
        self._files = SegmentFiles(folder, self._disk, chunk_bytes)
        self._max_bytes, self._chunk_bytes = max_bytes, chunk_bytes
        self._segment_bytes = min(segment_bytes, SEGMENT_BYTES_MAX)
        self._always, self._flush_bytes = sync == "always", flush_bytes
        self._unanswered = Unanswered(timer, stall_s, "the disk has not answered")
        self._mutex = threading.Lock()
        self._watched = WatchedLock(self._mutex, self._unanswered)
        self.in_memory = False
        self._lock_fd: int | None = None
        self._thread = CommitThread("journal")
        try:
            self._lock_folder()
            self.in_memory = self._disk.is_memory(folder)
            self._recover()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise _refusal(f"the journal in {folder} cannot be opened", error) from error
            raise

    @property
    def bytes_held(self) -> int:
        """The bytes that count against `max_bytes`: all that was written to files that still exist."""
        return self._files.bytes_held

    @property
    def others_from(self) -> int:
        return NO_MARK

    @property
    def must_flush(self) -> bool:
        return False

    # --- hits ---------------------------------------------------------------------------------------------------
    def commit(self, payloads: Sequence[bytes], accepted_us: int) -> Future[None] | None:
        """Appends a group: in memory here, because handing it to a thread costs more than it takes.

        Else in a thread, however quick the disk is: one day it does not answer, and questions must go on.
        """
        if self.in_memory and sum(map(len, payloads)) <= LARGE_GROUP_BYTES:
            self.append(payloads, accepted_us)
            return None
        return self._thread.call(partial(self.append, payloads, accepted_us))

    def append(self, payloads: Sequence[bytes], accepted_us: int) -> None:
        """Writes and syncs these payloads as one group: all of them or none.

        Raises JournalFull or JournalBroken (certainly not counted, now and after any recovery) or JournalUnknown
        (counted or not).
        """
        if not payloads:
            return
        size = frame_bytes(sum(map(len, payloads)), len(payloads))
        with self._writing():
            self._make_ready(size)
            files, always = self._files, self._always
            try:
                files.append_frame(
                    lambda at: encode_group(payloads, accepted_us, at.end, at.durable, at.salt), durable=always
                )
            except OSError as error:
                self._cancel(error)
            assert files.current is not None
            files.current.hits = True

    def _writing(self) -> AbstractContextManager[object]:
        """Holds the journal for a call that writes; on a disk it notes since when, which takes 2 us."""
        return self._mutex if self.in_memory else self._watched

    def _make_ready(self, size: int) -> None:
        """Makes sure of a segment with room for a group. If it raises, nothing of the group is written."""
        self._check_open()
        files = self._files
        bytes_held = files.bytes_held
        if bytes_held + size > self._max_bytes or size > GROUP_BYTES_MAX:
            raise JournalFull(
                f"the journal holds {bytes_held:,} of {self._max_bytes:,} bytes; {size:,} more do not fit"
            )
        try:
            if files.current is None or files.current.end >= self._segment_bytes:
                files.open_next(self.state)
            current = files.current
            assert current is not None
            if current.end + size > current.room_to:
                if self._flush_bytes is not None:
                    self._check_disk(size)
                current.room_to = current.end + size + LOOK_BYTES
            files.make_spare()
            files.reserve(size)
        except OSError as error:
            raise _refusal("nothing was written", error) from error

    def check_room(self) -> None:
        """Raises JournalFull if the disk does not answer, or has no room for the next group. Writes nothing."""
        self.check_timely()
        self._check_disk(0)

    def _check_disk(self, size: int) -> None:
        """Raises JournalFull if the journal is full, or the disk lacks room for `size` bytes more and their flush.

        Where the store is elsewhere, the disk needs room for the next piece of a file. Raises OSError if it cannot tell
        how much it has.
        """
        bytes_held, free = self.bytes_held, self._disk.free_bytes(self.folder)
        if bytes_held >= self._max_bytes:
            raise JournalFull(f"the journal is full: {bytes_held:,} of {self._max_bytes:,} bytes")
        if self._flush_bytes is None:
            needed, what = self._chunk_bytes, "the journal"
        else:
            needed, what = self._flush_bytes(bytes_held + size), "the next flush"
        if free < needed:
            raise JournalFull(f"the disk has {free:,} bytes left, and {what} needs {needed:,} of them")

    def check_timely(self) -> None:
        self._unanswered.check()

    @property
    def stalled_s(self) -> float:
        return self._unanswered.overdue_s()

    def _cancel(self, error: OSError) -> None:
        """Cancels a group whose write failed, by making the end of its segment before it durable; always raises."""
        try:
            self._files.open_next(self.state)
        except OSError as second:
            what = "a write failed and could not be cancelled, so its hits may count or not"
            raise JournalUnknown(f"{what}: {error}; then: {second}") from error
        raise _refusal("a write failed and was cancelled", error) from error

    def frames(self, flush: FlushRecord | None = None) -> Iterator[Frame]:
        """Yields the frames that the unfinished flush covers or (None) that no flush covers yet, oldest first.

        Which frames is fixed by the call: groups that are appended later are not among them. Raises JournalDamaged or
        JournalBroken while iterating if the disk does not return what was written.
        """
        with self._mutex:
            unfinished = self.state.flush
            if flush is not None and flush != unfinished:
                raise ValueError(f"flush {flush.number} is not the unfinished one")
            border = unfinished.last_segment if unfinished else self.state.covered
            current = self._files.current
            segments = [*self._files.closed, current] if current else self._files.closed
            extents = [
                (segment_path(self.folder, segment.number), segment.start, segment.end, segment.salt)
                for segment in segments
                if (segment.number <= border) == (flush is not None)
            ]
        return self._read(extents)

    def _read(self, extents: list[tuple[Path, int, int, int]]) -> Iterator[Frame]:
        for path, start, end, salt in extents:
            try:
                view = self._disk.read(path)
            except OSError as error:
                raise JournalBroken(f"the journal cannot be read: {error}") from error
            at = start
            for frame in valid_frames(view, start, min(end, len(view)), salt):
                at = frame.end
                if frame.kind == GROUP:
                    try:
                        for payload in payloads_of(view, frame):
                            yield Frame(frame.accepted_us, payload)
                    except Malformed as error:
                        raise damaged(path, frame.body, str(error)) from error
            if at != end:
                raise damaged(path, at, f"the record here is damaged; the segment holds records up to {end}")

    # --- flushes and identity -----------------------------------------------------------------------------------
    def claim(
        self, store: Store, place: str, token: Callable[[], str], now: int, between_commits: BetweenCommits
    ) -> Claimed:
        return claim.claim(self, self.name, self._recorder(between_commits), store, place, token, now)

    def give_back(self, store: Store, held: Held, between_commits: BetweenCommits) -> None:
        claim.give_back(self._recorder(between_commits), store, held)

    def _recorder(self, between_commits: BetweenCommits) -> Callable[[Identity], None]:
        return lambda identity: between_commits(lambda: self.record_identity(identity))

    def record_identity(self, identity: Identity) -> None:
        """Records the identity durably. After an error a recovery may find the old identity or this one."""
        with self._writing():
            self._record(replace(self.state, identity=identity))

    def record_flush(self, number: int, fold_day: int) -> DiskFlushRecord:
        """Records durably a flush of all hits held, by closing the current segment.

        After an error this journal has no such flush, but a recovery may find it. Raises ValueError if a flush is
        unfinished, or if the number does not rise.
        """
        with self._writing():
            self._check_open()
            state, files = self.state, self._files
            state.check_next(number)
            # A segment without hits need not be closed. So a flush can be recorded even if no file can be created.
            without_hits = files.current is not None and not files.current.hits
            last_segment = files.next_number - (2 if without_hits else 1)
            flush = DiskFlushRecord(number, state.last_flush, fold_day, last_segment)
            self._record(replace(state, flush=flush), as_frame=without_hits)
            return flush

    def drop_completed(self) -> None:
        """Returns at once: `complete_flush` has removed the segments."""

    def begin(self, store: Store, held: Held, flush: FlushRecord, at: int) -> bool:
        return store.begin(held, flush.previous, flush.number, at)

    def complete_flush(self, number: int) -> None:
        """Records durably that the store has the flush, and removes its segments. May be repeated after an error."""
        with self._writing():
            if self.state.has_completed(number):
                return
            flush = self.state.flush
            assert flush is not None
            self._record(replace(self.state, last_flush=number, covered=flush.last_segment, flush=None))

    def _record(self, state: DiskJournalState, *, as_frame: bool = True) -> None:
        """Makes a state durable: as a frame or, if that fails, in the header of a new segment."""
        self._check_open()
        if not as_frame or not self._put_state(state):
            try:
                self._files.open_next(state)
            except OSError as error:
                raise _refusal("the journal's state could not be recorded", error) from error
        self.state = state
        self._files.remove(state.covered)

    def _put_state(self, state: DiskJournalState) -> bool:
        files = self._files
        if files.current is None:
            return False
        try:
            files.make_durable(files.current)  # no durable state may follow hits that are not durable (sync off)
            files.append_frame(lambda at: encode_state_frame(state, at.end, at.durable, at.salt), durable=True)
        except OSError:
            return False
        return True

    # --- opening and closing --------------------------------------------------------------------------------------
    def close(self) -> None:
        """Releases the folder. What was accepted stays; with sync off it is synced now if the disk allows."""
        with self._mutex:
            if self._files.current:
                with suppress(OSError):
                    self._files.make_durable(self._files.current)
            self._files.close()
            if self._lock_fd is not None:
                with suppress(OSError):
                    self._disk.close(self._lock_fd)
                self._lock_fd = None
        self._thread.end()

    def _check_open(self) -> None:
        if self._lock_fd is None:
            raise JournalBroken("the journal is closed")

    def _lock_folder(self) -> None:
        self._disk.make_folder(self.folder)
        path = self.folder / "lock"
        try:
            self._lock_fd = self._disk.lock(path)
        except (BlockingIOError, FileNotFoundError):  # held, or renamed by the process that held it
            holder = ""
            with suppress(FileNotFoundError):
                holder = bytes(self._disk.read(path)).decode(errors="replace").strip()
            raise JournalHeld(f"the journal in {self.folder} is held by process {holder or 'unknown'}") from None

    def _recover(self) -> None:
        recovered, files = recover(self.folder, self._disk), self._files
        if recovered is None:
            journal, self.state, self.torn_bytes = self._disk.random(16), NEW, 0
            files.begin(journal)
            files.open_next(NEW)
        else:
            journal, self.state, self.torn_bytes = recovered.journal, recovered.state, recovered.torn_bytes
            files.continue_after(recovered)
            with suppress(OSError):  # unsettled: the first call that must write tries again, and raises
                files.open_next(self.state)
        self.name, self.found = str(uuid.UUID(bytes=journal)), self.state


def _refusal(what: str, error: OSError) -> JournalError:
    if error.errno in _FULL:
        return JournalFull(f"{what}: no room on the disk ({error})")
    return JournalBroken(f"{what}: {error}")
