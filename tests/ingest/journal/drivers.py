"""The drivers of the journal's contract, as its suite meets them: what outlives a process, and faults in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from clickcurve.buckets.errors import StoreUnavailable
from ingest.journal.cluster_journal import ClusterJournal, make_journal, take_journal
from ingest.journal.contract import Journal
from ingest.journal.disk_journal import SLOW_SYNC_S, DiskJournal
from storage.contract import FramePlace
from storage.memory_journals import MemoryJournals
from storage.memory_store import MemoryStore
from tests.ingest.claim_kit import NOW
from tests.ingest.journal.faulty_disk import Fault, FaultyDisk

FOLDER = Path("/journal")


class Driver(Protocol):
    """Something that keeps one journal, and the store that it is for.

    A fault concerns the next commit, and all calls until `heal`.
    """

    store: MemoryStore

    def open(self) -> Journal:
        """Opens the journal as the next process does."""

    def crash(self) -> None:
        """The process that holds it is gone, without a word."""

    def refuse(self) -> None:
        """Commits certainly fail."""

    def lose_answers(self, *, kept: bool) -> None:
        """Nobody hears what becomes of commits. `kept`: they are kept nevertheless."""

    def heal(self) -> None: ...


class OnDisk:
    """A disk that forgets what was not synced. slow: commits are settled later, by a thread."""

    def __init__(self, *, slow: bool) -> None:
        self.store = MemoryStore()
        self._disk = FaultyDisk()
        self._slow = slow

    def open(self) -> Journal:
        journal = DiskJournal.open(FOLDER, self._disk, segment_bytes=1_000, chunk_bytes=256)
        journal.sync_s = 2 * SLOW_SYNC_S if self._slow else 0.0
        return journal

    def crash(self) -> None:
        self._disk.lose_power()

    def refuse(self) -> None:
        self._disk.fault = Fault("write", 1)

    def lose_answers(self, *, kept: bool) -> None:
        self._disk.fault = Fault("sync", 1, "after" if kept else "before", times=1_000)

    def heal(self) -> None:
        self._disk.fault = None


class FaultyJournals(MemoryJournals):
    """Frames in memory, with a cluster that is down, or answers nothing."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store._lock, store._owners)
        self.is_down = False
        self.keeps = True

    async def append(self, place: FramePlace, frame: bytes) -> None:
        if self.keeps:
            await super().append(place, frame)
        self._answer()

    async def fence(self, owner: int) -> int:
        self._answer()
        return await super().fence(owner)

    def _answer(self) -> None:
        if self.is_down:
            raise StoreUnavailable("the cluster does not answer")


class InCluster:
    """A store in memory. A crash costs nothing there, and each process takes the owner of the one before."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.journals = self.store._journals = FaultyJournals(self.store)
        self._taken = 0
        self._opened: list[ClusterJournal] = []

    def open(self) -> ClusterJournal:
        self._taken += 1
        token, before = f"process.{self._taken}", self.journals.record(1)
        if before is None:
            journal = make_journal(self.store, 1, token, "here", lambda: NOW)
        else:
            journal = take_journal(self.store, before, token, "here", lambda: NOW, False)
        assert journal is not None
        self._opened.append(journal)
        return journal

    def crash(self) -> None:
        """Its process is gone, or does not know yet that another one has taken the owner."""

    def refuse(self) -> None:
        """After a frame without an answer."""
        self.journals.is_down, self.journals.keeps = True, False
        self._opened[-1]._window.gave_up = True

    def lose_answers(self, *, kept: bool) -> None:
        self.journals.is_down, self.journals.keeps = True, kept

    def heal(self) -> None:
        self.journals.is_down, self.journals.keeps = False, True
        self._opened[-1]._window.gave_up = False


DISKS: dict[str, Callable[[], Driver]] = {
    "disk": lambda: OnDisk(slow=False),
    "slow disk": lambda: OnDisk(slow=True),
}
DRIVERS: dict[str, Callable[[], Driver]] = {**DISKS, "cluster": InCluster}
