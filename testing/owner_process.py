"""One owner as a process has it: a journal in a folder, the owner over it, and the files that a kill would close."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder
from clickcurve.buckets.breakdowns.erased import ErasedWords
from ingest.flush import Pace
from ingest.journal.disk import Disk
from ingest.journal.disk_journal import DiskJournal
from ingest.owner import Owner
from ingest.stamps import Stamps
from storage.contract import Store


class TrackedDisk(Disk):
    """The real disk, with the files that the process has open: a dead process has none."""

    def __init__(self) -> None:
        super().__init__()
        self.fds: set[int] = set()

    def lock(self, path: Path) -> int:
        return self._opened(super().lock(path))

    def create(self, path: Path) -> int:
        return self._opened(super().create(path))

    def open(self, path: Path) -> int:
        return self._opened(super().open(path))

    def _opened(self, fd: int) -> int:
        self.fds.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self.fds.discard(fd)
        super().close(fd)

    def kill(self) -> None:
        for fd in list(self.fds):
            self.close(fd)


class OwnerProcess:
    """One owner process: journal folder, owner object, and the disk it uses."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        clock: Callable[[], float],
        alone: bool,
        disk: TrackedDisk,
        stamps: Callable[[], Stamps] | None = None,
        erased_words: Callable[[], ErasedWords] | None = None,
        bounded: BoundedLadder = BREAKDOWN,
        careful: Callable[[], float] | None = None,
        late: Callable[[int], None] = lambda since_us: None,
    ) -> None:
        """Starts it. `stamps` makes its stamps at each start; None: as if no other process had any.

        careful: the clock of what cannot be undone; None: `clock`.
        """
        self.erased_words, self.bounded = erased_words, bounded
        self.folder, self.store, self.clock, self.alone, self.disk = folder, store, clock, alone, disk
        self.careful, self.late = careful, late
        self.stamps = stamps or (lambda: Stamps(self.careful or self.clock, [0]))
        self.tokens = 0
        self.start()

    def start(self) -> None:
        self.journal = DiskJournal(self.folder, self.disk)
        self.owner = Owner(
            journal=self.journal,
            store=self.store,
            clock=self.clock,
            token=self._token,
            pace=Pace(lambda: 0.0, 15.0, lambda: False),
            place=str(self.folder),
            alone=self.alone,
            stamps=self.stamps(),
            erased_words=self.erased_words,
            bounded=self.bounded,
            careful=self.careful,
            late=self.late,
        )

    def _token(self) -> str:
        self.tokens += 1
        return f"{self.folder.name}-{self.tokens}-{random.random()}"
