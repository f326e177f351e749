"""A database beside a write-ahead log: its own is replayed, whatever a crash left of it, and any other is refused."""

from __future__ import annotations

import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from clickcurve.buckets.errors import StoreMismatch
from storage.contract import SavedRow
from storage.sqlite import file
from storage.sqlite.backup import backup
from storage.sqlite.restore import restore
from storage.sqlite.store import SqliteStore
from tests.storage.flushes import Flusher, hits
from tests.storage.processes import opened, whole
from tests.storage.stores import LADDER, in_flush

FRAME_BYTES = 24 + file.PAGE_BYTES


def crash(path: Path, folder: Path) -> Path:
    """Copies the files of a database that is open, as a power cut would leave them."""
    folder.mkdir()
    for part in (path, path.with_name(f"{path.name}-wal")):
        shutil.copy(part, folder / part.name)
    return folder / path.name


def wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def links(path: Path) -> int:
    with opened(path) as store:
        listed = len(store.walk(None, 100_000))
    assert whole(path)
    return listed


def fill(flusher: Flusher, name: str, count: int) -> None:
    flusher.flush({f"{name}{n}": hits((0, 3)) for n in range(count)})


def assert_refused(path: Path) -> None:
    before = path.read_bytes(), wal(path).read_bytes()
    for open_it in (
        lambda: SqliteStore(path, LADDER),
        lambda: SqliteStore(path, LADDER, read_only=True),
        lambda: SqliteStore(path, LADDER, later=lambda error: None),
        lambda: backup(path, path.with_name("copy.db")),
    ):
        with pytest.raises(StoreMismatch, match="put a backup in place with `clickcurve restore FILE`"):
            open_it()
    assert (path.read_bytes(), wal(path).read_bytes()) == before


@pytest.mark.parametrize("wal_bytes", [8 << 20, 20_000], ids=["of a small database", "that was begun anew"])
def test_a_backup_beside_the_log_of_the_database_that_it_replaces_is_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wal_bytes: int
) -> None:
    monkeypatch.setattr(file, "WAL_BYTES", wal_bytes)
    with opened(path) as store:
        flusher = Flusher(store)
        for n in range(3):
            fill(flusher, f"old{n}-", 300)
        backup(path, tmp_path / "backup.db")
        fill(flusher, "new", 300)
        killed = crash(path, tmp_path / "killed")
    shutil.copy(tmp_path / "backup.db", killed)
    assert_refused(killed)
    wal(killed).rename(tmp_path / "moved away")
    assert links(killed) == 901


def test_a_database_that_a_link_names_is_looked_at_where_it_lies(path: Path, tmp_path: Path) -> None:
    with opened(path) as store:
        fill(Flusher(store), "a", 300)
        backup(path, tmp_path / "backup.db")
        fill(Flusher(store, 2), "b", 300)
        killed = crash(path, tmp_path / "killed")
    shutil.copy(tmp_path / "backup.db", killed)
    link = tmp_path / "link.db"
    link.symlink_to(killed)
    with pytest.raises(StoreMismatch):
        SqliteStore(link, LADDER)
    restore(tmp_path / "backup.db", link, LADDER)
    assert links(link) == links(killed) == 301


def test_an_older_copy_of_the_same_database_is_refused_once_the_log_was_begun_anew(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path) as store:
        flusher = Flusher(store)
        fill(flusher, "old", 300)
    shutil.copy(path, tmp_path / "closed.db")
    monkeypatch.setattr(file, "WAL_BYTES", 20_000)
    with opened(path) as store:
        flusher = Flusher(store, 2)
        for n in range(5):
            fill(flusher, f"new{n}-", 100)
        killed = crash(path, tmp_path / "killed")
    shutil.copy(tmp_path / "closed.db", killed)
    assert_refused(killed)


def test_a_vacuumed_copy_opens_alone_and_is_refused_beside_the_log(path: Path, tmp_path: Path) -> None:
    with opened(path) as store:
        fill(Flusher(store), "a", 300)
        killed = crash(path, tmp_path / "killed")
        with closing(sqlite3.connect(path)) as db:
            db.execute("VACUUM INTO ?", (str(tmp_path / "vacuumed.db"),))
    shutil.copy(tmp_path / "vacuumed.db", killed)
    assert_refused(killed)
    assert links(tmp_path / "vacuumed.db") == 301


