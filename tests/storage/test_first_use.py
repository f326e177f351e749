"""Stores that cannot be opened at the start: opened by the first verb that may block, once they can be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from clickcurve.buckets.errors import SettingInvalid, StoreMismatch, StoreUnavailable
from clickcurve.buckets.ladder import Ladder
from storage.cassandra.requests import Requests
from storage.cassandra.statements import LINK
from storage.cassandra.store import CassandraStore
from storage.contract import StoredLink, StoredRow
from storage.from_uri import open_store
from storage.sqlite.store import SqliteStore
from tests.storage.cassandra.driver_kit import Driver
from tests.storage.stores import LADDER, in_flush, in_threads, rows, saved


class Cluster(Driver):
    """Down until it is `up`; `connections` counts the attempts, `closed` the connections that were closed."""

    def __init__(self) -> None:
        super().__init__(lambda pending: pending.answer([(1, b"row", None)]))
        self.up = False
        self.connections = 0
        self.closed = 0

    def connect(self) -> Cluster:
        self.connections += 1
        if not self.up:
            raise StoreUnavailable(f"down at attempt {self.connections}")
        return self

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def reasons() -> list[str]:
    return []


@pytest.fixture
def later(reasons: list[str]) -> Callable[[StoreUnavailable], None]:
    return lambda error: reasons.append(error.detail)


def test_a_database_whose_folder_comes_later_is_opened_by_the_first_verb_that_may_block(
    tmp_path: Path, reasons: list[str], later: Callable[[StoreUnavailable], None]
) -> None:
    folder = tmp_path / "disk"
    store = open_store(f"sqlite:///{folder}/clickcurve.db", LADDER, later=later)
    assert reasons == [f"{folder}/clickcurve.db cannot be made: there is no folder {folder}"]
    with pytest.raises(StoreUnavailable):
        store.owners()
    folder.mkdir()
    with pytest.raises(StoreUnavailable, match=r"not been reached since the start: .*clickcurve\.db"):
        rows(store, "a")
    with pytest.raises(StoreUnavailable):
        asyncio.run(store.claimed(["id"], 0))
    with pytest.raises(StoreUnavailable, match="not been reached since the start"):
        store.ladder()
    assert (store.measures(), store.replay_us, list(folder.iterdir())) == ({}, None, [])
    store.save_own(in_flush(store), 1, saved("a"), {})
    assert rows(store, "a") == StoredLink(0, (StoredRow(1, b"row"),))
    assert asyncio.run(store.claimed(["id"], 0)) == set()
    assert store.ladder() == LADDER
    store.close()
    assert [file.name for file in folder.iterdir()] == ["clickcurve.db"]
    assert len(reasons) == 1


def test_a_store_that_was_never_opened_is_closed_without_opening_it(
    tmp_path: Path, later: Callable[[StoreUnavailable], None]
) -> None:
    store = open_store(f"sqlite:///{tmp_path}/disk/clickcurve.db", LADDER, later=later)
    (tmp_path / "disk").mkdir()
    store.close()
    assert list((tmp_path / "disk").iterdir()) == []


def test_only_a_store_that_cannot_answer_may_come_later(
    tmp_path: Path, reasons: list[str], later: Callable[[StoreUnavailable], None]
) -> None:
    SqliteStore(tmp_path / "clickcurve.db", Ladder.parse("60:2,3600:31,month")).close()
    with pytest.raises(StoreMismatch, match="the tiers cannot change"):
        open_store(f"sqlite:///{tmp_path}/clickcurve.db", LADDER, later=later)
    with pytest.raises(SettingInvalid, match="password_file"):
        open_store("cassandra://127.0.0.1:1/clicks?user=u&password_file=/nowhere", LADDER, later=later)
    assert reasons == []
    with pytest.raises(StoreUnavailable):
        open_store("cassandra://127.0.0.1:1/clicks?timeout_s=0.1", LADDER)


def test_the_ladder_of_a_cluster_is_not_known_before_it_was_reached(
    reasons: list[str], later: Callable[[StoreUnavailable], None]
) -> None:
    store = open_store("cassandra://127.0.0.1:1/clicks?timeout_s=0.1", later=later)
    assert len(reasons) == 1
    with pytest.raises(StoreUnavailable, match="not been reached since the start: its ladder is not known"):
        store.ladder()
    store.close()


def test_a_cluster_is_connected_to_by_what_may_block_and_never_by_a_reader(
    reasons: list[str], later: Callable[[StoreUnavailable], None]
) -> None:
    cluster = Cluster()
    connection = Requests(cluster.connect, 4, later)
    store = CassandraStore(connection)
    assert reasons == ["down at attempt 1"]
    with pytest.raises(StoreUnavailable, match="down at attempt 2"):
        store.owners()
    cluster.up = True
    with pytest.raises(StoreUnavailable, match="not been reached since the start: down at attempt 2"):
        rows(store, "a")
    assert store.replay_us is not None
    assert "store_requests_total" not in store.measures()
    assert cluster.connections == 2
    in_threads([lambda: connection.run(LINK, ("a",)) for _ in range(20)])
    assert cluster.connections == 3
    assert rows(store, "a") == StoredLink(0, (StoredRow(1, b"row"),))
    assert store.measures()["store_requests_total"] == 21
    store.close()
    assert (cluster.connections, cluster.closed) == (3, 1)


def test_a_connection_that_was_never_made_is_closed_without_making_it(
    later: Callable[[StoreUnavailable], None],
) -> None:
    cluster = Cluster()
    store = CassandraStore(Requests(cluster.connect, 4, later))
    store.close()
    assert (cluster.connections, cluster.closed) == (1, 0)
