"""Rankings by candidates: as the rows say after any steps of real owners, however few candidates are kept."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from clickcurve.buckets.breakdowns.disavow import CORRECTIONS, Correction, called_between
from clickcurve.buckets.codec import decode
from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, fold_day
from clickcurve.buckets.ranges import Bots, between, total
from clickcurve.buckets.row import Delta, fold
from clickcurve.buckets.upper_bounds import MOST, upper_bounds_in
from clickcurve.keys import link_key, moved_key
from clickcurve.pending import Pending
from ingest.batch import Batch, SourceStep
from ingest.corrections import CORRECTIONS_SOURCE, correction_batch
from query.lists.listed_rows import LINK
from query.lists.listing import Listing
from query.parameters import parse_parameters, resolve_range
from query.reader import Reader, stored
from query.total import lifetime
from retention.run import run_pass
from storage.sqlite import candidates, rankings
from storage.sqlite.store import SqliteStore
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess, TrackedDisk

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
SPANS = ("", "last=1d", "last=24h", "last=7d", "last=30d&tz=Asia/Kolkata", "last=90d", "last=12mo", "last=3y")
PREFIXES = ("", "k1", "a/", "a/b/", "a/b/c", "\0x", "é/")
AGES_S = (0, 60, 3 * HOUR_S, DAY_S, 2 * DAY_S, 6 * DAY_S, 29 * DAY_S, 80 * DAY_S, 300 * DAY_S, 700 * DAY_S)


class RankedOwners:
    """Owners of one database that keeps few candidates, and the rankings of the first one's server."""

    def __init__(self, folder: Path, owners: int) -> None:
        self.now = NOW
        self.store = SqliteStore(folder / "clickcurve.db", CLICKS)
        self.owners = [
            OwnerProcess(folder / f"journal-{n}", self.store, lambda: float(self.now), False, TrackedDisk()).owner
            for n in range(owners)
        ]

    def pending(self, key: str) -> list[Pending]:
        return [each for owner in self.owners for each in owner.pending(key)]

    def buffered(self) -> list[dict[str, int]]:
        return [table for owner in self.owners for table in owner.buffered_links()]

    async def top(self, query: str, *, walked: bool) -> list[tuple[str, int]]:
        reader = Reader(self.store.rows, self.pending, lambda _: None, self.store.ladder, is_corrected=bool)
        lists = Listing(
            LINK, self.store, self.pending, self.buffered, lambda: 0, is_corrected=bool, corrected=reader.corrected
        )
        lists.ranked = None if walked else lists.ranked
        parameters = parse_parameters(dict(part.split("=") for part in query.split("&") if part))
        found = (await lists.best(parameters, self.now)).links
        range_ = resolve_range(parameters, self.now, 0)
        for key, count in found:
            row = await reader.row(link_key(key), self.now)
            own = total(row, *range_, parameters.bots, CLICKS).total if range_ else lifetime(row, parameters.bots)
            assert count == own, "a list says another number than the link's own total"
        return found

    async def correct(self, drawn: random.Random) -> None:
        """Calls hits of one bucket of a link bots, or back, or a few in all buckets: by the owner that keeps these."""
        key, owner = link_key(_key(drawn.randrange(20))), self.owners[0]
        await owner.flush()
        read = [await self.store.rows(each) for each in (key, moved_key(key))]
        day = max([decode(row.data).fold_day for each in read for row in each.rows], default=0)
        rows, called = (fold(stored(each, self.now, CLICKS).row, max(day, fold_day(self.now)), CLICKS) for each in read)
        spans = {CORRECTIONS.ladder.kept(start, rows.fold_day) for starts, _ in rows.people_cells for start in starts}
        people: dict[int, int] = {}
        bots: dict[int, int] = {}
        for low, high in drawn.sample(sorted(spans), min(len(spans), drawn.choice([1, 1, 9]))):
            gone = called_between(called, low, high)
            left = sum(between(rows, (low, high), Bots.exclude)) - gone
            if left > 0 and drawn.random() < 0.7:
                people[low] = drawn.choice([1, left, left])
            elif gone > 0:
                bots[low] = gone
        if people or bots:
            position = (await owner.source(CORRECTIONS_SOURCE)).position
            step = SourceStep(CORRECTIONS_SOURCE, position, position + 1, "{}")
            await owner.accept(correction_batch({key: Correction(Delta(people, bots))}, step))
            await owner.flush()


def _key(number: int) -> str:
    """A key with a prefix of PREFIXES, or none: some of these begin with others."""
    return f"{PREFIXES[number % len(PREFIXES)]}k{number}"


