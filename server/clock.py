"""The only file that reads the time. Everything else is told what time it is."""

from __future__ import annotations

import time


def now() -> float:
    """Epoch seconds, with fractions."""
    return time.time()


def monotonic() -> float:
    """Seconds that never step back, for measuring durations."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Waits, in commands that ask again later. Servers never call it."""
    time.sleep(seconds)
