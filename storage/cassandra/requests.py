"""Requests to a cluster: bounded in flight, from threads and from event loops, whatever the driver's callbacks do.

The cluster may be down at the start. What may block connects on first use; `ask`, `measures` and `close` never do.

For threads, what may be repeated is sent again a few times: one fault fails all requests that are under way on a
connection, and without this a flush of a thousand requests would begin again because of a few.

The driver calls back on a thread of its own, perhaps twice, perhaps after the waiting task was cancelled or its event
loop was closed, and it drops what a callback raises. So a callback only hands over the outcome, once, and the waiting
side looks at it. A request that nobody waits for any more counts as in flight until it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from threading import Event, Lock, Semaphore
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from clickcurve.buckets.errors import ClickcurveError, StoreUnavailable
from storage.cassandra.cql import Cql, Rows, Statement, StatementKind, Values, Work
from storage.cassandra.gate import Gate
from storage.first_use import FirstUse, Later

SERIAL_IN_FLIGHT = 32  # conditional updates and serial reads: each is several rounds of the replicas
ATTEMPTS = 3  # of what may be repeated
PAUSE_S = 1.0  # before another attempt: by then the driver knows which nodes are gone and which are back
MOST_FAILURES = 16  # of an attempt; after so many no more is sent
# Writes with few bytes that go together, to one partition: a node carries them out as one. Cassandra refuses 50 KiB.
WRITES_PER_REQUEST, BYTES_PER_REQUEST = 200, 32 * 1024
# Rows that go together, to the node that has them first. A node syncs its own rows of a batch one after the other, so
# with the commit log synced in groups batches of 25 take twice as long as these; and it warns above 10 and 5 KiB.
ROWS_PER_WRITE, BYTES_PER_WRITE = 10, 4 * 1024
ROWS_PER_READ = 25  # 10 and 50 take a sixth longer or less, 100 twice as long


REQUESTS, RETRIES, UNKNOWN = "store_requests_total", "store_retries_total", "store_unknown_total"
_SERIAL = (StatementKind.CONDITION, StatementKind.SERIAL_READ)


class Request(NamedTuple):
    """A statement with its values, which for a WRITE with a `partition` or a `key` are those of several writes.

    For a READ `of_several` they begin with a list of keys. size: of a page, at most (None: the driver's default).
    state: where the rows begin (None: with the first). attempt: how often a CONDITION was tried before.
    """

    statement: Statement
    values: Values
    size: int | None = None
    state: bytes | None = None
    attempt: int = 0

    def after(self, outcome: Outcome) -> Request | None:
        """Returns the request of the next page; None: that was the last."""
        return None if outcome.state is None else self._replace(state=outcome.state)


class DriverFuture(Protocol):
    """What the driver returns for a request under way."""

    def add_callbacks(self, callback: Callable[[Any], None], errback: Callable[[Exception], None]) -> object: ...


class Driver(Protocol):
    """The few things that need the driver. counters: what it counts, and what is counted here."""

    counters: Counters

    def send(self, request: Request) -> DriverFuture:
        """Begins a request. The answer to a CONDITION is waited for longer from attempt to attempt."""

    def first_replica(self, key: str) -> Hashable:
        """Returns the node that is asked first for what has this partition key; None if that is not known."""

    def state_after(self, pending: DriverFuture) -> bytes | None:
        """Returns, in a request's callback, where its rows go on; None after the last."""

    def as_store_error(self, error: Exception) -> ClickcurveError:
        """Returns what to raise for an error of the driver."""

    def is_certain(self, error: Exception) -> bool:
        """Returns whether the request was certainly not carried out."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    rows: Rows
    state: bytes | None = None  # where the rows go on
    error: Exception | None = None


class Counters:
    """The numbers of a connection, which several threads raise: requests, their repeats, unknown outcomes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers = dict.fromkeys((REQUESTS, RETRIES, UNKNOWN), 0)

    def add(self, name: str) -> None:
        with self._lock:
            self._numbers[name] += 1

    def numbers(self) -> dict[str, float]:
        return {**self._numbers}


class Requests(Cql):
    """A connection over a driver."""

    def __init__(
        self,
        connect: Callable[[], Driver],
        in_flight: int,
        later: Later | None = None,
        pause: Callable[[float], object] | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        """Connects at once, as `FirstUse` does.

        in_flight: of threads, and of each event loop. pause: waits seconds. now: as `Gate` takes it.
        """
        self._connection = FirstUse(connect, later)
        self._pause = pause or Event().wait
        self._in_flight = in_flight
        self._gate = Semaphore(in_flight)
        self._flush_gate = Gate(in_flight, now)
        self._serial_gate = Semaphore(min(in_flight, SERIAL_IN_FLIGHT))
        self._loop_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @property
    def _driver(self) -> Driver:
        return self._connection.opened()

    def measures(self) -> dict[str, float]:
        return self._driver.counters.numbers() if self._connection.is_open else {}

    def close(self) -> None:
        self._connection.close()

    # --- one request ----------------------------------------------------------------------------------------------
    def _send(self, request: Request, ended: Callable[[Outcome], None]) -> None:
        """Begins a request; calls `ended` once, on any thread, perhaps before this returns."""
        driver, first = self._driver, Lock()

        def end(outcome: Outcome) -> None:
            if first.acquire(blocking=False):
                ended(outcome)

        def came(pending: DriverFuture, rows: Rows | None) -> None:
            end(Outcome(rows or [], driver.state_after(pending)))

        driver.counters.add(REQUESTS)
        try:
            pending = driver.send(request)
            pending.add_callbacks(partial(came, pending), lambda error: end(Outcome([], error=error)))
        except Exception as error:  # of any kind: the waiting side must get it
            end(Outcome([], error=error))

    # --- threads --------------------------------------------------------------------------------------------------
    def send_all(self, work: Sequence[Work]) -> Callable[[], list[list[Rows]]]:
        first_replica = self._connection.open().first_replica
        parts = [packed(statement, many, first_replica) for statement, many in work]
        # Made once: whatever is sent again is the same rows with the same stamps.
        requests = [request for some, _ in parts for request in some]
        sent = self._send_repeatedly(requests)

        def results() -> list[list[Rows]]:
            rows = iter([self._all_pages(*each) for each in zip(requests, sent(), strict=True)])
            return [rows_of_each(list(islice(rows, len(some)))) for some, rows_of_each in parts]

        return results

    def pages(self, statement: Statement, values: Values, size: int) -> Iterator[Rows]:
        self._connection.open()
        return self._pages(Request(statement, values, size))

    def _pages(self, page: Request | None) -> Iterator[Rows]:
        while page is not None:
            (outcome,) = self._send_repeatedly([page])()
            yield outcome.rows
            page = page.after(outcome)

    def _all_pages(self, first: Request, outcome: Outcome) -> Rows:
        rows = outcome.rows
        for page in self._pages(first.after(outcome)):
            rows = rows + page
        return rows

    def _send_repeatedly(self, requests: Sequence[Request]) -> Callable[[], list[Outcome]]:
        """Sends all; returns what sends again what failed, up to ATTEMPTS times, and gives the outcomes in order.

        That raises the first failure of the last attempt, or at once an error that no repeat can change.
        """

        def send(some: list[int]) -> Callable[[], list[Outcome | None]]:
            return self._send_all([requests[n] for n in some], lambda error: True, MOST_FAILURES)

        left = list(range(len(requests)))
        sent = send(left)

        def all_done() -> list[Outcome]:
            nonlocal left, sent
            done: dict[int, Outcome] = {}
            attempts = 0
            while True:
                outcomes = sent()
                done |= {n: each for n, each in zip(left, outcomes, strict=True) if each and each.error is None}
                failed = next((each.error for each in outcomes if each and each.error), None)
                if failed is None:
                    return [done[n] for n in range(len(requests))]
                attempts += 1
                raised = self._driver.as_store_error(failed)
                if attempts == ATTEMPTS or not isinstance(raised, StoreUnavailable):
                    raise raised from failed
                left = [n for n in left if n not in done]
                self._pause(PAUSE_S)
                sent = send(left)

        return all_done

    def apply_each_if(self, statement: Statement, many: Sequence[Values], attempt: int = 0) -> list[bool | None]:
        driver = self._connection.open()
        updates = [Request(statement, values, attempt=attempt) for values in many]
        outcomes = self._send_all(updates, driver.is_certain, 0)()
        for outcome in outcomes:
            if outcome and outcome.error and driver.is_certain(outcome.error):
                raise driver.as_store_error(outcome.error) from outcome.error
        return [self._applied(each) for each in outcomes if each]

    def _applied(self, outcome: Outcome) -> bool | None:
        if outcome.error is None:
            return bool(outcome.rows[0][0])  # the other columns cannot be relied on
        self._driver.counters.add(UNKNOWN)
        return None

    def _send_all(
        self, requests: Sequence[Request], is_failure: Callable[[Exception], bool], most_failures: int
    ) -> Callable[[], list[Outcome | None]]:
        """Sends all, a bounded number at once; returns what waits for them, once, and gives the outcomes.

        None: not sent, after too many failures.
        """
        outcomes: list[Outcome | None] = [None] * len(requests)
        failures: list[Exception] = []
        end = Semaphore(0)

        def ended(at: int, gate: Gate | Semaphore, outcome: Outcome) -> None:
            outcomes[at] = outcome
            if outcome.error is not None and is_failure(outcome.error):
                failures.append(outcome.error)
            gate.release()
            end.release()

        sent = 0
        for at, request in enumerate(requests):
            gate = self._gate_of(request.statement)
            gate.acquire()
            if len(failures) > most_failures:
                gate.release()
                break
            self._send(request, partial(ended, at, gate))
            sent += 1

        def all_ended() -> list[Outcome | None]:
            for _ in range(sent):
                end.acquire()
            return outcomes

        return all_ended

    def _gate_of(self, statement: Statement) -> Gate | Semaphore:
        if statement.of_flush:
            return self._flush_gate
        return self._serial_gate if statement.kind in _SERIAL else self._gate

    # --- event loops ----------------------------------------------------------------------------------------------
    async def ask(self, statement: Statement, values: Values = ()) -> Rows:
        page: Request | None = Request(statement, values)
        rows: Rows = []
        while page is not None:
            outcome = await self._ask_page(page)
            rows = rows + outcome.rows
            page = page.after(outcome)
        return rows

    async def _ask_page(self, request: Request) -> Outcome:
        loop = asyncio.get_running_loop()
        gate = self._loop_gate(loop)
        await gate.acquire()
        answer: asyncio.Future[Outcome] = loop.create_future()

        def settle(outcome: Outcome) -> None:
            gate.release()
            if not answer.done():  # else the asking task was cancelled
                answer.set_result(outcome)

        def ended(outcome: Outcome) -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits for the answer
                loop.call_soon_threadsafe(settle, outcome)

        self._send(request, ended)
        outcome = await answer
        if outcome.error is not None:
            raise self._driver.as_store_error(outcome.error) from outcome.error
        return outcome

    def _loop_gate(self, loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
        gate = self._loop_gates.get(loop)
        if gate is None:
            gate = self._loop_gates[loop] = asyncio.Semaphore(self._in_flight)
        return gate


def packed(
    statement: Statement, many: Sequence[Values], first_replica: Callable[[str], Hashable]
) -> tuple[list[Request], Callable[[list[Rows]], list[Rows]]]:
    """Returns the requests that carry one statement with many values.

    And what makes of the rows of each request those of each of the values.
    """
    places = requests_of(statement, many, first_replica)
    if places is None:
        return [Request(statement, values) for values in many], lambda answers: answers
    if statement.kind is StatementKind.WRITE:
        writes = [Request(statement, tuple([many[n] for n in some])) for some in places]
        return writes, lambda answers: [[] for _ in many]

    def rows_of_each(answers: list[Rows]) -> list[Rows]:
        each: list[Rows] = [[] for _ in many]
        for some, rows in zip(places, answers, strict=True):
            by_key: dict[object, Rows] = {}
            for key, *row in rows:
                by_key.setdefault(key, []).append(tuple(row))
            for n in some:
                each[n] = by_key.get(many[n][0], [])
        return each

    several = statement.several()
    reads = [Request(several, ([many[n][0] for n in some], *many[some[0]][1:])) for some in places]
    return reads, rows_of_each


def requests_of(
    statement: Statement, many: Sequence[Values], first_replica: Callable[[str], Hashable]
) -> list[list[int]] | None:
    """Returns the places of the values that go together in one request; None if each goes alone."""
    if statement.partition:
        partition = statement.partition
        return _in_groups(many, lambda values: values[:partition], WRITES_PER_REQUEST, BYTES_PER_REQUEST)
    key = statement.key
    if key is None:
        return None
    if statement.kind is StatementKind.WRITE:
        return _in_groups(many, lambda values: first_replica(str(values[key])), ROWS_PER_WRITE, BYTES_PER_WRITE)
    return _in_groups(many, lambda values: (first_replica(str(values[0])), values[1:]), ROWS_PER_READ, None)


def _in_groups(
    many: Sequence[Values], group_of: Callable[[Values], Hashable], most: int, most_bytes: int | None
) -> list[list[int]]:
    """Returns the places of each group's values, in pieces of so many at most.

    A piece has at most `most_bytes` bytes, unless it is one value.
    """
    pieces: list[list[int]] = []
    filling: dict[Hashable, list[int]] = {}
    sizes: dict[Hashable, int] = {}
    for n, values in enumerate(many):
        size = 0
        if most_bytes is not None:
            size = sum([len(value) for value in values if isinstance(value, bytes | str)])
            if size > most_bytes:
                pieces.append([n])
                continue
        group = group_of(values)
        piece = filling.get(group)
        if piece is None or len(piece) == most or (most_bytes is not None and sizes[group] + size > most_bytes):
            piece = filling[group] = []
            pieces.append(piece)
            sizes[group] = 0
        piece.append(n)
        sizes[group] += size
    return pieces