async def stepped(nodes: RankedOwners, drawn: random.Random) -> None:
    """One step of what owners do."""
    owner = drawn.choice(nodes.owners)
    steps = ["hits"] * 6 + ["flush"] * 4 + ["fold", "erase", "time"] * 2 + ["correct"] * 4
    match drawn.choice([*steps, "prefixes", "prefixes", *["rank"] * 4, *["anew"] * (drawn.random() < 0.1)]):
        case "hits":
            for bots in (False, False, True):
                minute = (nodes.now - drawn.choice(AGES_S)) // 60 * 60
                keys = {_key(min(drawn.randrange(60), drawn.randrange(60))) for _ in range(8)}
                counts = {minute: {key: drawn.randrange(1, 9) for key in keys}}
                await owner.accept(Batch(bots=counts) if bots else Batch(counts))
        case "flush":
            await owner.flush()
        case "fold":
            await run_pass(owner, fold_day(nodes.now))
        case "erase":
            key = _key(drawn.randrange(20))
            await owner.erase(key, last=[moved_key(key)])
            for other in nodes.owners:
                await other.hide_erased(key)
        case "correct":
            await nodes.correct(drawn)
        case "prefixes":
            nodes.store.rank_prefixes({link_key(drawn.choice(PREFIXES)) for _ in range(4)})
        case "rank":
            nodes.store.rank_some(lambda data: upper_bounds_in(data, CLICKS))
        case "anew":
            nodes.store.rank_anew()
        case "time":
            nodes.now += drawn.choice([-DAY_S, 60, HOUR_S, DAY_S, DAY_S, 8 * DAY_S, 40 * DAY_S, 200 * DAY_S])


@pytest.mark.parametrize("seed", range(6))
async def test_leaders_rank_as_all_rows_do_and_keep_their_law(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = random.Random(seed)
    monkeypatch.setattr(candidates, "KEPT", drawn.randrange(1, 12))
    monkeypatch.setattr(candidates, "ROOM", drawn.randrange(0, 8))
    monkeypatch.setattr(rankings, "MANY_LINKS", drawn.randrange(1, 4))
    monkeypatch.setattr(rankings, "ROWS_PER_STEP", drawn.randrange(3, 20))
    nodes = RankedOwners(tmp_path, owners=1 + seed % 2)
    for _ in range(40):
        await stepped(nodes, drawn)
        prefix = drawn.choice([*PREFIXES, "a", "a/b/ck4"])
        limit = drawn.choice([1, 2, 5, 60])
        query = f"{drawn.choice(SPANS)}&limit={limit}&bots={drawn.choice(list(Bots))}&prefix={prefix}"
        assert await nodes.top(query, walked=False) == await nodes.top(query, walked=True), query
        assert verify(nodes.store, CLICKS).broken == []
    nodes.store.rank_anew()
    while nodes.store.rank_some(lambda data: upper_bounds_in(data, CLICKS)):
        pass
    assert verify(nodes.store, CLICKS).broken == []
    for owner in nodes.owners:
        await owner.close()
    nodes.store.close()


def test_links_that_count_more_than_a_weight_can_hold_are_told_apart(tmp_path: Path) -> None:
    async def live() -> list[tuple[str, int]]:
        nodes = RankedOwners(tmp_path, owners=1)
        (owner,) = nodes.owners
        await owner.accept(Batch({NOW // 60 * 60: {"a": MOST, "b": 2 * MOST}}))
        await owner.flush()
        best = await nodes.top("limit=1", walked=False)
        await owner.close()
        nodes.store.close()
        return best

    assert asyncio.run(live()) == [("b", 2 * MOST)]


async def test_leaders_tell_alone_where_enough_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 links, among which many are equal, for a tenth of what is kept; day after day, with a year behind."""
    monkeypatch.setattr(candidates, "KEPT", 50)
    monkeypatch.setattr(candidates, "ROOM", 10)
    drawn = random.Random(3)
    nodes = RankedOwners(tmp_path, owners=1)
    (owner,) = nodes.owners
    for _ in range(12):
        for age_s in (0, 0, *AGES_S):
            minute = (nodes.now - age_s) // 60 * 60
            keys = {f"k{min(drawn.randrange(300), drawn.randrange(300)):03}" for _ in range(60)}
            await owner.accept(Batch({minute: dict.fromkeys(keys, 1)}))
        await owner.flush()
        lists = Listing(LINK, nodes.store, nodes.pending, nodes.buffered, lambda: 0)
        lists.walk = None  # type: ignore[method-assign, assignment]  # nothing is walked
        for span in SPANS[:-1]:
            parameters = parse_parameters(dict(part.split("=") for part in f"{span}&limit=5".split("&") if part))
            found = (await lists.rankings.best(parameters, nodes.now)).links
            assert found == await nodes.top(f"{span}&limit=5", walked=True)
        nodes.now += DAY_S
    await owner.close()
    nodes.store.close()
