"""The drivers of the journal's contract, as its suite meets them: what outlives a process, and faults in it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from ingest.journal.contract import Journal
from ingest.journal.disk_journal import SLOW_SYNC_S, DiskJournal
from tests.ingest.journal.faulty_disk import Fault, FaultyDisk

FOLDER = Path("/journal")


class Driver(Protocol):
    """Something that keeps one journal. A fault concerns the next commit, and all calls until `heal`."""

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


DRIVERS = {"disk": lambda: OnDisk(slow=False), "slow disk": lambda: OnDisk(slow=True)}
