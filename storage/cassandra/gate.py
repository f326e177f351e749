"""How many requests of a flush are under way at once."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition

# Hits wait for their frames behind what a flush has under way at the nodes, and for processors that the nodes share.
# At 2,000 hits a second on three nodes and two cores, with flushes of 3,500 rows, 99 of 100 hits were answered within
# 177 ms with 16 at once, within 35 with 3, and within 59 with 3 that double; with the journal on a disk within 82 ms
# with 128 and 11 with 3 that double. A flush took 2.5 to 3.5 s with 16, 4.2 to 6.7 with 3, else 3.4 to 5.7.
FEW = 3
DOUBLES_EVERY_S = 3.0  # so a flush of many rows has all that it may within half its interval
RESTS_AFTER_S = 1.0


class Gate:
    """Lets FEW pass at once, and twice as many every DOUBLES_EVERY_S, `most` at most.

    That begins anew when nothing has been under way for RESTS_AFTER_S. now: a clock that never steps back, in seconds;
    None: no hits are accepted here, and `most` pass at once from the beginning.
    """

    def __init__(self, most: int, now: Callable[[], float] | None) -> None:
        self._most = most
        self._few = FEW if now else most
        self._now = now or (lambda: 0.0)
        self._under_way = 0
        self._busy_since = self._rests_since = self._now()
        self._ended = Condition()

    def acquire(self) -> None:
        """Waits for a place, and takes it."""
        with self._ended:
            if not self._under_way and self._now() - self._rests_since > RESTS_AFTER_S:
                self._busy_since = self._now()
            while self._under_way >= self._places():
                self._ended.wait(DOUBLES_EVERY_S)  # there may be more places even if nothing ends
            self._under_way += 1

    def release(self) -> None:
        """Gives a place back."""
        with self._ended:
            self._under_way -= 1
            self._rests_since = self._now()
            self._ended.notify_all()

    def _places(self) -> int:
        doubled = int((self._now() - self._busy_since) / DOUBLES_EVERY_S)
        return min(self._most, self._few << min(doubled, self._most.bit_length()))
