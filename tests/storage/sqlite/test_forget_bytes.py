"""Bytes that were overwritten leave the file and its WAL, also those of a store that kept them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from storage.contract import SavedRow
from storage.sqlite.store import SqliteStore
from storage.sqlite.wal import wal_path
from tests.storage.stores import LADDER, in_flush

GONE = b"ann.example" * 40


def places(path: Path) -> list[str]:
    return [each.name for each in (path, wal_path(path)) if each.exists() and GONE in each.read_bytes()]


def test_nothing_that_was_overwritten_is_left(tmp_path: Path) -> None:
    path = tmp_path / "clickcurve.db"
    store = SqliteStore(path, LADDER)
    store._connections.open().worker.execute("PRAGMA secure_delete = 0")  # as former versions wrote
    held = in_flush(store)
    for n in range(60):
        store.save_own(held, 1, {f"{n}": SavedRow(GONE * 30, None)}, {})
    store._connections.open()._checkpoint()
    for n in range(60):
        store.save_own(held, 1, {f"{n}": SavedRow(b"short", None)}, {})
    assert places(path) == ["clickcurve.db", "clickcurve.db-wal"], "the search looks where rows are"
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM rows").fetchone()
        with pytest.raises(StoreUnavailable, match="reader"):
            store.forget_bytes()
    store.forget_bytes()
    assert places(path) == []
    store.save_own(held, 1, {"0": SavedRow(b"later", None)}, {})
    store.close()
    again = SqliteStore(path, LADDER)
    assert [again.load_own(1, [key])[key].data for key in ("0", "59")] == [b"later", b"short"]
    again.close()
