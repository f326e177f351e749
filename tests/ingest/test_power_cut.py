"""A flush syncs what it has saved once, at its end. A power cut before takes some of it back, and nothing is lost."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection

import pytest

from clickcurve.buckets.codec import decode
from clickcurve.buckets.ladder import CLICKS, DAY_S
from clickcurve.keys import ALL_LINKS
from ingest import flush
from ingest.batch import Batch
from storage.sqlite.connections import Connections
from storage.sqlite.store import SqliteStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.faulty_store import Killed

NOW = 1_772_000_000 // DAY_S * DAY_S + 12 * 3_600
KEYS = [f"link-{n:03}" for n in range(400)]
NORMAL, FULL = 1, 2


@pytest.fixture(autouse=True)
def small_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush, "ROWS_PER_SAVE", SqliteStore.links_per_load)


def start(folder: Path) -> OwnerProcess:
    folder.mkdir(exist_ok=True)
    store = SqliteStore(folder / "clickcurve.db", CLICKS)
    return OwnerProcess(folder / "journal", store, lambda: float(NOW), alone=True, disk=TrackedDisk())


def hit_each(process: OwnerProcess, count: int) -> None:
    asyncio.run(process.owner.accept(Batch(people={NOW: dict.fromkeys(KEYS, count)})))


def stored(process: OwnerProcess) -> dict[str, int]:
    async def read(key: str) -> int:
        return sum(decode(row.data).lifetime for row in (await process.store.rows(key)).rows)

    async def all_of_them() -> dict[str, int]:
        return {key: await read(key) for key in (ALL_LINKS, *KEYS)}

    return asyncio.run(all_of_them())


def flushed(each: int) -> dict[str, int]:
    return {ALL_LINKS: each * len(KEYS), **dict.fromkeys(KEYS, each)}


class Log:
    """The write-ahead log of a node. synced: how much of it a power cut leaves for certain, once it has grown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, node: Path) -> None:
        self.node, self.path = node, node / "clickcurve.db-wal"
        self.synced = length = self.path.stat().st_size
        transaction = Connections.transaction

        @contextmanager
        def noted(connections: Connections, *, synced: bool = True) -> Iterator[Connection]:
            nonlocal length
            with transaction(connections, synced=synced) as db:
                yield db
            before, length = length, self.path.stat().st_size
            if synced and length > before:  # SQLite syncs what a transaction writes, and with it what is before
                self.synced = length

        monkeypatch.setattr(Connections, "transaction", noted)

    def cut(self, copy: Path, length: int) -> Path:
        """Copies the node as a power cut leaves it that keeps so much of the log."""
        data = self.path.read_bytes()
        shutil.copytree(self.node, copy)
        (copy / self.path.name).write_bytes(data[:length] + random.Random(length).randbytes(len(data) - length))
        (copy / "clickcurve.db-shm").unlink(missing_ok=True)
        return copy


def test_only_the_last_save_of_a_flush_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transaction, found = Connections.transaction, []

    @contextmanager
    def noted(self: Connections, *, synced: bool = True) -> Iterator[Connection]:
        with transaction(self, synced=synced) as db:
            yield db
            found.append(db.execute("PRAGMA synchronous").fetchone()[0])

    process = start(tmp_path / "node")
    hit_each(process, 1)
    monkeypatch.setattr(Connections, "transaction", noted)
    asyncio.run(process.owner.flush())
    saves = len(KEYS) // SqliteStore.links_per_load
    assert found[-saves - 1 :] == [*[NORMAL] * saves, FULL]
    assert set(found[: -saves - 1]) == {FULL}, "what claims and begins a flush is durable"
    process.store.close()


def test_what_a_power_cut_takes_back_of_a_flush_is_flushed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(tmp_path / "node")
    hit_each(process, 1)
    asyncio.run(process.owner.flush())
    hit_each(process, 10)
    log = Log(monkeypatch, tmp_path / "node")

    def cut_off(*args: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(SqliteStore, "save_own", cut_off)  # the last of the flush
        asyncio.run(process.owner.flush())
    data = log.path.read_bytes()
    assert len(data) > log.synced, "rows were saved after the last sync"
    drawn = random.Random(1)
    counted: set[int] = set()
    for n, length in enumerate([log.synced, len(data), *(drawn.randrange(log.synced, len(data)) for _ in range(10))]):
        again = start(log.cut(tmp_path / f"copy-{n}", length))
        with closing(again.store):
            counted.add(list(stored(again).values()).count(11))
            asyncio.run(again.owner.flush())
            assert stored(again) == flushed(11)
            again.disk.kill()
    assert {0, 400} < counted, "some, all and none of what was not synced was there"
    process.disk.kill()
    process.store.close()


def put(node: Path, key: str, data: bytes) -> bytes:
    """Puts these bytes in the place of a row; returns what was there."""
    with closing(sqlite3.connect(node / "clickcurve.db")) as db:
        (before,) = db.execute("SELECT data FROM rows WHERE key = ?", (key,)).fetchone()
        db.execute("UPDATE rows SET data = ? WHERE key = ?", (data, key))
        db.commit()
    return bytes(before)


@pytest.mark.parametrize("key", [ALL_LINKS, KEYS[0]])
def test_a_flush_that_has_ended_is_synced_whichever_row_is_damaged(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of all links comes last in every flush, but for one that cannot read it."""
    process = start(tmp_path / "node")
    hit_each(process, 1)
    asyncio.run(process.owner.flush())
    whole = put(tmp_path / "node", key, b"?")
    log = Log(monkeypatch, tmp_path / "node")
    for _ in range(2):
        hit_each(process, 10)
        asyncio.run(process.owner.flush())
        assert process.owner.status.quarantined.keys() == {key}
    again = start(log.cut(tmp_path / "copy", log.synced))
    put(tmp_path / "copy", key, whole)
    asyncio.run(again.owner.flush())
    assert stored(again) == flushed(21)
    for each in (process, again):
        each.disk.kill()
        each.store.close()


def test_a_transaction_that_changes_nothing_syncs_those_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Connections(tmp_path / "clickcurve.db", CLICKS, read_only=False)) as connections:
        log = Log(monkeypatch, tmp_path)
        with connections.transaction(synced=False) as db:
            db.execute("INSERT INTO erased VALUES ('a', 1)")
        unsynced = log.path.stat().st_size
        assert log.synced < unsynced
        with connections.transaction():
            pass
        assert log.synced > unsynced
        with connections.transaction():
            pass
        assert log.synced == log.path.stat().st_size, "nothing is written where nothing waits"
