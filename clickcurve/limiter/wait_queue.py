"""Queues of callers that wait until their hit fits, instead of being refused: in order of arrival, with a deadline.

Callers that wait for the same keys stand in one queue. Only the first in it asks the backend, and pauses for as long as
the answer says. So a waiter costs nothing until it is its turn, and nobody overtakes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Lock
from typing import Protocol

from clickcurve.limiter.decision import Decision

MAX_WAITING = 1_000


class Turn(Protocol):
    """What a waiter pauses on until it is the first in its queue."""

    def set(self) -> None: ...

    async def comes(self, within_s: float) -> None:
        """Returns once it is set, or after so many seconds."""
        ...


class TaskTurn(asyncio.Event):
    """The turn of a task: it suspends."""

    async def comes(self, within_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), within_s)


class ThreadTurn(threading.Event):
    """The turn of a thread: it blocks, and never suspends."""

    async def comes(self, within_s: float) -> None:
        self.wait(within_s)


class WaitQueues:
    """The queues of a limiter.

    most: how many may wait in all of them together. make_turn: `TaskTurn` or `ThreadTurn`. pause: passes seconds.
    """

    def __init__(self, most: int, make_turn: Callable[[], Turn], pause: Callable[[float], Awaitable[object]]) -> None:
        self._most = most
        self._make_turn = make_turn
        self._pause = pause
        self._waiting = 0
        self._queues: dict[tuple[str, ...], deque[Turn]] = {}
        self._lock = Lock()

    @property
    def waiting(self) -> int:
        return self._waiting

    async def wait(
        self,
        keys: tuple[str, ...],
        wait_s: float,
        timer: Callable[[], float],
        ask: Callable[[bool], Awaitable[Decision]],
    ) -> Decision:
        """Returns the decision that admits, or a refusal if the queue is full or the deadline passes.

        Refuses at once if the next hit would fit only after the deadline. ask: puts the question; its argument says
        whether the hit is taken if it fits. timer: seconds that never step back.
        """
        deadline = timer() + wait_s
        if keys not in self._queues:
            decision = await ask(True)
            if decision.allowed or not _fits_within(decision, deadline - timer()):
                return decision
        turn = self._join(keys)
        if turn is None:
            return _refused(await ask(False))
        try:
            while not self._is_first(keys, turn):
                if timer() >= deadline:
                    return _refused(await ask(False))
                await turn.comes(deadline - timer())
            while True:
                decision = await ask(True)
                if decision.allowed or not _fits_within(decision, deadline - timer()):
                    return decision
                await self._pause(decision.retry_after_s or 0.0)
        finally:
            self._leave(keys, turn)

    def _join(self, keys: tuple[str, ...]) -> Turn | None:
        with self._lock:
            if self._waiting >= self._most:
                return None
            turn = self._make_turn()
            self._queues.setdefault(keys, deque()).append(turn)
            self._waiting += 1
            return turn

    def _is_first(self, keys: tuple[str, ...], turn: Turn) -> bool:
        with self._lock:
            return self._queues[keys][0] is turn

    def _leave(self, keys: tuple[str, ...], turn: Turn) -> None:
        with self._lock:
            queue = self._queues[keys]
            queue.remove(turn)
            self._waiting -= 1
            if queue:
                queue[0].set()
            else:
                del self._queues[keys]


def _fits_within(decision: Decision, left_s: float) -> bool:
    wait_s = decision.retry_after_s
    return wait_s is not None and wait_s <= left_s


def _refused(decision: Decision) -> Decision:
    return decision._replace(allowed=False, reservation=None)
