"""Journals in memory: the reference for what the contract means, and for tests."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

from storage.contract import Held, OwnerRecord
from storage.journals import EMPTYING, IN_STORE, FramePlace, JournalRecord
from storage.owners import begun_naming, done_with


class MemoryJournals:
    """Implements `Journals` beside the records of a store. lock: the store's."""

    def __init__(self, lock: RLock, owners: dict[int, OwnerRecord]) -> None:
        self._lock = lock
        self._owners = owners
        self._begun: dict[int, JournalRecord] = {}  # as of the last begin or done; its owner's record may be older
        self._frames: dict[tuple[int, int], dict[int, bytes]] = {}
        self._dropped: set[tuple[int, int]] = set()
        self._fences: dict[int, int] = {}
        self._beats: dict[str, int] = {}

    async def append(self, place: FramePlace, frame: bytes) -> None:
        behind = place.owner, place.after
        with self._lock:
            if behind not in self._dropped:
                self._frames.setdefault(behind, {})[place.number] = frame

    async def fence(self, owner: int) -> int:
        return self._fences.get(owner, 0)

    def raise_fence(self, owner: int, epoch: int) -> None:
        with self._lock:
            self._fences[owner] = max(epoch, self._fences.get(owner, 0))

    def frames(self, owner: int, after: int) -> dict[int, bytes]:
        with self._lock:
            return dict(sorted(self._frames.get((owner, after), {}).items()))

    def drop(self, owner: int, after: int) -> None:
        with self._lock:
            self._dropped.add((owner, after))
            self._frames.pop((owner, after), None)

    def record(self, owner: int) -> JournalRecord | None:
        with self._lock:
            record = self._owners.get(owner)
            if record is None:
                return None
            begun = self._begun.get(owner, JournalRecord(record))
            return JournalRecord(record, begun.previous, begun.fold_day, begun.frames, begun.done)

    def records(self) -> list[JournalRecord]:
        with self._lock:
            found = [self.record(owner) for owner in sorted(self._owners)]
        return [each for each in found if each is not None and each.record.journal in (IN_STORE, EMPTYING)]

    def begin(self, held: Held, previous: int, flush: int, at: int, fold_day: int, frames: str) -> bool:
        return self._change(
            held.owner, lambda stored: begun_naming(stored, held, previous, flush, at, fold_day, frames)
        )

    def done(self, held: Held, flush: int) -> bool:
        return self._change(held.owner, lambda stored: done_with(stored, held, flush))

    def _change(self, owner: int, change: Callable[[JournalRecord | None], JournalRecord | None]) -> bool:
        with self._lock:
            after = change(self.record(owner))
            if after is not None:
                self._begun[owner] = after
                self._owners[owner] = after.record
            return after is not None

    def beat(self, holder: str, count: int) -> None:
        with self._lock:
            self._beats[holder] = max(count, self._beats.get(holder, 0))

    def beats(self) -> dict[str, int]:
        with self._lock:
            return dict(self._beats)