def test_a_log_without_its_database_makes_no_new_one(path: Path, tmp_path: Path) -> None:
    with opened(path) as store:
        fill(Flusher(store), "a", 3)
        killed = crash(path, tmp_path / "killed")
    killed.unlink()
    with pytest.raises(StoreMismatch, match="is not the write-ahead log of"):
        SqliteStore(killed, LADDER)
    assert not killed.exists()


def test_at_every_moment_a_database_is_healthy_with_its_own_log(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "WAL_BYTES", 60_000)  # many checkpoints; with a reader, some of them partial
    chance = random.Random(1)
    with opened(path) as store:
        flusher, held, reader = Flusher(store), in_flush(store, 2), None
        for n in range(60):
            if chance.random() < 0.3:
                if reader is None:
                    reader = sqlite3.connect(path, isolation_level=None)
                    reader.execute("BEGIN")
                    reader.execute("SELECT count(*) FROM meta").fetchone()
                else:
                    reader.close()
                    reader = None
            if chance.random() < 0.5:
                fill(flusher, f"{n % 7}-", chance.randrange(1, 60))
            else:
                store.save_own(held, 1, {f"k{n}": SavedRow(bytes(chance.randrange(9_000)), None)}, {})
            expected = len(store.walk(None, 100_000))
            assert links(crash(path, tmp_path / str(n))) == expected
        if reader is not None:
            reader.close()


def cut(data: bytes, length: int) -> bytes:
    return data[:length]


def zeroed(data: bytes, length: int) -> bytes:
    return data[:length] + bytes(len(data) - length)


def scrambled(data: bytes, length: int) -> bytes:
    return data[:length] + random.Random(length).randbytes(len(data) - length)


@pytest.mark.parametrize("damage", [cut, zeroed, scrambled])
def test_a_torn_log_is_replayed_as_far_as_it_goes(
    path: Path, tmp_path: Path, damage: Callable[[bytes, int], bytes]
) -> None:
    with opened(path) as store:
        flusher = Flusher(store)
        for n in range(4):
            fill(flusher, f"{n}-", 40)
        killed = crash(path, tmp_path / "killed")
    file_alone, log = killed.read_bytes(), wal(killed).read_bytes()
    lengths = {0, 1, 31, 32, 33, 60, *range(32, len(log), FRAME_BYTES)}
    lengths |= {length + 100 for length in range(32, len(log), FRAME_BYTES)} | {len(log) - 1}
    for length in sorted(lengths):
        killed.write_bytes(file_alone)
        wal(killed).write_bytes(damage(log, length))
        with opened(killed):
            pass
        assert whole(killed)


def test_a_log_that_an_older_program_did_not_sign_is_replayed(path: Path, tmp_path: Path) -> None:
    with opened(path):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA user_version = 0")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("INSERT INTO erased VALUES ('a', 1)")
        db.execute("CREATE TABLE more (n)")
        killed = crash(path, tmp_path / "killed")
    with opened(killed) as store:
        fill(Flusher(store), "a", 3)
        again = crash(killed, tmp_path / "again")
    assert links(again) == 4


def test_the_sums_are_those_of_a_log_in_the_other_byte_order(path: Path, tmp_path: Path) -> None:
    """A database may move between machines: its log says in which order its words are summed."""
    with opened(path) as store:
        fill(Flusher(store), "a", 3)
        killed = crash(path, tmp_path / "killed")
    log = bytearray(wal(killed).read_bytes())
    log[3] ^= 1
    sums = (0, 0)
    for start, end in [(0, 24), *((at, at + FRAME_BYTES) for at in range(32, len(log), FRAME_BYTES))]:
        for covered in ((start, end),) if start == 0 else ((start, start + 8), (start + 24, end)):
            for one, other in struct.iter_unpack(">2I", log[covered[0] : covered[1]]):
                first = (sums[0] + one + sums[1]) & 0xFFFF_FFFF
                sums = (first, (sums[1] + other + first) & 0xFFFF_FFFF)
        at = 24 if start == 0 else start + 16
        struct.pack_into(">2I", log, at, *sums)
    wal(killed).write_bytes(log)
    assert links(killed) == 4
