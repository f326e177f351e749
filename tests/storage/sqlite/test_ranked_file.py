"""Candidates in a database file: of one that was made without them, in `verify`, repaired, and in a backup."""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.measures import Measure
from clickcurve.buckets.upper_bounds import upper_bounds_in
from clickcurve.keys import ALL_LINKS
from query.lists.listed_rows import LINK
from query.lists.listing import Listing
from query.parameters import Parameters
from server.process.jobs import rank_rows
from storage.contract import SavedRow
from storage.rankings import Ranking
from storage.sqlite import candidates, rankings
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
        for table in ("leaders", "bars", "rankings"):
            db.execute(f"DROP TABLE {table}")
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
    monkeypatch.setattr(candidates, "KEPT", 2)
    monkeypatch.setattr(candidates, "ROOM", 1)
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
    monkeypatch.setattr(candidates, "KEPT", 2)
    monkeypatch.setattr(candidates, "ROOM", 1)
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


# --- prefixes ---------------------------------------------------------------------------------------------------------
def prefixes_of(store: SqliteStore) -> list[str]:
    with store.view() as view:
        return sorted(view.ranked_prefixes())


def rank_prefixes(store: SqliteStore, *prefixes: str) -> None:
    store.rank_prefixes(prefixes)
    while store.rank_some(lambda data: upper_bounds_in(data, CLICKS)):
        pass


async def best_within(store: SqliteStore, prefix: str, limit: int) -> list[tuple[str, int]]:
    """Ranks by candidates alone."""
    links = Listing(LINK, store, lambda key: [], tuple, lambda: 0)
    links.walk = None  # type: ignore[method-assign, assignment]  # nothing is walked
    return (await links.best(Parameters(limit=limit, prefix=prefix), NOON)).links


def test_a_prefix_of_many_links_has_candidates_of_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the links of others are all greater."""
    monkeypatch.setattr(candidates, "KEPT", 3)
    monkeypatch.setattr(candidates, "ROOM", 1)
    monkeypatch.setattr(rankings, "MANY_LINKS", 5)
    monkeypatch.setattr(rankings, "ROWS_PER_STEP", 2)
    store = SqliteStore(path, CLICKS)
    flusher = Flusher(store)
    counts = {f"{prefix}k{n}": n * factor for prefix, factor in (("a/", 1), ("b/", 9), ("c/", 99)) for n in range(1, 9)}
    flusher.flush({key: hits((0, count)) for key, count in {**counts, "few/k": 1}.items()})
    rank_prefixes(store, "a/", "b/", "few/")
    assert prefixes_of(store) == ["", "a/", "b/"]
    flusher.flush({"a/k2": hits((0, 7)), "b/k1": hits((0, 1))})
    assert asyncio.run(best_within(store, "a/", 3)) == [("a/k2", 9), ("a/k8", 8), ("a/k7", 7)]
    assert asyncio.run(best_within(store, "b/k", 2)) == [("b/k8", 72), ("b/k7", 63)]
    assert asyncio.run(best_within(store, "", 2)) == [("c/k8", 792), ("c/k7", 693)]
    assert verify(store, CLICKS).broken == []
    rank_prefixes(store, "b/")
    assert prefixes_of(store) == ["", "b/"]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(DISTINCT ranking) FROM leaders").fetchone() == (2,)
        assert db.execute("SELECT count(DISTINCT ranking) FROM bars").fetchone() == (2,)
    store.close()


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_flush_that_does_not_know_a_prefix_has_it_ranked_again(
    path: Path, is_made_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It judged its rows by the cutoffs that there were when it began."""
    monkeypatch.setattr(rankings, "MANY_LINKS", 1)
    store, other = SqliteStore(path, CLICKS), SqliteStore(path, CLICKS)
    flusher = Flusher(store)
    flusher.flush({"a/1": hits((0, 5)), "b/1": hits((0, 5))})
    if is_made_again:
        rank_prefixes(other, "a/")
    assert store.cutoffs(1) is not None  # so a flush begins
    rank_prefixes(other)
    rank_prefixes(other, "a/")
    row = store.load_own(1, ["a/1"])["a/1"].data
    assert row is not None
    store.save_own(flusher.held, flusher.number, {"b/1": SavedRow(row, None)}, {})
    assert prefixes_of(store) == ["", "a/"]
    store.save_own(flusher.held, flusher.number, {"a/1": SavedRow(row, None)}, {})
    assert prefixes_of(other) == [""]
    rank_prefixes(other, "a/")
    assert prefixes_of(other) == ["", "a/"]
    assert store.cutoffs(1) is not None  # and the next one knows it
    store.save_own(flusher.held, flusher.number, {"a/1": SavedRow(row, None)}, {})
    assert prefixes_of(other) == ["", "a/"]
    for each in (store, other):
        each.close()


def test_a_candidate_of_a_prefix_that_is_not_what_its_row_says_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rankings, "MANY_LINKS", 1)
    filled(path)
    store = SqliteStore(path, CLICKS)
    rank_prefixes(store, "k1")
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE leaders SET people_8d = 1 WHERE key = 'k15' AND owner = 2 AND ranking > 1")
        db.execute("DELETE FROM leaders WHERE key = 'k16' AND owner = 1 AND ranking > 1")
        db.commit()
    first, second = verify(store, CLICKS).broken
    assert first.startswith("link 'k15', owner 2: it is ranked within the prefix 'k1' by (1767268800, 16,")
    assert second.startswith("link 'k16', owner 1: it is not ranked within the prefix 'k1', but its buckets say")
    rank_all(store)
    assert verify(store, CLICKS).broken == []
    store.close()


def test_a_backup_is_ranked_as_its_original_was(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    former = tmp_path / "former.db"
    filled(former)
    make_former(former)
    store = SqliteStore(path, None)
    monkeypatch.setattr(rankings, "MANY_LINKS", 1)
    rank_prefixes(store, "k1")
    store.close()
    for original in (path, former):
        copy = original.with_suffix(".copy")
        backup(original, copy)
        store = SqliteStore(copy, None)
        assert prefixes_of(store) == (["", "k1"] if original == path else [])
        assert best(store) == BEST
        assert verify(store, CLICKS).broken == []
        store.close()


def test_a_candidate_of_an_event_that_is_not_what_its_row_says_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rankings, "MANY_LINKS", 1)
    store, sales = SqliteStore(path, CLICKS), Measure("sale")
    flusher = Flusher(store, 1)
    clicks = {f"k{n}": hits((0, n)) for n in range(1, 20)}
    events = {sales.row(key): delta for key, delta in clicks.items()}
    flusher.begin({**clicks, **events, sales.row(ALL_LINKS): hits((0, sum(range(1, 20))))})
    flusher.finish(clicks)
    rank_prefixes(store, sales.row("k1"), sales.row(""))
    assert verify(store, CLICKS).broken == []
    with closing(sqlite3.connect(path)) as db:
        of_events = [sales.row("k15"), sales.row("k5")]
        db.execute("UPDATE leaders SET people_8d = 1 WHERE key IN (?, ?)", of_events)
        assert db.execute("SELECT changes()").fetchone() == (3,)
        db.commit()
    of_all, within, other = sorted(verify(store, CLICKS).broken)
    assert of_all.startswith("event sale of link 'k15', owner 1: it is ranked by ")
    assert within.startswith("event sale of link 'k15', owner 1: it is ranked within the prefix 'k1' by ")
    assert other.startswith("event sale of link 'k5', owner 1: it is ranked by ")
    rank_all(store)
    assert verify(store, CLICKS).broken == []
    store.close()
