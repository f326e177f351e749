"""Lists by an event and by its values from candidates: as the rows say, however few are kept; clicks hold no event."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, fold_day
from clickcurve.buckets.measures import Measure, measured
from clickcurve.buckets.prefixes import ALL_KEYS
from clickcurve.buckets.ranges import Bots
from clickcurve.buckets.upper_bounds import upper_bounds_in
from clickcurve.keys import link_key
from query.lists.listed_rows import LINK
from query.lists.listing import Listing
from query.lists.rankings import RankedKeys
from query.parameters import parse_parameters
from retention.run import run_pass
from server.events.known_events import KnownNames
from storage.sqlite import candidates, rankings
from storage.sqlite.rankings import SqliteRanked
from storage.sqlite.store import SqliteStore
from storage.tools.verify import verify
from tests.query.events.event_nodes import EVENTS, MEASURES, EventHit, batch_of, counted
from tests.query.test_candidates import AGES_S, PREFIXES, SPANS, RankedOwners

KEYS = 40


def key_of(number: int) -> str:
    return f"{PREFIXES[number % len(PREFIXES)]}k{number}"


class RankedEvents(RankedOwners):
    """Owners of clicks and events, and every hit."""

    def __init__(self, folder: Path, owners: int) -> None:
        super().__init__(folder, owners)
        self.names = KnownNames(EVENTS, self.store)
        self.hits: list[EventHit] = []

    def rank(self, prefixes: set[str]) -> None:
        """Has candidates of these prefixes of links, and of the events of each, as a server does."""
        self.store.rank_prefixes(self.names.ranked_within(prefixes))

    def rank_all(self) -> None:
        while self.store.rank_some(lambda data: upper_bounds_in(data, CLICKS)):
            pass

    def buffered_beside(self, name_of: object) -> list[dict[str, int]]:
        return [table for owner in self.owners for table in owner.buffered_beside(name_of)]  # type: ignore[arg-type]

    async def best(self, measure: Measure, query: str, *, walked: bool) -> RankedKeys:
        """A list from candidates, or of all rows."""
        lists = Listing(
            LINK, self.store, self.pending, self.buffered, lambda: 0, buffered_beside=self.buffered_beside
        ).counting(measure)
        lists.ranked = None if walked else lists.ranked
        parameters = parse_parameters(dict(part.split("=") for part in query.split("&") if part))
        return await lists.best(parameters, self.now)

    def of(self, key: str, bots: Bots) -> list[EventHit]:
        wanted = {Bots.exclude: (False,), Bots.only: (True,), Bots.include: (False, True)}[bots]
        return [hit for hit in self.hits if hit.key == key and hit.bot in wanted]

    async def accept(self, drawn: random.Random) -> None:
        hits = []
        for _ in range(12):
            key = key_of(min(drawn.randrange(KEYS), drawn.randrange(KEYS)))
            event = drawn.choice(["", "sale", "sale", "lead"])
            t, value = self.now - drawn.choice(AGES_S), drawn.choice([0, 1, 300, 10**9]) if event else 0
            hits.append(EventHit(key, t, event, value, drawn.randrange(1, 9), drawn.random() < 0.2))
        await drawn.choice(self.owners).accept(batch_of(hits, self.now))
        self.hits += hits

    async def delete(self, key: str) -> None:
        self.now += 301
        rows = [measure.row(link_key(key)) for measure in MEASURES]
        await self.owners[0].erase(*rows)
        for owner in self.owners[1:]:
            await owner.hide_erased(*rows)
        self.hits = [hit for hit in self.hits if hit.key != key]

    def check_kept(self) -> None:
        """No event is among the candidates of all links, and the file keeps its laws."""
        with self.store._connections.open().on_scanner() as db:
            known = candidates.known_rankings(db).ids
            keys = db.execute("SELECT key FROM leaders WHERE ranking = ?", (known[ALL_KEYS],)).fetchall()
        assert not [key for (key,) in keys if measured(key)[0].event]
        assert verify(self.store, CLICKS).broken == []


async def stepped(nodes: RankedEvents, drawn: random.Random) -> None:
    steps = [*["hits"] * 6, *["flush"] * 4, "fold", "delete", "time", *["prefixes"] * 3, *["rank"] * 6, "anew"]
    match drawn.choice(steps):
        case "hits":
            await nodes.accept(drawn)
        case "flush":
            await drawn.choice(nodes.owners).flush()
        case "fold":
            await drawn.choice(nodes.owners).flush()
            await run_pass(drawn.choice(nodes.owners), fold_day(nodes.now))
        case "delete":
            await nodes.delete(key_of(drawn.randrange(20)))
        case "prefixes":
            nodes.rank({drawn.choice(PREFIXES) for _ in range(3)})
        case "rank":
            for _ in range(drawn.randrange(1, 20)):
                nodes.store.rank_some(lambda data: upper_bounds_in(data, CLICKS))
        case "anew" if drawn.random() < 0.2:
            nodes.store.rank_anew()
        case "time":
            nodes.now += drawn.choice([60, HOUR_S, DAY_S, 8 * DAY_S, 40 * DAY_S, 200 * DAY_S])


async def check_list(nodes: RankedEvents, drawn: random.Random) -> None:
    """Asks for a list in both ways, and holds it against the raw hits."""
    measure, prefix = drawn.choice(MEASURES), drawn.choice([*PREFIXES, "", "a", "a/b/ck4"])
    limit, bots, span = drawn.choice([1, 2, 5, 60]), drawn.choice(list(Bots)), drawn.choice(SPANS)
    query = f"{span}&limit={limit}&bots={bots}&prefix={prefix}"
    found = await nodes.best(measure, query, walked=False)
    assert found.links == (await nodes.best(measure, query, walked=True)).links, query
    if not found.exact:
        return
    low, high = (0, 2**40) if found.start is None or found.end is None else (found.start, found.end)
    true = {key: counted(nodes.of(key, bots), measure, low, high) for key in map(key_of, range(KEYS))}
    some = {key: count for key, count in true.items() if count and key.startswith(prefix)}
    assert found.links == [(key, true[key]) for key, _ in found.links]
    assert limit < 60 or span or dict(found.links) == some


@pytest.mark.parametrize("seed", range(6))
async def test_candidates_of_events_rank_as_all_rows_do(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = random.Random(seed)
    monkeypatch.setattr(candidates, "KEPT", drawn.randrange(1, 12))
    monkeypatch.setattr(candidates, "ROOM", drawn.randrange(0, 8))
    monkeypatch.setattr(rankings, "MANY_LINKS", drawn.randrange(1, 4))
    monkeypatch.setattr(rankings, "ROWS_PER_STEP", drawn.randrange(3, 40))
    nodes = RankedEvents(tmp_path, owners=1 + seed % 2)
    with_candidates = 0

    def counting(ranked: SqliteRanked) -> object:
        nonlocal with_candidates
        with_candidates += ranked._ranking.prefix.startswith(("\0event:", "\0value:"))
        return known(ranked)

    known = SqliteRanked.candidates
    monkeypatch.setattr(SqliteRanked, "candidates", counting)
    for _ in range(40):
        await stepped(nodes, drawn)
        for _ in range(3):
            await check_list(nodes, drawn)
        nodes.check_kept()
    assert with_candidates > 10
    nodes.store.rank_anew()
    nodes.rank_all()
    nodes.check_kept()
    for owner in nodes.owners:
        await owner.close()
    nodes.store.close()


async def test_candidates_tell_alone_where_enough_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 links with sales: no row is walked for a list by an event, by its values, or of one prefix."""
    monkeypatch.setattr(candidates, "KEPT", 50)
    monkeypatch.setattr(candidates, "ROOM", 10)
    monkeypatch.setattr(rankings, "MANY_LINKS", 10)
    drawn = random.Random(3)
    nodes = RankedEvents(tmp_path, owners=1)
    (owner,) = nodes.owners
    await owner.flush()
    for day in range(6):
        sales = [
            EventHit(
                f"{'a/' * (n % 2)}k{n:03}", nodes.now - drawn.choice(AGES_S), "sale", drawn.randrange(1_000), 1 + n
            )
            for n in drawn.sample(range(200), 120)
        ]
        await owner.accept(batch_of([*sales, *(EventHit(hit.key, nodes.now) for hit in sales)], nodes.now))
        await owner.flush()
        if not day:
            nodes.rank({"a/"})
            nodes.rank_all()
        nodes.now += DAY_S
    for measure in (Measure("sale"), Measure("sale", of_values=True)):
        for query in ("", "last=7d", "last=30d", "prefix=a/", "prefix=a/&last=7d"):
            walked = await nodes.best(measure, f"limit=5&{query}", walked=True)
            with monkeypatch.context() as patched:
                patched.setattr(SqliteStore, "in_order", None)  # nothing is walked
                patched.setattr(SqliteStore, "walk", None)
                assert await nodes.best(measure, f"limit=5&{query}", walked=False) == walked
            assert len(walked.links) == 5
    await owner.close()
    nodes.store.close()


def test_events_whose_rankings_are_asked_for_are_those_of_all_links_and_of_each_prefix(tmp_path: Path) -> None:
    nodes = RankedEvents(tmp_path, owners=1)
    assert nodes.names.ranked_within({"a/"}) == {
        "a/",
        *(f"\0{what}:{name}:{prefix}" for what in ("event", "value") for name in EVENTS for prefix in ("", "a/")),
    }
    nodes.store.close()
