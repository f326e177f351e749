"""A wave of spam on more links than a ranking keeps, and rules that call it bots: lists show the good links at once."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from clickcurve.buckets.ladder import CLICKS, END_OF_TIME
from clickcurve.buckets.upper_bounds import upper_bounds_in
from clickcurve.keys import ALL_LINKS, link_key
from query.lists.listed_rows import LINK
from query.lists.listing import Listing
from query.parameters import parse_parameters
from query.reader import Reader
from server.app.note_spaces import NOTE_SPACES
from server.corrections.rules import DisavowRule
from storage.contract import Store
from storage.memory_store import MemoryStore
from storage.rankings import Ranking
from storage.sqlite import candidates
from storage.sqlite.backup import backup
from storage.sqlite.store import SqliteStore
from storage.tools.copy import copy
from storage.tools.verify import verify
from tests.server.correcting_server import NOW, CorrectingServer
from tests.storage.stores import STORES

SPAM, FINE = "spam.example", "fine.example"
LIFE = Ranking(None, people=True, bots=False)
GOOD = [(f"good/{n}", 5 - n) for n in range(4)]
WAVE = [f"wp{n:02}" for n in range(40)]
RULE = DisavowRule(ALL_LINKS, "ref", SPAM, 0, END_OF_TIME, NOW, "")
CLUSTERS = ["simulated", "cassandra"]
KINDS = ["sqlite", "walked", "memory", *CLUSTERS]


class Wave:
    """A server whose store keeps five candidates, or none and is walked."""

    def __init__(self, folder: Path, kind: str, store: Store | None = None) -> None:
        self.store = store or (MemoryStore() if kind == "memory" else SqliteStore(folder / "clickcurve.db", CLICKS))
        self.server, self.kind, self.is_open = CorrectingServer(folder / "journal", self.store), kind, True

    def listing(self, store: Store | None = None) -> Listing:
        store, owner, corrected = store or self.store, self.server.owner, self.server.corrections.is_corrected
        reader = Reader(store.rows, owner.pending, owner.revisit, store.ladder, is_corrected=corrected)
        kept = owner.pending, owner.buffered_links, lambda: owner.status.flushes
        listing = Listing(LINK, store, *kept, is_corrected=corrected, corrected=reader.corrected)
        if self.kind == "walked":
            listing.ranked = None
        return listing

    async def best(self, query: str = "", store: Store | None = None) -> list[tuple[str, int]]:
        parameters = parse_parameters({"limit": "4"} | dict(part.split("=") for part in query.split("&") if part))
        return (await self.listing(store).best(parameters, NOW)).links

    async def spam(self) -> None:
        for key in WAVE:
            await self.server.hit(key, SPAM, 9)
        await self.server.owner.flush()

    def rank(self) -> None:
        while self.store.rank_some(lambda data: upper_bounds_in(data, CLICKS)):
            pass

    async def close(self) -> None:
        if self.is_open:
            self.is_open = False
            await self.server.owner.close()

    def is_ranked(self) -> bool:
        with self.store.ranked(LIFE) as links:
            found = None if links is None else links.candidates()
        return found is not None and found.rest[0] < GOOD[-1][1]


@asynccontextmanager
async def waved(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch, store: Store | None = None
) -> AsyncIterator[Wave]:
    """Good links, behind a wave of louder ones."""
    monkeypatch.setattr(candidates, "KEPT", 5)
    monkeypatch.setattr(candidates, "ROOM", 3)
    wave = Wave(folder, kind, store)
    await wave.server.corrections.refresh()
    for key, count in GOOD:
        await wave.server.hit(key, FINE, count)
    await wave.spam()
    assert [count for _, count in await wave.best()] == [9] * 4
    yield wave
    assert verify(wave.store, CLICKS).broken == []
    await wave.close()
    wave.store.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_wave_that_is_called_bots_is_on_no_list_and_its_undo_brings_it_back(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    factory = STORES[kind](tmp_path, request.getfixturevalue) if kind in CLUSTERS else None
    if factory is not None:
        request.addfinalizer(factory.close)
    async with waved(tmp_path, kind, monkeypatch, None if factory is None else factory()) as wave:
        rule = wave.server.corrections.book.add(RULE)
        await wave.server.follow()
        for _ in range(2):  # while all rows are ranked anew, and afterwards
            for query in ("", "last=7d", "last=24h", "limit=1000", "prefix=good/"):
                assert await wave.best(query) == GOOD, query
            assert {count for _, count in await wave.best("bots=include")} == {9}
            assert await wave.best("bots=only&last=7d") == [(key, 9) for key in WAVE[:4]]
            wave.rank()
        assert kind in ("walked", *CLUSTERS) or wave.is_ranked()
        await wave.spam()  # it goes on: these hits are new
        assert [count for _, count in await wave.best()] == [9] * 4
        wave.server.corrections.book.add(RULE)
        await wave.server.follow()
        assert await wave.best() == GOOD
        wave.server.corrections.book.undo(rule.id)
        await wave.server.follow()
        for _ in range(2):
            assert await wave.best() == [(key, 18) for key in WAVE[:4]]
            wave.rank()


async def test_a_store_that_has_corrections_already_is_ranked_anew_at_the_upgrade_and_by_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clickcurve.db"
    async with waved(tmp_path, "sqlite", monkeypatch) as wave:
        wave.server.corrections.book.add(RULE)
        await wave.server.follow()
        with closing(sqlite3.connect(path)) as db:  # as version 3 left it
            db.execute("ALTER TABLE bars DROP COLUMN gone")
            db.execute("UPDATE meta SET value = '3' WHERE name = 'schema'")
            db.commit()
        former = SqliteStore(path, CLICKS, read_only=True)
        assert await wave.best(store=former) == GOOD
        former.close()
        renewed = SqliteStore(path, CLICKS)
        assert not wave.is_ranked()
        assert await wave.best(store=renewed) == GOOD
        wave.rank()
        assert wave.is_ranked()
        assert await wave.best(store=renewed) == GOOD
        renewed.close()
        await wave.close()
        other = SqliteStore(tmp_path / "other.db", CLICKS)
        await copy(wave.store, other, CLICKS, 0, 1, NOTE_SPACES)
        backup(path, tmp_path / "backup.db")
        for copied in (other, SqliteStore(tmp_path / "backup.db", CLICKS)):
            assert await wave.best(store=copied) == GOOD
            assert verify(copied, CLICKS).broken == []
            copied.close()


async def test_a_flush_under_way_while_a_ranking_is_made_anew_leaves_no_link_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes by the cutoffs from before: of these the row passes none, of the new ones it does."""
    async with waved(tmp_path, "sqlite", monkeypatch) as wave:
        cutoffs = wave.store.cutoffs(wave.server.owner.status.owner)
        wave.server.corrections.book.add(RULE)
        await wave.server.corrections.refresh()
        wave.rank()
        monkeypatch.setattr(wave.store, "cutoffs", lambda owner: cutoffs)
        await wave.server.hit(GOOD[0][0], FINE, 1)
        await wave.server.owner.flush()
        wave.rank()
        assert (await wave.best())[0] == (link_key(GOOD[0][0]), GOOD[0][1] + 1)
