"""A process's connection to the simulated cluster: what the store asks of a driver, and the ways it can go wrong.

One call after the other is numbered, so that a history can have the n-th call of a process fail, end the process, or
send it to sleep: before anything is sent, when one replica alone has heard of it, or when all is done and only the
answer is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from clickcurve.buckets.errors import StoreUnavailable
from storage.cassandra.cql import Rows, Statement, StatementKind, Values, Work
from tests.ingest.journal.faulty_disk import Stopped
from tests.simulated.cluster import REPLICAS, Answer, Cluster
from tests.simulated.stage import Event, Life

TRIES = 2  # of what may be repeated at will
SLOW_TURNS = 300  # events that happen, at most, before a slow answer to a reader comes


@dataclass(frozen=True, slots=True)
class Fault:
    when: Literal["before", "half", "after"]
    what: Literal["fail", "kill", "pause"]


class Connection:
    """Implements `storage.cassandra.cql.Cql` for one life of a process. in_flight: how many requests at once."""

    def __init__(self, cluster: Cluster, life: Life, in_flight: int) -> None:
        self.cluster, self.life = cluster, life
        self.calls = 0
        self.fault_at: dict[int, Fault] = {}
        self._in_flight = in_flight

    # --- the protocol ---------------------------------------------------------------------------------------------
    def run(self, statement: Statement, values: Values = ()) -> Rows:
        return self.run_each(statement, [values])[0]

    def run_each(self, statement: Statement, many: Sequence[Values]) -> list[Rows]:
        return [answer.rows or [] for answer in self._read(statement, many)]

    def run_all(self, work: Sequence[Work]) -> list[list[Rows]]:
        """One after the other, in any order: so each of them may be the last one before a fault."""
        order = list(range(len(work)))
        self.cluster.stage.rnd.shuffle(order)
        found = {n: self.run_each(*work[n]) for n in order if work[n][1]}
        return [found.get(n, []) for n in range(len(work))]

    def send_all(self, work: Sequence[Work]) -> Callable[[], list[list[Rows]]]:
        """All at once: they travel on while the process does something else."""
        sent = {n: self._send(*work[n]) for n in range(len(work)) if work[n][1]}

        def results() -> list[list[Rows]]:
            heard = {n: wait() for n, wait in sent.items()}
            good = {n: self._good(*work[n], answers) for n, answers in heard.items()}
            return [[answer.rows or [] for answer in good.get(n, [])] for n in range(len(work))]

        return results

    def _read(self, statement: Statement, many: Sequence[Values]) -> list[Answer]:
        return self._good(statement, many, self._carry_out(statement, many))

    def _good(self, statement: Statement, many: Sequence[Values], answers: Sequence[Answer | None]) -> list[Answer]:
        good = [answer for answer in answers if answer is not None and not answer.error]
        if len(good) < len(many):
            raise StoreUnavailable(f"{statement.name}: {len(many) - len(good)} of {len(many)} failed")
        return good

    def pages(self, statement: Statement, values: Values, size: int) -> Iterator[Rows]:
        """Each page is a look of its own, and goes on where the one before ended."""
        last: Any = None
        while True:
            (answer,) = self._read(statement, [values])
            left = [
                (place, row)
                for place, row in zip(answer.places or [], answer.rows or [], strict=True)
                if last is None or place > last
            ]
            if not left:
                return
            yield [row for _, row in left[:size]]
            last = left[:size][-1][0]

    def apply_if(self, statement: Statement, values: Values, attempt: int = 0) -> bool | None:
        return self.apply_each_if(statement, [values])[0]

    def apply_each_if(self, statement: Statement, many: Sequence[Values], attempt: int = 0) -> list[bool | None]:
        answers = self._carry_out(statement, many)
        if any(answer is None or answer.error == "unavailable" for answer in answers):
            raise StoreUnavailable(f"{statement.name}: not enough replicas")
        return [answer.applied for answer in answers if answer is not None]

    async def ask(self, statement: Statement, values: Values = ()) -> Rows:
        self.life.check()
        note = self.cluster.stage.note
        note(self.life.name, "asks", statement.name, *values)
        heard: asyncio.Future[Answer] = self.cluster.stage.loop.create_future()

        def hear(answer: Answer) -> None:
            slow = self.cluster.stage.rnd.random() < self.cluster.faults.slow
            turns = self.cluster.stage.rnd.randrange(SLOW_TURNS) if slow else 0
            self.cluster.stage.after(turns, lambda: None if heard.done() else heard.set_result(answer))

        self.cluster.start(statement, values, hear)
        answer = await heard
        note(self.life.name, "hears", statement.name, answer)
        if answer.error:
            raise StoreUnavailable(f"{statement.name}: {answer.error}")
        return answer.rows or []

    def measures(self) -> dict[str, float]:
        return {"store_requests_total": float(self.calls)}

    def close(self) -> None:
        """Nothing to let go of."""

    # --- calls that fail ------------------------------------------------------------------------------------------
    def _carry_out(self, statement: Statement, many: Sequence[Values]) -> list[Answer | None]:
        """The answers, in order; None for what was not sent because another had failed."""
        return self._send(statement, many)()

    def _send(self, statement: Statement, many: Sequence[Values]) -> Callable[[], list[Answer | None]]:
        """What waits for the answers of this call, which is under way."""
        self.life.check()
        self.calls += 1
        fault = self.fault_at.pop(self.calls, None)
        note = self.cluster.stage.note
        note(self.life.name, "calls", statement.name, *many, fault or "")
        if fault and fault.when == "before":
            self._suffer(fault)
        if fault and fault.what == "fail" and fault.when == "before":
            return lambda: [Answer(error="unavailable")] * len(many)
        half = fault is not None and fault.when == "half"
        run = _Run(self, statement, many, self.cluster.stage.rnd.randrange(REPLICAS) if half else None)
        run.start()

        def answers() -> list[Answer | None]:
            self.cluster.stage.wait_for(run.when_done)
            note(self.life.name, "has heard", statement.name, *run.answers)
            if fault and fault.when != "before":
                self._suffer(fault)
            if fault and fault.what == "fail":
                return [Answer(error="timeout")] * len(many)
            return run.answers

        return answers

    def _suffer(self, fault: Fault) -> None:
        if fault.what == "kill":
            self.life.alive = False
            raise Stopped(f"{self.life.name} is killed")
        if fault.what == "pause":
            self.life.paused = True
            self.cluster.stage.wait_for(lambda done: done())  # comes to itself once it is woken


class _Run:
    """A statement with many values, so many at once as may be in flight. After a failure nothing more is sent.

    only: the one replica that hears of it; None: all do.
    """

    def __init__(self, connection: Connection, statement: Statement, many: Sequence[Values], only: int | None) -> None:
        self.answers: list[Answer | None] = [None] * len(many)
        self._connection, self._statement, self._many = connection, statement, many
        self._next = self._under_way = 0
        self._only = only
        self._failed = self._ended = False
        self._done: Event = lambda: None

    def start(self) -> None:
        self._send_more()

    def when_done(self, done: Event) -> None:
        if self._ended:
            done()
        self._done = done

    def _send_more(self) -> None:
        connection = self._connection
        while self._under_way < connection._in_flight and self._next < len(self._many) and not self._failed:
            self._next += 1
            self._under_way += 1
            tries = TRIES if self._statement.kind != StatementKind.CONDITION and self._only is None else 1
            self._send(self._next - 1, tries)
        if not self._under_way:
            self._ended = True
            self._done()

    def _send(self, index: int, tries: int) -> None:
        def hear(answer: Answer) -> None:
            if answer.error and tries > 1 and self._connection.life.alive:
                self._send(index, tries - 1)
                return
            self.answers[index] = answer
            if answer.error == "unavailable" or (answer.error and self._statement.kind != StatementKind.CONDITION):
                self._failed = True
            self._under_way -= 1
            self._send_more()

        self._connection.cluster.start(self._statement, self._many[index], hear, self._only)
