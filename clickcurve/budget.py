"""What one request may use of a worker: rows read, points made, matches tried. And its pauses, for all others.

Each question is bounded by itself; a request that asks many at once is bounded here, by what they use together. Work
spends as it goes on, so a request that asks too much ends early, and the event loop has its turn every few
milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum

from clickcurve.buckets.errors import RequestTooLarge

PAUSE_AFTER_S = 0.005


class Work(StrEnum):
    """What is counted. A match is one name that is held beside one pattern."""

    rows = "rows"
    points = "points"
    matches = "matches"


# What the largest question that is allowed by itself uses (1,000 links along 10,000 points), and ten of most others.
MOST: Mapping[Work, int] = {Work.rows: 10_000, Work.points: 10_000_000, Work.matches: 1_000_000}


class Budget:
    """What is left for one request. For one event loop."""

    def __init__(self, most: Mapping[Work, int]) -> None:
        self._most = most
        self._left = dict(most)
        self._loop = asyncio.get_running_loop()
        self._paused_at = self._loop.time()

    def take(self, work: Work, amount: int) -> None:
        """Takes from what is left. Raises RequestTooLarge."""
        self._left[work] -= amount
        if self._left[work] < 0:
            most = self._most[work]
            raise RequestTooLarge(
                f"this request needs more than {most:,} {work}: ask for less at once",
                field=work.value,
                rule=f"at most {most:,} {work} in one request",
            )

    async def pause(self) -> None:
        """Lets others have their turn, if there was no pause for PAUSE_AFTER_S."""
        if self._loop.time() - self._paused_at > PAUSE_AFTER_S:
            await asyncio.sleep(0)
            self._paused_at = self._loop.time()


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budgeted(most: Mapping[Work, int] = MOST) -> Iterator[None]:
    """Gives what is done within it, and the tasks that are started there, one budget."""
    token = _BUDGET.set(Budget(most))
    try:
        yield
    finally:
        _BUDGET.reset(token)


async def spend(work: Work, amount: int = 1) -> None:
    """Takes from the budget of the request under way, and pauses now and then; without a budget nothing happens.

    Raises RequestTooLarge. To be called before the work, at most some milliseconds of it at once.
    """
    budget = _BUDGET.get()
    if budget is not None:
        budget.take(work, amount)
        await budget.pause()
