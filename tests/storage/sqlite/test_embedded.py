"""What only the stores inside the program can: show one moment, and forget ids at once."""

from __future__ import annotations

import asyncio
import re
from contextlib import closing
from pathlib import Path

import pytest

import storage.sqlite
from clickcurve.buckets.ladder import CLICKS
from storage.sqlite.store import SqliteStore
from tests.storage.flushes import Flusher, hits
from tests.storage.stores import MemoryFactory, SqliteFactory, in_flush, record, saved


@pytest.mark.parametrize("factory", [MemoryFactory, SqliteFactory])
def test_a_view_stays_as_it_was(factory: type[MemoryFactory | SqliteFactory], tmp_path: Path) -> None:
    opened = factory(tmp_path)
    store = opened()
    held = in_flush(store)
    store.save_own(held, 1, saved("a", "b", data=b"before"), {})
    with store.view() as view:
        store.save_own(held, 1, saved("b", "c", data=b"after"), {})
        store.begin(held, 1, 2, 0)
        store.erase(["a"], 5)
        assert [(key, link.erased_at, link.rows[0].data) for key, link in view.walk(None, 10)] == [
            ("a", 0, b"before"),
            ("b", 0, b"before"),
        ]
        assert view.owners() == [record(begun=1)]
    with store.view() as view:
        assert len(view.walk(None, 10)) == 3
    opened.close()


@pytest.mark.parametrize("factory", [MemoryFactory, SqliteFactory])
def test_ids_are_gone_once_they_are_forgotten(factory: type[MemoryFactory | SqliteFactory], tmp_path: Path) -> None:
    opened = factory(tmp_path)
    store = opened()
    first, second = in_flush(store, 1), in_flush(store, 2)
    ids = {f"id-{n}": n for n in range(12_345)}
    assert store.claim_ids(first, 1, ids, 10) == set()
    store.forget_ids(12_340)
    assert asyncio.run(store.claimed(list(ids), 0)) == {f"id-{n}" for n in range(12_340, 12_345)}
    store.forget_ids(20_000)
    assert asyncio.run(store.claimed(list(ids), 0)) == set()
    assert store.claim_ids(second, 1, {"id-5": 6}, 10) == set()
    opened.close()


@pytest.mark.parametrize("file", sorted(Path(storage.sqlite.__path__[0]).glob("*.py")), ids=lambda file: file.name)
def test_statements_have_no_numbered_placeholders(file: Path) -> None:
    """Python 3.12 before 3.12.4 takes `?1` with a sequence for a named parameter, and warns of it at each statement."""
    assert not re.search(r"[=<>(+ ]\?[0-9]", file.read_text())


async def test_a_reader_after_a_flush_writes_nothing_to_the_index_of_the_wal(tmp_path: Path) -> None:
    """A frozen file system lets nobody write there: each question would stand still, and the loop with it."""
    with closing(SqliteStore(tmp_path / "clickcurve.db", CLICKS)) as store:
        flusher = Flusher(store)
        for number in range(6):
            flusher.flush({f"k{number}": hits((0, 1))})
            index = (tmp_path / "clickcurve.db-shm").read_bytes()
            assert (await store.rows("k0")).rows
            with store.view() as view:
                assert view.owners()
            assert (tmp_path / "clickcurve.db-shm").read_bytes() == index, f"after flush {number}"
