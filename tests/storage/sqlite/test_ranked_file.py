"""Candidates in a database file: of one that was made without them, in `verify`, repaired, and in a backup."""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.upper_bounds import upper_bounds_in
from query.lists.key_kind import LINK
from query.lists.listing import Listing
from query.parameters import Parameters
from server.process.jobs import rank_rows
from storage.contract import Ranking
from storage.sqlite import rankings
from storage.sqlite.backup import backup
from storage.sqlite.store import SqliteStore
from storage.tools.verify import verify
from tests.storage.flushes import NOON, Flusher, hits

LIFE = Ranking(None, people=True, bots=False)
KEYS = [f"k{n}" for n in range(20)]


def filled(path: Path) -> None:
    """A database of two owners."""
    store = SqliteStore(path, CLICKS)
    for owner in (1, 2):
        Flusher(store, owner).flush({key: hits((0, n + 1), bots=n % 3) for n, key in enumerate(KEYS)})
    store.close()


def make_former(path: Path) -> None:
    """Takes out of a database what the former schema did not have."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE leaders")
        db.execute("DROP TABLE bars")
        db.execute("UPDATE meta SET value = '1' WHERE name = 'schema'")
        db.commit()


async def asked(store: SqliteStore) -> list[tuple[str, int]]:
    links = Listing(LINK, store, lambda key: [], tuple, lambda: 0)
    return (await links.rankings.best(Parameters(limit=3), NOON)).links


def best(store: SqliteStore) -> list[tuple[str, int]]:
    return asyncio.run(asked(store))


BEST = [("k19", 40), ("k18", 38), ("k17", 36)]


def is_ranked(store: SqliteStore) -> bool:
    with store.ranked(LIFE) as links:
        return links is not None


def test_a_database_of_the_former_schema_is_read_as_it_is_and_ranked_after_a_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rankings, "ROWS_PER_STEP", 7)
    filled(path)
    make_former(path)
    before = path.read_bytes()
    store = SqliteStore(path, None, read_only=True)
    assert best(store) == BEST
    assert not is_ranked(store)
    assert verify(store, CLICKS).broken == []
    store.close()
    assert path.read_bytes() == before
    store, other = SqliteStore(path, None), SqliteStore(path, None)
    assert best(store) == BEST
    assert not is_ranked(store)
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        assert await asked(store) == BEST
        other.rank_some(lambda data: upper_bounds_in(data, CLICKS))  # by another worker

    asyncio.run(rank_rows(store, pause))
    assert len(pauses) > 1
    for each in (store, other):
        assert is_ranked(each)
        assert best(each) == BEST
        assert verify(each, CLICKS).broken == []
        each.close()


def rank_all(store: SqliteStore) -> None:
    store.rank_anew()
    assert not is_ranked(store)
    while store.rank_some(lambda data: upper_bounds_in(data, CLICKS)):
        pass


def test_a_leader_that_is_not_what_its_row_says_is_reported_and_healed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rankings, "ROWS_PER_STEP", 7)
    filled(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE leaders SET people_8d = 1 WHERE key = 'k5' AND owner = 2")
        db.execute("DELETE FROM leaders WHERE key = 'k6' AND owner = 1")
        db.commit()
    store = SqliteStore(path, CLICKS)
    report = verify(store, CLICKS)
    assert report.broken_rows == 2
    assert report.broken[0].startswith("link 'k5', owner 2: it is ranked by (1767268800, 6, 6, 1, 6,")
    assert report.broken[1].startswith("link 'k6', owner 1: it is not ranked, but its buckets say (1767268800, 7, 7,")
    assert all(sentence.endswith("; see `clickcurve repair --ranking`") for sentence in report.broken)
    rank_all(store)
    assert verify(store, CLICKS).broken == []
    assert best(store) == BEST
    store.close()


@pytest.mark.parametrize("damaged", [b"?", zlib.compress(b'{"1": [[1, "a"]]}'), zlib.compress(b"[1]")])
def test_bars_that_cannot_be_read_are_reported_walked_around_and_made_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bytes
) -> None:
    monkeypatch.setattr(rankings, "KEPT", 2)
    monkeypatch.setattr(rankings, "ROOM", 1)
    filled(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE bars SET bars = ? WHERE owner = 1", (damaged,))
        db.commit()
    store = SqliteStore(path, CLICKS)
    assert best(store) == BEST
    (sentence,) = verify(store, CLICKS).broken
    assert "the cutoffs of owner 1 cannot be read" in sentence
    rank_all(store)
    assert verify(store, CLICKS).broken == []
    assert best(store) == BEST
    store.close()


def test_a_flush_over_bars_that_cannot_be_read_has_all_rows_looked_at_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rankings, "KEPT", 2)
    monkeypatch.setattr(rankings, "ROOM", 1)
    store = SqliteStore(path, CLICKS)
    flusher = Flusher(store)
    flusher.flush({key: hits((0, n + 1)) for n, key in enumerate(KEYS)})
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE bars SET bars = x'00'")
        db.commit()
    flusher.flush({key: hits((0, 1)) for key in KEYS[:9]})
    assert not is_ranked(store)
    while store.rank_some(lambda data: upper_bounds_in(data, CLICKS)):
        pass
    assert verify(store, CLICKS).broken == []
    assert best(store) == [("k19", 20), ("k18", 19), ("k17", 18)]
    store.close()


def test_a_backup_is_ranked_as_its_original_was(path: Path, tmp_path: Path) -> None:
    filled(path)
    former = tmp_path / "former.db"
    filled(former)
    make_former(former)
    for original in (path, former):
        copy = original.with_suffix(".copy")
        backup(original, copy)
        store = SqliteStore(copy, None)
        assert is_ranked(store) == (original == path)
        assert best(store) == BEST
        assert verify(store, CLICKS).broken == []
        store.close()
