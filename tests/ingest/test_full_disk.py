"""Journal and database on one disk that is nearly full: neither takes the room that the other needs to go on."""

from __future__ import annotations

import sqlite3
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from clickcurve.buckets.errors import JournalFull, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import ALL_LINKS
from ingest.batch import Batch
from ingest.flush import Pace
from ingest.journal.disk import Disk
from ingest.journal.disk_journal import LOOK_BYTES, DiskJournal
from ingest.owner import Owner
from storage.sqlite import file
from storage.sqlite.file import flush_bytes
from storage.sqlite.store import SqliteStore
from tests.ingest.owner_kit import read

NOW = 1_772_000_040
SIZE = 8 << 20


def used(folder: Path) -> int:
    return sum(part.stat().st_size for part in folder.rglob("*") if part.is_file())


class SmallDisk(Disk):
    """A disk of `size` bytes that holds one folder and nothing else."""

    def __init__(self, folder: Path, size: int) -> None:
        super().__init__()
        self.folder, self.capacity, self.asked = folder, size, 0

    def free_bytes(self, folder: Path) -> int:
        self.asked += 1
        return self.capacity - used(self.folder)


def new_links(name: str, count: int) -> Batch:
    return Batch(people={NOW // 60 * 60: Counter(f"{name}-{n}" for n in range(count))})


def open_owner(journal: DiskJournal, store: SqliteStore) -> Owner:
    pace = Pace(lambda: 0.0, 15.0, lambda: False)
    return Owner(journal, store, lambda: float(NOW), token=lambda: "token", pace=pace, place="here", alone=True)


async def test_hits_are_refused_before_their_flush_has_no_room_and_taken_again_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "WAL_BYTES", 1 << 20)
    monkeypatch.setattr(file, "WAL_ROOM_BYTES", 2 << 20)
    disk = SmallDisk(tmp_path, SIZE)
    store = SqliteStore(tmp_path / "clickcurve.db", CLICKS)
    needed = partial(flush_bytes, tmp_path / "clickcurve.db")
    owner = open_owner(DiskJournal(tmp_path / "journal-1", disk, flush_bytes=needed), store)
    await owner.flush()
    accepted, rounds, peak = 0, [], 0
    for n in range(100):
        taken = 0
        for m in range(100):
            try:
                await owner.accept(new_links(f"{n}-{m}", 1_000))
            except JournalFull as error:
                assert "bytes left, and the next flush needs" in error.detail
                break
            taken += 1_000
        accepted += taken
        rounds.append(taken)
        await owner.flush()
        peak = max(peak, used(tmp_path))
        if not taken:
            break
    assert rounds[-1] == 0 and len(rounds) > 3, "it drains each time, until the database alone leaves no more room"
    assert peak <= SIZE
    assert (await read(store, [], ALL_LINKS, NOW)).lifetime == accepted > 20_000
    disk.capacity *= 2  # somebody makes room: nothing else is needed
    await owner.accept(new_links("more", 500))
    await owner.close()
    assert (await read(store, [], ALL_LINKS, NOW)).lifetime == accepted + 500
    store.close()


def test_single_hits_ask_the_disk_after_a_flush_and_now_and_then(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, SIZE)
    journal = DiskJournal(tmp_path / "journal-1", disk, flush_bytes=lambda held: held)
    for n in range(500):
        journal.append([bytes(800)], n)
    written = journal.bytes_held
    assert 2 <= disk.asked <= written // LOOK_BYTES + 1
    journal.record_flush(1, 0)
    asked = disk.asked
    journal.append([b"hit"], 1)
    journal.append([b"hit"], 2)
    assert disk.asked == asked + 1
    disk.capacity = 0
    journal.complete_flush(1)  # what makes room is never refused
    journal.close()


def test_a_store_elsewhere_needs_no_room_beside_the_journal(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, 0)
    DiskJournal(tmp_path / "journal-1", disk).append([b"hit"], 1)
    assert disk.asked == 0


async def test_a_database_that_met_a_full_disk_goes_on_by_itself_when_there_is_room(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "clickcurve.db", CLICKS)
    owner = open_owner(DiskJournal(tmp_path / "journal-1"), store)
    await owner.flush()
    worker: sqlite3.Connection = store._connections.open().worker
    (pages,) = worker.execute("PRAGMA page_count").fetchone()
    worker.execute(f"PRAGMA max_page_count = {pages + 20}")
    await owner.accept(new_links("a", 5_000))
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="SQLITE_FULL"):
            await owner.flush()
    wal = tmp_path / "clickcurve.db-wal"
    before = wal.stat().st_size
    for _ in range(5):
        with pytest.raises(StoreUnavailable, match="SQLITE_FULL"):
            await owner.flush()
    assert wal.stat().st_size <= before, "what cannot succeed takes no more room each time"
    worker.execute("PRAGMA max_page_count = 1000000")
    await owner.flush()
    assert (await read(store, [], ALL_LINKS, NOW)).lifetime == 5_000
    await owner.close()
    store.close()
