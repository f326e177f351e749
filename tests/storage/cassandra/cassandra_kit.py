"""A keyspace on a real node for the contract's tests, emptied for each, and the ways that it is down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, NoReturn

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import Ladder
from storage.cassandra.cql import Cql, Rows, Statement, Values, Work
from storage.cassandra.requests import Requests
from storage.cassandra.schema import TABLES, apply_schema
from storage.cassandra.session import connect
from storage.cassandra.statements import NOW_MS, STATEMENTS
from storage.cassandra.store import CassandraStore
from storage.cassandra.uri import parse
from storage.contract import Store
from testing.cassandra.node import Node

SHORT_S = 0.2


class Keyspace:
    """A keyspace with Clickcurve's tables on a node, and one connection to it."""

    def __init__(self, node: Node, name: str, ladder: Ladder) -> None:
        self.node = node
        self.uri = f"cassandra://{node.address}:{node.port}/{name}"
        address = parse(self.uri)
        self.session = connect(address)
        # No pause before another attempt: a node that is down here stays so.
        self.cql = Requests(lambda: self.session, address.in_flight, pause=lambda seconds: None)
        apply_schema(self.session, ladder, replication=1)
        # Nothing here outlives the node: with a commit log each truncation would write files.
        self.session.define(f"ALTER KEYSPACE {name} WITH durable_writes = false")
        self.session.use(STATEMENTS.values())
        self.session._session.set_keyspace(name)  # for what tests look up by a table's name alone

    def empty(self) -> None:
        for table in TABLES:
            if table.name != "meta":
                self.session.look_up(f"TRUNCATE {table.name}")

    def answers(self) -> bool:
        try:
            return len(self.cql.run(NOW_MS)) == 1
        except StoreUnavailable:
            return False

    def close(self) -> None:
        self.session.close()


class CassandraFactory:
    """Stores with a cache of their own each, over one connection."""

    def __init__(self, keyspace: Keyspace) -> None:
        self.keyspace = keyspace
        keyspace.empty()
        store = self()
        store.drop_notes(list(store.notes()))

    def __call__(self) -> Store:
        return CassandraStore(_Shared(self.keyspace.cql))

    def close(self) -> None:
        """The keyspace's connection stays."""


class _Shared:
    """A connection that others use as well: closing it closes nothing."""

    def __init__(self, cql: Cql) -> None:
        self._cql = cql

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cql, name)

    def close(self) -> None:
        pass


class Fault(Enum):
    LOST = "done, and nobody knows"
    NEVER = "not done, and nobody knows"
    DOWN = "not done"


class Faulty(_Shared):
    """A connection that fails as the test says: `faults` is asked for each request of the store.

    asked: the names of all statements, in order. late: updates that were not done and may still arrive.
    """

    def __init__(self, cql: Cql, faults: Callable[[Statement], Fault | None] = lambda statement: None) -> None:
        super().__init__(cql)
        self.faults = faults
        self.asked: list[str] = []
        self.late: list[tuple[Statement, Values]] = []

    def run(self, statement: Statement, values: Values = ()) -> Rows:
        return self.run_each(statement, [values])[0]

    def run_each(self, statement: Statement, many: Sequence[Values]) -> list[Rows]:
        done = []
        for values in many:
            self.asked.append(statement.name)
            fault = self.faults(statement)
            if fault is not Fault.DOWN and fault is not Fault.NEVER:
                done += self._cql.run_each(statement, [values])
            if fault is not None:
                raise StoreUnavailable(f"{statement.name}: {fault.value}")
        return done

    def run_all(self, work: Sequence[Work]) -> list[list[Rows]]:
        return self.send_all(work)()

    def send_all(self, work: Sequence[Work]) -> Callable[[], list[list[Rows]]]:
        """Carries out all before it returns, up to the first that fails, which shows when it is waited for."""
        try:
            found = [self.run_each(statement, many) for statement, many in work]
        except StoreUnavailable as error:
            return self._raising(error)
        return lambda: found

    def _raising(self, error: StoreUnavailable) -> Callable[[], NoReturn]:
        def results() -> NoReturn:
            raise error

        return results

    def pages(self, statement: Statement, values: Values, size: int) -> Iterator[Rows]:
        self.asked.append(statement.name)
        return self._cql.pages(statement, values, size)

    def apply_if(self, statement: Statement, values: Values, attempt: int = 0) -> bool | None:
        return self.apply_each_if(statement, [values])[0]

    def apply_each_if(self, statement: Statement, many: Sequence[Values], attempt: int = 0) -> list[bool | None]:
        return [self._apply_if(statement, values) for values in many]

    def _apply_if(self, statement: Statement, values: Values) -> bool | None:
        self.asked.append(statement.name)
        fault = self.faults(statement)
        if fault is Fault.DOWN:
            raise StoreUnavailable(f"{statement.name}: {fault.value}")
        if fault is Fault.NEVER:
            self.late.append((statement, values))
            return None
        applied = self._cql.apply_if(statement, values)
        return None if fault is Fault.LOST else applied


@contextmanager
def suspended(factory: object) -> Iterator[None]:
    """The node stands still: it takes requests and answers none."""
    assert isinstance(factory, CassandraFactory)
    keyspace = factory.keyspace
    profiles = keyspace.session._cluster.profile_manager.profiles.values()
    before = [(profile, profile.request_timeout) for profile in profiles]
    for profile in profiles:
        profile.request_timeout = SHORT_S
    keyspace.node.suspend()
    try:
        yield
    finally:
        keyspace.node.resume()
        for profile, timeout_s in before:
            profile.request_timeout = timeout_s
        keyspace.node.until(keyspace.answers)
