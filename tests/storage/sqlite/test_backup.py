"""Backups of a database that is being written, and what the copy knows of its owners."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clickcurve.buckets.errors import SettingInvalid, StoreMismatch, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import ALL_LINKS
from server.app.note_spaces import NOT_IN_BACKUPS
from storage.contract import CLOSED, COPIED, OPEN, RETIRED, Held, OwnerRecord, SavedRow, Source
from storage.sqlite.backup import Included, backup
from storage.sqlite.store import SqliteStore
from storage.tools.verify import verify
from tests.storage.flushes import NOON, Flusher, hits
from tests.storage.processes import Start, opened, whole
from tests.storage.stores import LADDER


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


def uuid_of(path: Path) -> str:
    db = sqlite3.connect(path)
    (found,) = db.execute("SELECT value FROM meta WHERE name = 'uuid'").fetchone()
    db.close()
    return str(found)


def test_a_copy_has_all_rows_under_closed_owners_with_new_numbers(path: Path, target: Path) -> None:
    with opened(path) as store:
        first, second = Flusher(store, 1), Flusher(store, 2)
        first.flush({"a": hits((0, 5)), "b": hits((0, 1))})
        first.flush({"a": hits((0, 5))})
        second.flush({"a": hits((0, 7), bots=1)})
        store.close_owner(second.held)
        store.erase(["b"], 5)
        before = store.walk(None, 10)
        assert backup(path, target) == [Included(1, 2, None), Included(2, 1, None)]
        assert store.walk(None, 10) == before
        assert [record.state for record in store.owners()] == [OPEN, CLOSED]
    with opened(target) as copy:
        assert [(r.owner, r.epoch, r.holder, r.state, r.begun) for r in copy.owners()] == [
            (1, 1, "h1", COPIED, 2),
            (2, 1, "h2", COPIED, 1),
            (3, 1, "copy", CLOSED, 2),
            (4, 1, "copy", CLOSED, 1),
        ]
        after = copy.walk(None, 10)
        assert [(key, link.erased_at, [(r.owner - 2, r.data) for r in link.rows]) for key, link in after] == [
            (key, link.erased_at, [(r.owner, r.data) for r in link.rows]) for key, link in before
        ]
        report = verify(copy, CLICKS)
        assert (report.people, report.bots, report.erased, report.broken) == (17, 1, 1, [])
    assert uuid_of(path) != uuid_of(target)
    assert sorted(file.name for file in path.parent.iterdir()) == ["clickcurve.db", "copy.db"]
    assert whole(target)


def test_a_new_journal_goes_on_with_the_copys_rows_under_a_number_the_original_never_had(
    path: Path, target: Path
) -> None:
    with opened(path) as store:
        Flusher(store).flush({"a": hits((0, 5))})
        backup(path, target)
    with opened(target) as copy:
        (closed,) = [record for record in copy.owners() if record.state == CLOSED]
        assert closed.owner == 2
        assert copy.claim(closed, OwnerRecord(2, 2, "new", "new journal", "/new", OPEN, 0, 0))
        held = Held(2, 2, "new")
        flush = (2 << 20) + 1
        assert copy.begin(held, 0, flush, 0)
        assert copy.load_own(2, ["a"]).keys() == {"a"}


def test_the_originals_journal_finds_its_number_copied_and_cannot_go_on_under_it(path: Path, target: Path) -> None:
    with opened(path) as store:
        flusher = Flusher(store)
        flusher.flush({"a": hits((0, 5))})
        backup(path, target)
    with opened(target) as copy:
        stored = copy.owner(1)
        assert stored is not None and (stored.epoch, stored.holder, stored.begun) == (1, "h1", 1)
        assert not copy.claim(stored, OwnerRecord(1, 2, "h1-again", "journal-1", "/data/1", OPEN, 1, 0))
        assert not copy.begin(flusher.held, 1, 2, 0)


def test_a_flush_that_had_written_nothing_is_not_in_the_copy_nor_are_its_ids(path: Path, target: Path) -> None:
    with opened(path) as store:
        flusher = Flusher(store)
        flusher.flush({"a": hits((0, 5))})
        store.claim_ids(flusher.held, 1, {"old": 100}, 50)
        assert store.begin(flusher.held, 1, 2, NOON)
        store.claim_ids(flusher.held, 2, {"new": 100}, 50)
        assert backup(path, target) == [Included(1, 1, None)]
        assert asyncio.run(store.claimed(["old", "new"], 0)) == {"old", "new"}
    with opened(target) as copy:
        assert [record.begun for record in copy.owners()] == [1, 1]
        assert asyncio.run(copy.claimed(["old", "new"], 0)) == {"old"}


@pytest.mark.parametrize("damaged", [lambda row: b"?", lambda row: row[:-1]], ids=["all of it", "its end"])
def test_a_copy_says_what_it_has_although_the_row_of_all_links_was_damaged_flushes_ago(
    path: Path, target: Path, damaged: Callable[[bytes], bytes]
) -> None:
    """Flushes go on without that row. A journal is held against what the copy says, and so are repeated ids."""
    with opened(path) as store:
        flusher = Flusher(store)
        flusher.flush({"a": hits((0, 5))})
        row = store.load_own(1, [ALL_LINKS])[ALL_LINKS].data
        assert row is not None
        for key in "bc":
            flusher.begin({key: hits((0, 1))})
            store.claim_ids(flusher.held, flusher.number, {f"id of {key}": 100}, 50)
        store.save_own(flusher.held, 3, {ALL_LINKS: SavedRow(damaged(row), None)}, {})
        (included,) = backup(path, target, partial=True)
        assert included.half == 3
    with opened(target) as copy:
        assert [record.begun for record in copy.owners()] == [3, 3]
        assert asyncio.run(copy.claimed(["id of b", "id of c"], 0)) == {"id of b", "id of c"}


def test_an_import_goes_on_in_the_copy(path: Path, target: Path) -> None:
    with opened(path) as store:
        Flusher(store).flush({"a": hits((0, 5))}, {"log": Source(1, 100, "tail")})
        backup(path, target)
    with opened(target) as copy:
        found = copy.source("log")
        assert found == Source(2, 100, "tail", 1)
        keeper = copy.owner(2)
        assert keeper is not None and keeper.state == CLOSED
        copy.create_owner(OwnerRecord(9, 1, "new", "", "", OPEN, 0, 0))
        assert copy.claim_source("log", Held(9, 1, "new"), found)


def test_a_retired_owner_stays_retired_in_the_copy_and_is_not_waited_for(path: Path, target: Path) -> None:
    with opened(path) as store:
        flusher = Flusher(store)
        flusher.flush({"a": hits((0, 5))})
        flusher.begin({"a": hits((0, 1))})
        stored = store.owner(1)
        assert stored is not None and store.claim(stored, replace(stored, state=RETIRED))
        assert backup(path, target) == [Included(1, 1, 2, retired=True)]
    with opened(target) as copy:
        assert [(record.owner, record.state, record.begun) for record in copy.owners()] == [
            (1, COPIED, 2),
            (2, RETIRED, 2),
        ]
        report = verify(copy, CLICKS)
        assert (report.broken, report.under_way) == ([], [2])


def test_a_flush_under_way_is_waited_for(path: Path, target: Path) -> None:
    with opened(path) as store:
        flusher = Flusher(store)
        flusher.flush({"a": hits((0, 5))})
        flusher.begin({"a": hits((0, 5)), "b": hits((0, 1))})
        looks = 0

        def again(halves: list[Included], written: bool) -> bool:
            nonlocal looks
            looks += 1
            if looks == 3:
                flusher.finish({"a": hits((0, 5)), "b": hits((0, 1))})
            return True

        assert backup(path, target, look_again=again) == [Included(1, 2, None)]
        assert looks == 3
    with opened(target) as copy:
        report = verify(copy, CLICKS)
        assert (report.people, report.broken, report.under_way) == (11, [], [])


def test_a_flush_that_does_not_end_is_refused_unless_a_part_of_it_will_do(path: Path, target: Path) -> None:
    with opened(path) as store:
        flusher = Flusher(store)
        flusher.flush({"a": hits((0, 5))})
        flusher.begin({"b": hits((0, 1))})
        with pytest.raises(StoreUnavailable, match="owner 1 in flush 2"):
            backup(path, target)
        assert not target.exists()
        assert backup(path, target, partial=True) == [Included(1, 1, 2)]
    with opened(target) as copy:
        assert [(record.state, record.begun) for record in copy.owners()] == [(COPIED, 2), (CLOSED, 2)]
        assert verify(copy, CLICKS).under_way == [2]


def test_a_copy_can_be_copied(path: Path, target: Path, tmp_path: Path) -> None:
    with opened(path) as store:
        Flusher(store).flush({"a": hits((0, 5))})
        backup(path, target)
    second = tmp_path / "second.db"
    assert backup(target, second) == [Included(2, 1, None)]
    with opened(second) as copy:
        assert [(record.owner, record.state) for record in copy.owners()] == [(1, COPIED), (2, COPIED), (4, CLOSED)]
        assert [row.owner for row in asyncio.run(copy.rows("a")).rows] == [4]


def test_a_backup_writes_over_nothing(path: Path, target: Path) -> None:
    SqliteStore(path, LADDER).close()
    target.write_text("precious")
    with pytest.raises(SettingInvalid, match="exists"):
        backup(path, target)
    assert target.read_text() == "precious"


REFUSED: dict[str, tuple[Callable[[Path], object], Callable[[Path], Path], type[Exception]]] = {
    "no database": (lambda path: None, lambda folder: folder / "copy.db", StoreUnavailable),
    "no folder": (lambda path: SqliteStore(path, LADDER).close(), lambda f: f / "no" / "copy.db", StoreUnavailable),
    "other file": (lambda path: path.write_text("?" * 999), lambda folder: folder / "copy.db", StoreMismatch),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_backup_that_cannot_be_made_leaves_nothing(path: Path, name: str) -> None:
    prepare, target, error = REFUSED[name]
    prepare(path)
    files = list(path.parent.iterdir())
    with pytest.raises(error):
        backup(path, target(path.parent))
    assert list(path.parent.iterdir()) == files


def test_a_full_disk_leaves_no_part_of_a_backup(path: Path, target: Path) -> None:
    with opened(path) as store:
        Flusher(store).flush({f"key-{n}": hits((0, 5)) for n in range(3_000)})

        def full(pages: int, of: int) -> None:
            raise OSError(28, "No space left on device")

        with pytest.raises(StoreUnavailable, match="No space left"):
            backup(path, target, on_progress=full)
        assert all(file.name.startswith("clickcurve.db") for file in path.parent.iterdir())
        steps: list[tuple[int, int]] = []
        backup(path, target, on_progress=lambda pages, of: steps.append((pages, of)))
        assert steps[-1][0] == steps[-1][1] > 0


def test_a_server_writes_on_while_its_database_is_copied(path: Path, target: Path, start: Start) -> None:
    with opened(path) as store:
        writer = start("flush", path)
        writer.go()
        for n in range(5):
            writer.line()
            copied = target.with_name(f"copy-{n}.db")
            backup(path, copied, look_again=lambda halves, written: writer.line() != "")
            with opened(copied) as copy:
                report = verify(copy, CLICKS)
                assert (report.broken, report.under_way) == ([], [])
                assert report.people > 0
        assert [record.owner for record in store.owners()] == [1]
        writer.kill()


def test_a_backup_has_breakdowns_and_no_salt(path: Path, target: Path) -> None:
    with opened(path) as store:
        Flusher(store, 1, divided=True).flush({"a": hits((0, 5))})
        store.note("since:ref", "7")
        store.note("salt:0", secret := "marker-of-a-salt" * 4)
        backup(path, target, without_notes=NOT_IN_BACKUPS)
    with opened(target) as copy:
        assert copy.notes() == {"since:ref": "7"}
        assert verify(copy, CLICKS).rows == 4
    assert secret.encode() not in target.read_bytes()


def test_a_dropped_salt_leaves_no_bytes(path: Path) -> None:
    with opened(path) as store:
        store.note("salt:0", secret := "marker-of-a-salt" * 4)
        store.drop_notes(["salt:0"])
    assert whole(path)
    assert secret.encode() not in b"".join(file.read_bytes() for file in path.parent.iterdir())
