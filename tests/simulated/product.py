"""The product under test: its Cassandra store on a simulated cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from unittest import mock

from storage.cassandra import schema, statements
from storage.cassandra.store import CassandraStore
from storage.contract import Store
from tests.simulated.cluster import Cluster, Faults
from tests.simulated.connection import Connection
from tests.simulated.history import History, Plot
from tests.simulated.stage import Life, Stage

CACHE_BYTES = 4_000  # some eight rows
LINKS_PER_PIECE = 2  # so that most flushes have several pieces, of which one is under way while the next is made


class WritesOfEachLife:
    """Stands for the number that the store draws for each write: it begins anew in each process."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._writes: Counter[Life] = Counter()

    def __next__(self) -> int:
        assert self._stage.thread is not None
        life = self._stage.thread.life
        self._writes[life] += 1
        return self._writes[life]


def make_cluster(stage: Stage, clock: Callable[[], float]) -> Cluster:
    tables = [table.create("clickcurve") for table in schema.TABLES]
    return Cluster(stage, Faults(), clock, tables, statements.STATEMENTS.values())


def open_store(connection: Connection, clock: Callable[[], float]) -> Store:
    return CassandraStore(connection, CACHE_BYTES)


def history_of(seed: int, plot: Plot, kind: type[History] = History) -> History:
    return kind(seed, plot, open_store, make_cluster)


def tell(history: History) -> None:
    with (
        mock.patch("storage.cassandra.store._writes", WritesOfEachLife(history.stage)),
        mock.patch.object(CassandraStore, "links_per_load", LINKS_PER_PIECE),
        mock.patch("ingest.flush.ROWS_PER_SAVE", LINKS_PER_PIECE),
    ):
        history.tell()
