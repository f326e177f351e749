"""What one request may cost in all, counted while it is answered. Other requests have their turn in between.

A request of a few bytes can ask for hours of work: a thousand patterns, each of ten thousand keys. Each part of it is
small, so a bound on each part bounds nothing. Whatever answers such a request counts what it does in one budget: beyond
it the request is refused with a sentence that says what was too much. Every two milliseconds of work it lets the event
loop go round once: measured ones, as the same work takes one machine three times as long as another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from clickcurve.buckets.errors import ParameterInvalid

TURN_S = 0.002  # of work between two turns of others


class Cost(NamedTuple):
    """A kind of work. name: as the refusal says it; most: of one request."""

    name: str
    most: int


# Some two seconds of a processor for each kind: far more than a dashboard asks for, and an end. A sum of 1,000 links
# along 10,000 points may be asked for, and no more.
ROWS = Cost("rows read", 5_000)  # of 400 us
VALUE_POINTS = Cost("points of values made", 1_000_000)  # of 5 us: each kept bucket of the dimension is looked at
KEYS = Cost("keys looked at", 100_000)  # of 1 us
POINTS = Cost("points made", 10_000_000)  # of 0.2 us
SIGNS = Cost("characters of expressions", 500_000)  # of 1 us
NAMES = Cost("names listed", 20_000)  # of 5 us
# One step: a byte of a text beside an instruction of the expression that it is matched with, where all of them are
# followed at once (7 ns); most expressions take a hundredth of it.
MATCH_STEPS = Cost("steps of matching patterns", 500_000_000)


class RequestTooCostly(ParameterInvalid, title="too much for one request"):
    """One request asks for too much. `rule` says of what, and how much is allowed."""


class Budget:
    """Counts the work of one request, of all its tasks. clock: in seconds that never step back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._spent: dict[str, int] = {}
        self._clock = clock
        self._turn_at_s = clock()

    def charge(self, cost: Cost, n: int = 1) -> None:
        """Counts work that is to be done next; raises RequestTooCostly if it is too much."""
        spent = self._spent.get(cost.name, 0) + n
        if spent > cost.most:
            rule = f"at most {cost.most:,} {cost.name} in one request"
            raise RequestTooCostly(f"this request needs more than {cost.most:,} {cost.name}: ask for less", rule=rule)
        self._spent[cost.name] = spent

    async def spend(self, cost: Cost, n: int = 1) -> None:
        """Counts work that is to be done next, after a turn of others if there was much before it.

        Raises RequestTooCostly.
        """
        while self._clock() - self._turn_at_s >= TURN_S:
            ended = self._turn_at_s
            await asyncio.sleep(0)
            if self._turn_at_s == ended:  # else another task has begun the new turn, and may have used it up
                self._turn_at_s = self._clock()
        self.charge(cost, n)


# The budget of the request under way, which the reading of rows and the making of points spend from by themselves.
_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budgeted(clock: Callable[[], float]) -> Iterator[Budget]:
    """Gives what is done within it, and the tasks that are started there, one budget; clock: as of `Budget`."""
    budget = Budget(clock)
    token = _BUDGET.set(budget)
    try:
        yield budget
    finally:
        _BUDGET.reset(token)


async def spend(cost: Cost, n: int = 1) -> None:
    """Counts work of the request under way as `Budget.spend`; work outside of requests has no budget."""
    budget = _BUDGET.get()
    if budget is not None:
        await budget.spend(cost, n)
