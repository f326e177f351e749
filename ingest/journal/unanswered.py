"""How long the disk, or the cluster, has not answered a write that is under way.

A process that was paused (SIGSTOP, a container that is frozen, a machine that sleeps) finds every write old that was
under way, though what it waits for may have answered long ago. So only time counts in which this process ran: somebody
looks every LOOK_S while a write is under way, and a longer gap between two looks counts as GAP_S.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from clickcurve.buckets.errors import JournalFull

LOOK_S = 0.25
GAP_S = 0.5


class Unanswered:
    """The writes under way, by number, for any thread. what: has not happened, for people: "the disk has not answered".

    timer: seconds that nobody can set. after_s: a write that takes longer is overdue.
    """

    def __init__(self, timer: Callable[[], float], after_s: float, what: str) -> None:
        self._timer, self._after_s, self._what = timer, after_s, what
        self._lock = Lock()
        self._looked_at = timer()
        self._ran_s = 0.0
        self._since: dict[int, float] = {}  # oldest first

    def begin(self, number: int = 0) -> None:
        with self._lock:
            self._since[number] = self._look()

    def end(self, number: int = 0) -> None:
        with self._lock:
            self._since.pop(number, None)

    def overdue_s(self) -> float:
        """Returns for how long the oldest write is under way; 0.0 unless it is overdue."""
        with self._lock:
            ran_s = self._look()
            waits_s = ran_s - next(iter(self._since.values()), ran_s)
        return waits_s if waits_s > self._after_s else 0.0

    def check(self) -> None:
        """Raises JournalFull if a write is overdue: what comes now is refused, and certainly not counted."""
        overdue_s = self.overdue_s()
        if overdue_s:
            raise JournalFull(f"{self._what} for {overdue_s:.0f} s")

    def _look(self) -> float:
        """Returns for how long this process has run while it was looked at."""
        now = self._timer()
        self._ran_s += min(now - self._looked_at, GAP_S)
        self._looked_at = now
        return self._ran_s


class WatchedLock:
    """Holds a lock while one write is under way."""

    __slots__ = ("_lock", "_unanswered")

    def __init__(self, lock: Lock, unanswered: Unanswered) -> None:
        self._lock, self._unanswered = lock, unanswered

    def __enter__(self) -> None:
        self._lock.acquire()
        self._unanswered.begin()

    def __exit__(self, *error: object) -> None:
        self._unanswered.end()
        self._lock.release()
