"""When to stop asking a backend that does not answer, and when to try again. Pure."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class Breaker:
    """Lets questions through, unless it is open.

    It opens after so many failures in a row. After a pause it lets one question through, and all again if that is
    answered. If not, the next pause is twice as long, up to a bound.

    timer: seconds that never step back.
    """

    def __init__(self, timer: Callable[[], float], failures: int, pause_s: float, max_pause_s: float) -> None:
        self._timer = timer
        self._allowed = failures
        self._first_pause_s, self._max_pause_s = pause_s, max_pause_s
        self._lock = Lock()
        self._in_a_row = 0
        self._pause_s = pause_s
        self._opened_until: float | None = None
        self._probing = False
        self.opened = 0

    @property
    def is_open(self) -> bool:
        return self._opened_until is not None

    def lets(self) -> bool:
        """Returns whether the backend may be asked now; if so, the caller reports `answered`, `failed` or `gave_up`."""
        if self._opened_until is None:
            return True
        with self._lock:
            if self._opened_until is None:
                return True
            if self._probing or self._timer() < self._opened_until:
                return False
            self._probing = True
            return True

    def answered(self) -> None:
        """Closes the breaker: the question was answered."""
        if self._in_a_row or self._opened_until is not None:
            with self._lock:
                self._in_a_row, self._pause_s = 0, self._first_pause_s
                self._opened_until, self._probing = None, False

    def failed(self) -> None:
        """Counts a failure, and opens the breaker, for longer if it was open already."""
        with self._lock:
            self._in_a_row += 1
            if self._opened_until is not None:
                if not self._probing:
                    return  # asked before it opened
                self._probing = False
                self._pause_s = min(2 * self._pause_s, self._max_pause_s)
            elif self._in_a_row < self._allowed:
                return
            else:
                self.opened += 1
            self._opened_until = self._timer() + self._pause_s

    def gave_up(self) -> None:
        """Records that a question ended without a result, so that the next one is let through."""
        with self._lock:
            self._probing = False

    def left_s(self) -> float:
        """Returns the seconds until the backend is tried again."""
        until = self._opened_until
        return 0.0 if until is None else max(0.0, until - self._timer())
