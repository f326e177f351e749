"""The simulated cluster for code that runs on real threads and event loops, such as the contract's tests.

A history draws who runs next; here the machine does. So the whole cluster has one lock: a call holds it while it sends,
and again while events happen until its answers are there. Nothing is lost or late, and all three replicas are up,
unless a test takes some down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from threading import RLock
from time import time
from uuid import uuid4

from storage.cassandra.cql import Rows, Statement, Values
from storage.cassandra.statements import NOTE
from storage.cassandra.store import CassandraStore
from storage.contract import Store
from tests.simulated.cluster import Answer
from tests.simulated.connection import Connection
from tests.simulated.product import make_cluster
from tests.simulated.stage import Stage

IN_FLIGHT = 64


class ThreadedConnection(Connection):
    """A connection of one process whose threads are real. lock: the cluster's."""

    def __init__(self, stage: Stage, factory: SimulatedFactory) -> None:
        super().__init__(factory.cluster, stage.life("process"), IN_FLIGHT)
        self._lock = factory.lock

    def _send(self, statement: Statement, many: Sequence[Values]) -> Callable[[], list[Answer | None]]:
        with self._lock:
            wait = super()._send(statement, many)

        def answers() -> list[Answer | None]:
            with self._lock:
                return wait()

        return answers

    async def ask(self, statement: Statement, values: Values = ()) -> Rows:
        return self.run(statement, values)


class SimulatedFactory:
    """One keyspace on a cluster in memory. Each call opens a store with its own cache, as another process would."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.stage = Stage(Random(1))
        self.cluster = make_cluster(self.stage, time)
        ThreadedConnection(self.stage, self).apply_if(NOTE, ("uuid", str(uuid4())))

    def __call__(self) -> Store:
        return CassandraStore(ThreadedConnection(self.stage, self))

    def close(self) -> None:
        """Ends the cluster. Raises what it was asked that a real one would refuse."""
        self.stage.loop.close()
        if self.cluster.refused:
            raise self.cluster.refused[0]


@contextmanager
def without_quorum(factory: object) -> Iterator[None]:
    """Two of the three replicas are down: nothing can be read or written."""
    assert isinstance(factory, SimulatedFactory)
    with factory.lock:
        factory.cluster.down = {0, 1}
    try:
        yield
    finally:
        with factory.lock:
            factory.cluster.down = set()
