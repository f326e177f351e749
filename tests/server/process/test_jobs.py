"""What the scheduled jobs do, called directly, with the clock in the hand."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import cast

import pytest

from clickcurve.buckets.errors import JournalDamaged, JournalHeld, JournalSuperseded, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import link_key
from ingest.owner import ID_WINDOW_S, Owner
from ingest.owner_status import OwnerStatus
from server.events.known_events import KnownNames
from server.process import jobs
from server.process.journals import FlushLog
from server.workers.orphaned_journals import OrphanedJournals
from storage.contract import Store
from storage.sqlite import rankings
from storage.sqlite.store import SqliteStore
from tests.storage.flushes import Flusher, hits

DAY_US = 86_400 * 1_000_000


class FakeOwner:
    """Counts what is asked of it; `fails` is raised by the next flushes."""

    def __init__(self, owner: int = 1, lag_s: float = 0.0, keys: list[str] | None = None) -> None:
        self.status = OwnerStatus(owner=owner, lag_s=lag_s)
        self.keys = keys or []
        self.days_visited: list[int] = []
        self.flushes = 0
        self.revisited: list[str] = []
        self.closed = False
        self.fails: list[Exception] = []
        self.all_links_at = 0

    def revisit(self, keys: list[str]) -> None:
        self.revisited += keys

    async def flush(self) -> None:
        if self.fails:
            raise self.fails.pop()
        self.flushes += 1

    def due(self, fold_day: int, after: str | None, limit: int) -> list[str]:
        return [key for key in self.keys if after is None or key > after][:limit]

    def visited(self, fold_day: int) -> None:
        self.days_visited.append(fold_day)

    def folded_to(self) -> int:
        return self.all_links_at

    def times_changed(self) -> bool:
        return False

    async def close(self) -> None:
        self.closed = True


class FakeStore:
    """Ids that were forgotten."""

    def __init__(self) -> None:
        self.forgotten_before = 0

    def forget_ids(self, before_us: int) -> None:
        self.forgotten_before = before_us


async def fold_once(owner: Owner) -> None:
    await jobs.DailyFold(lambda: 20_000).visit(owner)


def never_quarantined(number: int) -> Path:
    raise AssertionError(f"journal {number} was quarantined")


def as_owner(owner: FakeOwner) -> Owner:
    return cast(Owner, owner)


def as_store(store: FakeStore) -> Store:
    return cast(Store, store)


def test_the_fold_visits_what_is_due_once_a_day() -> None:
    day = [20_000]
    owner, fold = FakeOwner(keys=["a", "b"]), jobs.DailyFold(lambda: day[0])
    for _ in range(3):
        asyncio.run(fold.visit(as_owner(owner)))
    assert (owner.revisited, fold.folded) == (["a", "b"], 2)
    assert owner.days_visited == [20_000]
    day[0] += 1
    asyncio.run(fold.visit(as_owner(owner)))
    assert fold.folded == 4


def test_rows_that_were_folded_by_a_clock_ahead_are_told(caplog: pytest.LogCaptureFixture) -> None:
    owner = FakeOwner()
    for folded_to, days in ((20_000, None), (20_001, None), (20_002, 2), (20_400, 400)):
        caplog.clear()
        owner.all_links_at = folded_to
        asyncio.run(fold_once(as_owner(owner)))
        told = [record for record in caplog.records if record.message == "folded ahead"]
        assert [record.__dict__["days"] for record in told] == ([] if days is None else [days])
        assert all("docs/upgrade.md" in record.__dict__["then"] for record in told)


def test_a_fold_that_was_stopped_goes_on_at_its_next_run() -> None:
    owner, fold = FakeOwner(keys=["a"]), jobs.DailyFold(lambda: 20_000)
    owner.fails = [StoreUnavailable("down")]
    with pytest.raises(StoreUnavailable, match="stopped after 0 rows: down"):
        asyncio.run(fold.visit(as_owner(owner)))
    asyncio.run(fold.visit(as_owner(owner)))
    assert owner.revisited == ["a"]
    assert owner.days_visited == [20_000]


def test_ids_are_kept_twice_their_window_before_the_oldest_hit_that_is_not_stored() -> None:
    store = FakeStore()
    for oldest_s, counted_from in ((1_000_000 - 3_600, 1_000_000 - 3_600), (1_000_500, 1_000_000), (None, 1_000_000)):
        oldest_us = None if oldest_s is None else oldest_s * 1_000_000
        asyncio.run(jobs.forget_ids(as_store(store), oldest_us, lambda: 1_000_000.0))
        assert store.forgotten_before == (counted_from - 2 * ID_WINDOW_S) * 1_000_000


def test_orphaned_journals_are_emptied_once_a_day_and_closed() -> None:
    owners: dict[int, FakeOwner] = {}

    async def open_owner(number: int) -> Owner:
        if number == 3:
            raise JournalHeld("another worker has it")
        owners[number] = FakeOwner(number, keys=["a"])
        return as_owner(owners[number])

    opened: list[int] = []

    async def counted(number: int) -> Owner:
        opened.append(number)
        return await open_owner(number)

    orphaned = OrphanedJournals(lambda: [2, 3], counted, never_quarantined, fold_once, lambda: 20_000)
    for _ in range(2):
        asyncio.run(orphaned.visit())
    assert opened == [2, 3, 3]
    assert owners[2].closed and owners[2].flushes >= 1 and owners[2].revisited == ["a"]


def test_an_orphaned_journal_is_held_and_shown_while_the_store_is_down() -> None:
    owner = FakeOwner(2)
    owner.fails = [StoreUnavailable("down")]

    async def open_owner(_: int) -> Owner:
        return as_owner(owner)

    orphaned = OrphanedJournals(lambda: [2], open_owner, never_quarantined, fold_once, lambda: 20_000)
    with pytest.raises(StoreUnavailable):
        asyncio.run(orphaned.visit())
    assert not owner.closed and list(orphaned.owners) == [as_owner(owner)]
    asyncio.run(orphaned.visit())
    assert owner.flushes >= 1 and owner.closed and not orphaned.owners


def test_an_orphaned_journal_that_is_damaged_or_superseded_does_not_hold_up_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    superseded, good = FakeOwner(4), FakeOwner(5)
    superseded.fails = [JournalSuperseded("the store is further on")]
    numbers = [3, 4, 5]

    async def open_owner(number: int) -> Owner:
        if number == 3:
            raise JournalDamaged("journal-3/segment-00000001: damaged at byte 300")
        return as_owner({4: superseded, 5: good}[number])

    def quarantine(number: int) -> Path:
        numbers.remove(number)
        return Path(f"set-aside-1-journal-{number}")

    orphaned = OrphanedJournals(lambda: list(numbers), open_owner, quarantine, fold_once, lambda: 20_000)
    for _ in range(2):
        asyncio.run(orphaned.visit())
    assert (good.flushes > 0, good.closed, superseded.closed, numbers) == (True, True, True, [3, 5])
    logged = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert logged == ["orphaned journal damaged", "journal quarantined"], "once a day"


def test_a_flush_that_takes_nearly_all_of_its_interval_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    logged = FlushLog("journal-1", 10.0)
    with caplog.at_level(logging.INFO, logger="clickcurve"):
        for seconds in (7.9, 8.1, 9.0, 1.0, 12.0):
            logged(OwnerStatus(last_flush_s=seconds))
    warned = [record for record in caplog.records if record.getMessage() == "long flush"]
    assert [vars(record)["seconds"] for record in warned] == [8.1, 12.0]
    assert len(caplog.records) == 7


async def test_the_store_is_told_of_new_prefixes_at_once_and_of_all_once_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a prefix that has many links by then is ranked."""
    monkeypatch.setattr(rankings, "MANY_LINKS", 2)
    store, tokens, now = SqliteStore(tmp_path / "clickcurve.db", CLICKS), {"a/", "\0/"}, 0.0
    ranked_within = KnownNames((), store).ranked_within
    flusher, job = Flusher(store), jobs.PrefixRankings(store, lambda: ranked_within(tokens), lambda: now)

    async def ranked_after(seconds: float) -> list[str]:
        nonlocal now
        now += seconds
        await job.visit()
        with store.view() as view:
            return sorted(view.ranked_prefixes())

    flusher.flush({link_key(key): hits((0, 1)) for key in ("a/1", "b/1", "b/2", "\0/1", "\0/2")})
    assert await ranked_after(0) == ["", "\0\0/"]
    tokens.add("b/")
    assert await ranked_after(60) == ["", "\0\0/", "b/"]
    flusher.flush({"a/2": hits((0, 1))})
    assert await ranked_after(60) == ["", "\0\0/", "b/"]
    assert await ranked_after(3_600) == ["", "\0\0/", "a/", "b/"]
    tokens.clear()
    assert await ranked_after(60) == [""]
    store.close()
