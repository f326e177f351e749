"""Every store once, with the ways it can be down. A new store is a new entry in STORES and in OUTAGES."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

from clickcurve.buckets.ladder import CLICKS
from storage.contract import OPEN, Held, OwnerRecord, SavedRow, Store, StoredLink
from storage.memory_store import MemoryStore
from storage.sqlite.store import SqliteStore
from tests.simulated.threaded import SimulatedFactory, without_quorum
from tests.storage.cassandra.cassandra_kit import CassandraFactory, suspended

LADDER = CLICKS


class StoreFactory(Protocol):
    """The data of one test. Each call opens another handle on it, as another process would."""

    def __call__(self) -> Store: ...

    def close(self) -> None: ...


class MemoryFactory:
    def __init__(self, folder: Path) -> None:
        self._store = MemoryStore()

    def __call__(self) -> Store:
        return self._store

    def close(self) -> None:
        self._store.close()


class SqliteFactory:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "data" / "clickcurve.db"
        self.path.parent.mkdir()
        self.opened: list[SqliteStore] = []

    def __call__(self) -> Store:
        self.opened.append(SqliteStore(self.path, LADDER))
        return self.opened[-1]

    def close(self) -> None:
        for store in self.opened:
            store.close()


# Each is made from an empty folder, and from fixtures by name where it needs some.
STORES: dict[str, Callable[[Path, Callable[[str], Any]], StoreFactory]] = {
    "memory": lambda folder, fixture: MemoryFactory(folder),
    "sqlite": lambda folder, fixture: SqliteFactory(folder),
    "simulated": lambda folder, fixture: SimulatedFactory(),  # Cassandra's store over a cluster in memory
    "cassandra": lambda folder, fixture: CassandraFactory(fixture("cassandra_keyspace")),
}


@dataclass(frozen=True, slots=True)
class Outage:
    """A way for a store to be down. stops_all: no write gets through; else only those that need more room fail."""

    store: str
    name: str
    down: Callable[[StoreFactory], AbstractContextManager[None]]
    stops_all: bool

    def __str__(self) -> str:
        return f"{self.store}: {self.name}"


@contextmanager
def _locked_by_another(factory: StoreFactory) -> Iterator[None]:
    assert isinstance(factory, SqliteFactory)
    for store in factory.opened:
        store._connections.open().worker.execute("PRAGMA busy_timeout = 20")
    other = sqlite3.connect(factory.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


@contextmanager
def _folder_moved(factory: StoreFactory) -> Iterator[None]:
    assert isinstance(factory, SqliteFactory)
    away = factory.path.parent.with_name("away")
    factory.path.parent.rename(away)
    try:
        yield
    finally:
        away.rename(factory.path.parent)


@contextmanager
def _read_only(factory: StoreFactory) -> Iterator[None]:
    """SQLite answers as it does on a file system that was mounted read-only after an error."""
    assert isinstance(factory, SqliteFactory)
    for store in factory.opened:
        store._connections.open().worker.execute("PRAGMA query_only = 1")
    try:
        yield
    finally:
        for store in factory.opened:
            store._connections.open().worker.execute("PRAGMA query_only = 0")


@contextmanager
def _file_cannot_grow(factory: StoreFactory) -> Iterator[None]:
    """SQLITE_FULL: no page more than there are."""
    assert isinstance(factory, SqliteFactory)
    for store in factory.opened:
        (pages,) = store._connections.open().worker.execute("PRAGMA page_count").fetchone()
        store._connections.open().worker.execute(f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        for store in factory.opened:
            store._connections.open().worker.execute("PRAGMA max_page_count = 1073741823")


@contextmanager
def _writes_fail(factory: StoreFactory) -> Iterator[None]:
    """The operating system refuses every byte beyond the end of the WAL, as on a full disk."""
    assert isinstance(factory, SqliteFactory)
    wal = factory.path.with_name(f"{factory.path.name}-wal")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (wal.stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


OUTAGES = [
    Outage("sqlite", "locked by another process", _locked_by_another, stops_all=True),
    Outage("sqlite", "folder moved away", _folder_moved, stops_all=True),
    Outage("sqlite", "read-only", _read_only, stops_all=True),
    Outage("sqlite", "writes fail", _writes_fail, stops_all=True),
    Outage("sqlite", "file cannot grow", _file_cannot_grow, stops_all=False),
    Outage("simulated", "two of three replicas down", without_quorum, stops_all=True),
    Outage("cassandra", "node suspended", suspended, stops_all=True),
]


def record(owner: int = 1, epoch: int = 1, holder: str = "h1", state: str = OPEN, begun: int = 0) -> OwnerRecord:
    return OwnerRecord(owner, epoch, holder, f"journal-{owner}", f"/data/{owner}", state, begun, 1_700_000_000)


def in_flush(store: Store, owner: int = 1, flush: int = 1) -> Held:
    """A new owner in the middle of its flush."""
    held = Held(owner, 1, f"h{owner}")
    assert store.create_owner(record(owner, holder=held.holder))
    assert store.begin(held, 0, flush, 1_700_000_000)
    return held


def saved(
    *keys: str, data: bytes = b"row", due_day: int | None = None, touched_day: int | None = None
) -> dict[str, SavedRow]:
    return dict.fromkeys(keys, SavedRow(data, due_day, touched_day))


def due(store: Store, owner: int, fold_day: int, page: int) -> list[str]:
    """All that a store names as due, page by page."""
    found: list[str] = []
    while keys := store.due(owner, fold_day, found[-1] if found else None, page):
        assert len(keys) <= page
        found += keys
    return found


def walked(store: Store, page: int, since_day: int | None = None) -> list[tuple[str, StoredLink]]:
    """A whole walk, page by page."""
    found: list[tuple[str, StoredLink]] = []
    while links := store.walk(found[-1][0] if found else None, page, since_day):
        assert len(links) <= page
        found += links
    return found


def rows(store: Store, key: str) -> StoredLink:
    return asyncio.run(store.rows(key))


def in_threads(calls: list[Callable[[], object]]) -> None:
    threads = [Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
