"""Several real processes on one SQLite file: writers, readers, one that is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickcurve.buckets.errors import OwnerFenced, StoreUnavailable
from storage.contract import SavedRow, StoredRow
from storage.sqlite import file
from storage.sqlite.store import SqliteStore
from tests.storage.processes import Start, opened, whole
from tests.storage.stores import LADDER, in_flush, saved


@pytest.mark.slow
def test_processes_that_start_at_once_open_one_database(path: Path, start: Start) -> None:
    others = [start("create", path) for _ in range(4)]
    for other in others:
        other.go()
    assert len({other.end() for other in others}) == 1
    with opened(path):
        pass  # of two that close at once, neither is the last, which would have tidied up
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_two_writers_both_get_their_rows_in(path: Path, start: Start) -> None:
    with opened(path):
        others = [start("write", path, owner, 150) for owner in (1, 2)]
        for other in others:
            other.go()
        for other in others:
            other.end()
    with opened(path) as store:
        links = store.walk(None, 100)
    assert len(links) == 50
    assert all(link.rows == (StoredRow(1, b"1:149"), StoredRow(2, b"2:149")) for _, link in links)
    assert whole(path)


@pytest.mark.slow
def test_a_reader_sees_whole_saves_while_another_process_writes(
    path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "WAL_BYTES", 200_000)  # many checkpoints and resets while the reader reads
    with opened(path) as store:
        held = in_flush(store)
        reader = start("read", path)
        reader.go()
        for n in range(400):
            data = str(n).encode() * 20
            store.save_own(held, 1, {f"key-{key}": SavedRow(data, None) for key in range(100)}, {})
        store.save_own(held, 1, saved("stop"), {})
        assert int(reader.end()) > 5
    assert whole(path)


def test_a_killed_writer_leaves_what_it_named_and_whole_saves(path: Path, start: Start) -> None:
    for _ in range(4):
        path.unlink(missing_ok=True)
        other = start("grow", path)
        other.go()
        named = [other.line() for _ in range(25)]
        named += other.kill().split()
        with opened(path) as store:
            values = {link.rows[0].data for _, link in store.walk(None, 100)}
        (value,) = values
        number = int(value[: len(value) // 300])
        assert number in (int(named[-1]), int(named[-1]) + 1)
        assert whole(path)


def test_a_read_only_store_reads_what_a_killed_writer_left_in_the_wal(path: Path, start: Start) -> None:
    other = start("grow", path)
    other.go()
    named = other.line()
    other.kill()
    store = SqliteStore(path, LADDER, read_only=True)
    (_, link), *_ = store.walk(None, 100)
    assert int(link.rows[0].data[: len(link.rows[0].data) // 300]) >= int(named)
    with pytest.raises(StoreUnavailable, match="readonly"):
        store.erase(["a"], 1)
    store.close()


def test_a_long_transaction_of_another_process_is_waited_for(path: Path, start: Start) -> None:
    with opened(path) as store, opened(path) as hasty:
        for each, wait_ms in (store, 30_000), (hasty, 0):
            each._connections.open().worker.execute(f"PRAGMA busy_timeout = {wait_ms}")
        held = in_flush(store)
        other = start("hold", path)
        with pytest.raises(StoreUnavailable, match="BUSY"):
            hasty.erase(["a"], 1)
        other.go()
        store.save_own(held, 1, saved("a"), {})
        other.end()


def test_the_wal_stays_short_while_two_processes_write(
    path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "WAL_BYTES", 300_000)
    wal = path.with_name(f"{path.name}-wal")
    with opened(path) as store:
        held = in_flush(store, 7)
        other = start("write", path, 1, 200)
        other.go()
        longest = 0
        for n in range(200):
            store.save_own(held, 1, {f"key-{key}": SavedRow(str(n).encode() * 50, None) for key in range(100)}, {})
            longest = max(longest, wal.stat().st_size)
        other.end()
        assert longest < 8_000_000  # of some 50 MB that went through it; one save is 200 kB
    assert not wal.exists()
    assert whole(path)


def test_an_owner_that_another_process_took_over_is_fenced_in_mid_flush(path: Path, start: Start) -> None:
    with opened(path) as store:
        held = in_flush(store)
        store.save_own(held, 1, saved("a", data=b"mine"), {})
        other = start("take_over", path)
        other.go()
        other.end()
        with pytest.raises(OwnerFenced):
            store.save_own(held, 1, saved("a", data=b"late"), {})
        assert not store.begin(held, 1, 2, 0)
        assert store.walk(None, 1)[0][1].rows == (StoredRow(1, b"by the other"),)


def test_a_file_that_may_only_be_read_is_refused_at_start(path: Path, start: Start) -> None:
    with opened(path) as store:
        in_flush(store)
    for folder in (path.parent, *path.parent.parents[:2]):
        folder.chmod(0o755)
    path.chmod(0o444)
    other = start("without_rights", path)
    other.go()
    assert other.end().startswith("StoreUnavailable")
