"""Waiting for a place instead of being refused: in order of arrival, with a deadline, in a line of bounded length.

Who waits for the same keys stands in one line; only the first in it asks, and pauses for as long as the answer says. So
a waiter costs nothing until it is its turn, and nobody overtakes. Threads and coroutines wait by the same steps
(`turns`); only how they pause differs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from threading import Lock
from typing import Generic, Protocol, TypeAlias, TypeVar

from clickcurve.limiter.decision import Decision

MAX_WAITING = 1_000


class Turn(Protocol):
    """An event that its waiter pauses on: `threading.Event` or `asyncio.Event`."""

    def set(self) -> None: ...


TurnT = TypeVar("TurnT", bound=Turn)


@dataclass(frozen=True, slots=True)
class Ask:
    """Put the question now. take: for real; else only to be able to tell how it stands."""

    take: bool


@dataclass(frozen=True, slots=True)
class Pause(Generic[TurnT]):
    """Pause for so long; or less, if there is a turn to wait for and it comes."""

    seconds: float
    turn: TurnT | None = None


# Is sent the decision after an Ask, and anything after a Pause.
Steps: TypeAlias = Generator["Ask | Pause[TurnT]", Decision, Decision]


class WaitQueues(Generic[TurnT]):
    """The lines of a limiter. most: how many may stand in all of them together."""

    def __init__(self, most: int, make_turn: Callable[[], TurnT]) -> None:
        self._most = most
        self._make_turn = make_turn
        self._waiting = 0
        self._lines: dict[tuple[str, ...], deque[TurnT]] = {}
        self._lock = Lock()

    @property
    def waiting(self) -> int:
        return self._waiting

    def turns(self, keys: tuple[str, ...], wait_s: float, timer: Callable[[], float]) -> Steps[TurnT]:
        """The steps of one waiter. Refused is who finds the lines full, whose deadline passes, and at once who would
        have to wait beyond it."""
        deadline = timer() + wait_s
        if keys not in self._lines:
            decision = yield Ask(take=True)
            if decision.allowed or not _in_time(decision, deadline - timer()):
                return decision
        turn = self._join(keys)
        if turn is None:
            return _refused((yield Ask(take=False)))
        try:
            while not self._is_first(keys, turn):
                if timer() >= deadline:
                    return _refused((yield Ask(take=False)))
                yield Pause(deadline - timer(), turn)
            while True:
                decision = yield Ask(take=True)
                if decision.allowed or not _in_time(decision, deadline - timer()):
                    return decision
                yield Pause(decision.retry_after_s or 0.0)
        finally:
            self._leave(keys, turn)

    def _join(self, keys: tuple[str, ...]) -> TurnT | None:
        with self._lock:
            if self._waiting >= self._most:
                return None
            turn = self._make_turn()
            self._lines.setdefault(keys, deque()).append(turn)
            self._waiting += 1
            return turn

    def _is_first(self, keys: tuple[str, ...], turn: TurnT) -> bool:
        with self._lock:
            return self._lines[keys][0] is turn

    def _leave(self, keys: tuple[str, ...], turn: TurnT) -> None:
        with self._lock:
            line = self._lines[keys]
            line.remove(turn)
            self._waiting -= 1
            if line:
                line[0].set()
            else:
                del self._lines[keys]


def _in_time(decision: Decision, left_s: float) -> bool:
    wait_s = decision.retry_after_s
    return wait_s is not None and wait_s <= left_s


def _refused(decision: Decision) -> Decision:
    return decision._replace(allowed=False, reservation=None)
