"""The only file that reads the time. Everything else gets the time as an argument."""

from __future__ import annotations

import time


def now() -> float:
    """Returns epoch seconds, with fractions."""
    return time.time()


def monotonic() -> float:
    """Returns seconds that never step back, for measuring durations."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Sleeps, in commands and threads that ask again later. Never called on an event loop."""
    time.sleep(seconds)
