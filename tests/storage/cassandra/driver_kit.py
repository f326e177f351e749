"""A driver whose requests the test answers, and requests over it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from clickcurve.buckets.errors import ClickcurveError, StoreUnavailable
from storage.cassandra.cql import Rows, Values
from storage.cassandra.requests import Counters, Request, Requests


class Late(Exception):
    """No answer came in time."""


class Refused(Exception):
    """Certainly not done."""


class Pending:
    """A request under way: the test answers it, as often as it likes, from whichever thread."""

    def __init__(self, values: Values, size: int | None, state: bytes | None, attempt: int) -> None:
        self.values, self.size, self.from_state, self.attempt = values, size, state, attempt
        self.state: bytes | None = None
        self._callbacks: list[tuple[Callable[[Any], None], Callable[[Exception], None]]] = []
        self.listened = threading.Event()

    def add_callbacks(self, callback: Callable[[Any], None], errback: Callable[[Exception], None]) -> None:
        self._callbacks.append((callback, errback))
        self.listened.set()

    def answer(self, rows: Rows | None, state: bytes | None = None) -> None:
        self.state = state
        for callback, _ in self._callbacks:
            callback(rows)

    def fail(self, error: Exception) -> None:
        for _, errback in self._callbacks:
            errback(error)


class Driver:
    """`answers`, if given, answers each request at once, in a thread of its own."""

    def __init__(self, answers: Callable[[Pending], None] | None = None) -> None:
        self.counters = Counters()
        self.sent: list[Pending] = []
        self.answers = answers
        self._lock = threading.Lock()
        self.under_way = self.most_under_way = 0
        self.broken: Exception | None = None

    def send(self, request: Request) -> Pending:
        if self.broken is not None:
            raise self.broken
        pending = Pending(request.values, request.size, request.state, request.attempt)
        with self._lock:
            self.sent.append(pending)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        if self.answers is not None:
            threading.Thread(target=self._answer, args=(pending,)).start()
        return pending

    def _answer(self, pending: Pending) -> None:
        assert self.answers is not None
        pending.listened.wait()
        with self._lock:
            self.under_way -= 1
        self.answers(pending)

    def first_replica(self, key: str) -> str:
        """The node is the key's first letter."""
        return key[:1]

    def state_after(self, pending: Any) -> bytes | None:
        state: bytes | None = pending.state
        return state

    def as_store_error(self, error: Exception) -> ClickcurveError:
        return StoreUnavailable(f"raised: {error}")

    def is_certain(self, error: Exception) -> bool:
        return isinstance(error, Refused)

    def close(self) -> None:
        """Nothing to close."""


def requests(
    driver: Driver,
    in_flight: int = 4,
    pause: Callable[[float], object] = lambda seconds: None,
    now: Callable[[], float] | None = None,
) -> tuple[Requests, Counters]:
    return Requests(lambda: driver, in_flight, pause=pause, now=now), driver.counters
