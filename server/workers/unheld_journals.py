"""Finds the journals that no process holds, for one worker of the server: the adopter, which empties them.

Journals 1 to `workers` are the workers'. A worker that starts takes the first of them that is free, and goes on with
what it holds. Those with higher numbers are orphaned: workers are fewer than before, or a journal gave way. It does so
in two cases: the store cannot judge it at a start, so new hits must not be added to it; or its worker died, and none
has taken it in LOOKS looks. The parent replaces a worker after a second, so that one mostly comes first.

The adopter is the first worker that locks a file, until it ends. So no two open the same journal in turns.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from ingest.journal.disk import Disk
from server.data_folder import adopter_lock, give_way, journal_folder, journal_numbers, quarantine
from server.logs import log

LOOKS = 3


class UnheldJournals:
    """The journals of a data folder, as the worker with journal `number` sees them."""

    def __init__(self, data: Path, number: int, workers: int) -> None:
        self._data, self._workers = data, workers
        self._others = [other for other in range(1, workers + 1) if other != number]
        self._lock: int | None = None  # this worker is the adopter
        self._unheld: Counter[int] = Counter()  # in how many looks in a row
        self._seen: set[int] = set()

    def orphaned(self) -> list[int]:
        """Lists the numbers of orphaned journals for the adopter, and none for other workers."""
        if self._lock is None:
            self._lock = _locked(adopter_lock(self._data))
        if self._lock is None:
            return []
        return [number for number in journal_numbers(self._data) if number > self._workers]

    def look(self) -> bool:
        """Lets journals of dead workers give way; returns whether there are orphaned journals that are new here."""
        self.orphaned()
        if self._lock is not None:
            for number in self._others:
                self._look_at(number)
        before, self._seen = self._seen, {*self.orphaned()}
        return bool(self._seen - before)

    def _look_at(self, number: int) -> None:
        journal = journal_folder(self._data, number)
        held = _locked(journal / "lock")
        if held is None:
            del self._unheld[number]
            return
        try:
            self._unheld[number] += 1
            if self._unheld[number] >= LOOKS:
                moved_to = journal_folder(self._data, give_way(journal, self._workers))
                log.warning("journal of a dead worker", extra={"journal": journal.name, "moved_to": str(moved_to)})
                del self._unheld[number]
        finally:
            os.close(held)

    def quarantine(self, number: int) -> Path:
        """Renames the folder of a journal so that nothing flushes it; returns its new path."""
        return quarantine(journal_folder(self._data, number))

    def close(self) -> None:
        """Lets another worker adopt."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _locked(path: Path) -> int | None:
    """Returns the handle of a file that was locked; None: another process has locked it, or there is no such folder."""
    try:
        return Disk().lock(path)
    except OSError:  # also a disk that takes no writes, on which nothing can be adopted
        return None
