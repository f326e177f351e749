"""A flush syncs what it has saved once, at its end. A power cut before takes some of it back, and nothing is lost."""

from __future__ import annotations

import asyncio
import random
import shutil
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
    log = tmp_path / "node" / "clickcurve.db-wal"
    synced: list[int] = []
    save_own = SqliteStore.save_own

    def cut_off_at_the_last(self: SqliteStore, held, number, rows, sources) -> None:  # type: ignore[no-untyped-def]
        synced.append(log.stat().st_size)
        if ALL_LINKS in rows:
            raise Killed
        save_own(self, held, number, rows, sources)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(SqliteStore, "save_own", cut_off_at_the_last)
        asyncio.run(process.owner.flush())
    data = log.read_bytes()
    assert len(data) > synced[0], "rows were saved after the last sync"
    drawn = random.Random(1)
    counted: set[int] = set()
    for n, length in enumerate([synced[0], len(data), *(drawn.randrange(synced[0], len(data)) for _ in range(10))]):
        copy = tmp_path / f"copy-{n}"
        shutil.copytree(tmp_path / "node", copy)
        (copy / log.name).write_bytes(data[:length] + drawn.randbytes(len(data) - length))
        (copy / "clickcurve.db-shm").unlink(missing_ok=True)
        again = start(copy)
        with closing(again.store):
            counted.add(list(stored(again).values()).count(11))
            asyncio.run(again.owner.flush())
            assert stored(again) == flushed(11)
            again.disk.kill()
    assert {0, 400} < counted, "some, all and none of what was not synced was there"
    process.disk.kill()
    process.store.close()
