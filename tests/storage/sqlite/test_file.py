"""What is opened, made, refused and left alone."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from clickcurve.buckets.errors import ClickcurveError, SettingInvalid, StoreMismatch, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, Ladder
from storage.contract import Held, SavedRow
from storage.from_uri import open_store
from storage.memory_store import MemoryStore
from storage.sqlite import file
from storage.sqlite.store import SqliteStore
from tests.storage.stores import LADDER, in_flush, saved


def make(path: Path, ladder: Ladder = LADDER) -> None:
    SqliteStore(path, ladder).close()


def change(path: Path, statement: str) -> None:
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()


def other_program(path: Path) -> None:
    change(path, "CREATE TABLE notes (text)")


def another_ladder(path: Path) -> None:
    make(path, Ladder.parse("60:2,3600:31,month"))


def newer_ladder(path: Path) -> None:
    make(path)
    change(path, "UPDATE meta SET value = '60:1,fortnight' WHERE name = 'ladder'")


def later_schema(path: Path) -> None:
    make(path)
    change(path, "UPDATE meta SET value = '5' WHERE name = 'schema'")


def half_of_it(path: Path) -> None:
    make(path)
    change(path, "DELETE FROM meta")


MISFITS: dict[str, tuple[Callable[[Path], object], str]] = {
    "not a database": (lambda path: path.write_text("hello " * 1000), "is not an SQLite database"),
    "an empty file": (lambda path: path.touch(), "not one that Clickcurve made"),
    "of another program": (other_program, "not one that Clickcurve made"),
    "another ladder": (another_ladder, f"made with the ladder 60:2,3600:31,month, but {LADDER} is configured"),
    "a ladder of a newer program": (newer_ladder, "with a ladder that this program does not know: 'fortnight' is not"),
    "a later schema": (later_schema, "has schema 5, this program uses schema 4"),
    "half of it": (half_of_it, "has schema of no version"),
}


FORMER = Ladder.parse("60:1,300:1,3600:31,week:366,month")  # the default of 0.1.0


@pytest.mark.parametrize("asked", [None, FORMER])
def test_a_database_keeps_the_ladder_it_was_made_with(path: Path, asked: Ladder | None) -> None:
    make(path, FORMER)
    with closing(SqliteStore(path, asked)) as store:
        assert store.ladder() == FORMER


def test_a_new_database_gets_the_default_ladder_unless_asked_for_another(tmp_path: Path) -> None:
    for name, asked in (("a.db", None), ("b.db", CLICKS)):
        with closing(SqliteStore(tmp_path / name, asked)) as store:
            assert store.ladder() == CLICKS
    with closing(open_store(f"sqlite:///{tmp_path}/c.db", Ladder.parse("days"))) as store:
        assert store.ladder() == Ladder.parse("days") != CLICKS


@pytest.mark.parametrize("name", MISFITS)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_does_not_fit_is_refused_and_left_as_it_is(path: Path, name: str, read_only: bool) -> None:
    prepare, sentence = MISFITS[name]
    prepare(path)
    before = path.read_bytes()
    with pytest.raises(StoreMismatch, match=re.escape(sentence)):
        SqliteStore(path, LADDER, read_only=read_only)
    assert path.read_bytes() == before
    make_sure_only(path)


def make_sure_only(path: Path) -> None:
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="nowhere"):
        SqliteStore(tmp_path / "nowhere" / "clickcurve.db", LADDER)


def test_a_folder_in_the_files_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClickcurveError, match=re.escape(str(tmp_path))):
        SqliteStore(tmp_path, LADDER)


def test_reading_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="there is no database"):
        SqliteStore(tmp_path / "clickcurve.db", LADDER, read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_closed_store_leaves_one_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "clickcurve.db", LADDER)
    store.save_own(in_flush(store), 1, saved("a"), {})
    store.close()
    make_sure_only(tmp_path / "clickcurve.db")
    with pytest.raises(StoreUnavailable):
        store.owners()


def test_a_file_that_was_replaced_is_not_written_and_its_wal_not_deleted(tmp_path: Path) -> None:
    path, new = tmp_path / "clickcurve.db", tmp_path / "new.db"
    store = SqliteStore(path, LADDER)
    held = in_flush(store)
    make(new)
    for name in ("clickcurve.db-wal", "clickcurve.db-shm"):
        (tmp_path / name).unlink()
    new.rename(path)
    successor = SqliteStore(path, LADDER)
    their = in_flush(successor)
    successor.save_own(their, 1, saved("a", data=b"new"), {})
    with pytest.raises(StoreUnavailable, match="moved or replaced"):
        store.save_own(held, 1, saved("a", data=b"old"), {})
    store.close()
    assert (tmp_path / "clickcurve.db-wal").stat().st_size > 0
    assert successor.walk(None, 1)[0][1].rows[0].data == b"new"
    successor.close()


def test_a_database_that_another_process_just_made_is_not_made_again(path: Path) -> None:
    store = SqliteStore(path, LADDER)
    store.save_own(in_flush(store), 1, saved("a"), {})
    file._make(path, LADDER)
    assert store.load_own(1, ["a"]).keys() == {"a"}
    store.close()
    make_sure_only(path)


def test_no_connection_checkpoints_by_itself(path: Path) -> None:
    store = SqliteStore(path, LADDER)
    held = in_flush(store)
    before = path.stat().st_size
    for n in range(20):
        store.save_own(held, 1, {f"key-{n}-{key}": SavedRow(bytes(900), None) for key in range(300)}, {})
        for _ in store.walk(None, 10):
            pass
    assert path.stat().st_size == before
    store.close()
    assert path.stat().st_size > before


URIS = {
    "memory://": None,
    "sqlite:///{folder}/a b?c#d%20.db": "a b?c#d%20.db",
    "sqlite:///{folder}/clickcurve.db": "clickcurve.db",
}


@pytest.mark.parametrize("uri", URIS)
def test_a_uri_chooses_the_store_and_its_place(tmp_path: Path, uri: str) -> None:
    store = open_store(uri.format(folder=tmp_path), LADDER)
    store.save_own(in_flush(store), 1, saved("a"), {})
    store.close()
    name = URIS[uri]
    assert isinstance(store, MemoryStore) == (name is None)
    assert [file.name for file in tmp_path.iterdir()] == ([] if name is None else [name])


def test_three_slashes_are_a_path_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///clickcurve.db", LADDER).close()
    make_sure_only(tmp_path / "clickcurve.db")


@pytest.mark.parametrize(
    "uri", ["", "sqlite", "sqlite:x.db", "sqlite://x.db", "sqlite:///", "sqlite:///a/", "memory://x", "mysql:///x"]
)
def test_a_uri_that_names_no_store_is_refused(uri: str) -> None:
    with pytest.raises(SettingInvalid):
        open_store(uri, LADDER)


def test_bytes_of_a_row_that_is_replaced_leave_the_file(tmp_path: Path) -> None:
    path = tmp_path / "clickcurve.db"
    bytes_of = {f"k{n:03}": Random(n).randbytes(600 + 97 * n) for n in range(60)}  # some on pages of their own
    store = SqliteStore(path, LADDER)
    store.save_own(in_flush(store), 1, {key: SavedRow(data, None) for key, data in bytes_of.items()}, {})
    store.close()
    assert all(data[:64] in path.read_bytes() and data[-64:] in path.read_bytes() for data in bytes_of.values())
    store = SqliteStore(path, LADDER)
    store.save_own(Held(1, 1, "h1"), 1, saved(*bytes_of, data=b"short"), {})
    store.close()
    left = path.read_bytes()
    pieces = [data[at : at + 16] for data in bytes_of.values() for at in range(0, len(data) - 16, 16)]
    assert [piece for piece in pieces if piece in left] == []
