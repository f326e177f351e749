"""The drivers of the journal's contract over each store, as its suite meets them: what outlives a process, faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from clickcurve.buckets.errors import StoreUnavailable
from ingest.journal.cluster_journal import ClusterJournal, make_journal, take_journal
from ingest.journal.contract import Journal
from ingest.journal.disk_journal import DiskJournal
from storage.contract import Store
from storage.journals import FramePlace, Journals
from tests.ingest.claim_kit import NOW
from tests.ingest.journal.faulty_disk import Fault, FaultyDisk
from tests.storage.stores import STORES, StoreFactory

FOLDER = Path("/journal")


class Driver(Protocol):
    """Something that keeps one journal, and the store that it is for.

    A fault concerns the next commit, and all calls until `heal`.
    """

    store: Store

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
    """A disk that forgets what was not synced. slow: it is not in memory, so commits are settled later, by a thread."""

    def __init__(self, stores: StoreFactory, *, slow: bool = False) -> None:
        self.store = stores()
        self._disk = FaultyDisk()
        self._slow = slow

    def open(self) -> Journal:
        self._disk.in_memory = not self._slow
        return DiskJournal(FOLDER, self._disk, segment_bytes=1_000, chunk_bytes=256)

    def crash(self) -> None:
        self._disk.lose_power()

    def refuse(self) -> None:
        self._disk.fault = Fault("write", 1)

    def lose_answers(self, *, kept: bool) -> None:
        self._disk.fault = Fault("sync", 1, "after" if kept else "before", times=1_000)

    def heal(self) -> None:
        self._disk.fault = None


class FaultyJournals:
    """The journals of a store, in a cluster that is down, or answers nothing about frames."""

    def __init__(self, journals: Journals) -> None:
        self._journals = journals
        self.is_down = False
        self.keeps = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journals, name)

    async def append(self, place: FramePlace, frame: bytes) -> None:
        if self.keeps:
            await self._journals.append(place, frame)
        self._answer()

    async def fence(self, owner: int) -> int:
        self._answer()
        return await self._journals.fence(owner)

    def _answer(self) -> None:
        if self.is_down:
            raise StoreUnavailable("the cluster does not answer")


class InCluster:
    """A crash costs nothing there, and each process takes the owner of the one before."""

    def __init__(self, stores: StoreFactory) -> None:
        self.store = stores()
        self.journals = FaultyJournals(self.store.journals())
        self.store.journals = lambda: self.journals  # type: ignore[method-assign]
        self._taken = 0
        self._opened: list[ClusterJournal] = []

    def open(self) -> ClusterJournal:
        self._taken += 1
        token, before = f"process.{self._taken}", self.journals.record(1)
        if before is None:
            journal = make_journal(self.store, 1, token, "here", lambda: NOW, lambda: NOW)
        else:
            journal = take_journal(self.store, before, token, "here", lambda: NOW, lambda: NOW, False)
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


DISKS: dict[str, Callable[[StoreFactory], Driver]] = {
    "disk": OnDisk,
    "slow disk": lambda stores: OnDisk(stores, slow=True),
}
# Each with the store that it is for.
DRIVERS: dict[str, tuple[Callable[[StoreFactory], Driver], str]] = {
    **{name: (make, "memory") for name, make in DISKS.items()},
    "disk, with sqlite": (OnDisk, "sqlite"),
    "cluster": (InCluster, "memory"),
    "cluster, simulated": (InCluster, "simulated"),
    "cassandra": (InCluster, "cassandra"),
}


@contextmanager
def driven(name: str, folder: Path, fixture: Callable[[str], Any]) -> Iterator[Driver]:
    """A driver over its store, empty."""
    make, store = DRIVERS[name]
    stores = STORES[store](folder, fixture)
    try:
        yield make(stores)
    finally:
        stores.close()
