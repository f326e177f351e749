"""The ranking of links: against the raw hits, across flushes, and with more links than it keeps."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.answers.written import CsvForm, as_csv
from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.ranges import Bots
from query.lists import rankings
from query.parameters import Parameters
from storage.contract import StoredLink
from storage.sqlite.store import SqliteStore
from storage.tools.verify import verify
from tests.power import examples
from tests.query.queried_nodes import QueriedNodes, run

NOW = 1772407680  # 2026-03-01T23:28:00Z
DAY_S = 86_400


def ranked(nodes: QueriedNodes, limit: int, since: int | None = None) -> list[dict[str, Any]]:
    keys = {hit.key for hit in nodes.hits}
    counts = {key: nodes.counted(key, since or 0, 2**40) for key in keys}
    best = sorted((key for key in keys if counts[key]), key=lambda key: (-counts[key], key))
    return [{"key": key, "count": counts[key]} for key in best[:limit]]


def test_links_are_ranked_by_hits_and_ties_by_key() -> None:
    nodes = QueriedNodes(now=NOW)
    for key, count in (("b", 2), ("a", 2), ("ü", 3), ("B", 2), ("\0x", 2), ("bots", 9)):
        nodes.hit(key, NOW, count, bot=key == "bots")
    expected = [("ü", 3), ("\0x", 2), ("B", 2), ("a", 2), ("b", 2)]
    for _ in range(2):
        answer = nodes.top()
        assert (answer["from"], answer["to"]) == (None, None)
        assert [(link["key"], link["count"]) for link in answer["links"]] == expected
        nodes.flush()
    assert [link["key"] for link in nodes.top("limit=2")["links"]] == ["ü", "\0x"]
    assert nodes.top("bots=only")["links"] == [{"key": "bots", "count": 9}]
    assert nodes.top("bots=include")["links"][0] == {"key": "bots", "count": 9}


def test_an_opening_counts_for_life_but_not_in_a_range() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.owners[0].opening("old", 100)
    for _ in range(2):
        assert nodes.top()["links"] == [{"key": "old", "count": 100}]
        assert nodes.top("last=1y")["links"] == []
        nodes.flush()


def test_a_range_is_whole_units_and_counts_as_the_summary_does() -> None:
    nodes = QueriedNodes(now=NOW)
    for age in range(0, 40 * DAY_S, DAY_S // 3):
        nodes.hit("k", NOW - age)
    nodes.flush()
    for tz in ("UTC", "Asia/Kolkata"):
        answer = nodes.top(f"last=30d&tz={tz}")
        total = nodes.total("k", f"last=30d&tz={tz}")
        assert (answer["from"], answer["to"]) == (total["from"], total["to"])
        assert answer["links"][0]["count"] == nodes.summary("k", f"tz={tz}")["last_30d"]


@settings(max_examples=examples(40))
@given(st.booleans(), st.integers(0, 2**32), st.integers(0, 8), st.integers(1, 6), st.sampled_from(["", "last=2d&"]))
def test_every_ranking_agrees_with_the_raw_hits(walked: bool, seed: int, spare: int, limit: int, span: str) -> None:
    """However few links are kept or read at once, and whatever was flushed, taken or erased since."""
    drawn = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rankings, "_KEPT", limit + spare)
        patch.setattr(rankings, "_READS", 1)
        nodes = QueriedNodes(now=NOW)
        if walked:
            patch.setattr(nodes.links, "ranked", None)
        patch.setattr(nodes.links, "walked_at_once", 3)
        since = NOW // DAY_S * DAY_S - DAY_S if span else None
        for _ in range(30):
            match drawn.choice(["hit", "hit", "hit", "ask", "ask", "begin", "complete", "erase"]):
                case "hit":
                    age = drawn.choice([0, 60, DAY_S, 5 * DAY_S])
                    nodes.hit(f"k{min(drawn.randrange(20), drawn.randrange(20))}", NOW - age, drawn.randrange(1, 5))
                case "begin":
                    nodes.flush()
                    nodes.hit("k0", NOW)
                    nodes.owners[0].begin(NOW)
                    assert nodes.top(f"{span}limit={limit}")["links"] == ranked(nodes, limit, since)
                    nodes.owners[0].complete()
                case "erase":
                    nodes.erase(f"k{drawn.randrange(20)}")
                case "complete":
                    nodes.flush()
                case "ask":
                    assert nodes.top(f"{span}limit={limit}")["links"] == ranked(nodes, limit, since)
        assert nodes.top(f"{span}limit={limit}")["links"] == ranked(nodes, limit, since)


def counted_walks(nodes: QueriedNodes) -> list[str | None]:
    """Every page that is walked from now on."""
    walks: list[str | None] = []
    walk = nodes.store.walk

    def counting(after: str | None, limit: int, since_day: int | None) -> list[tuple[str, StoredLink]]:
        walks.append(after)
        return walk(after, limit, since_day)

    nodes.links.walk = lambda within: counting  # type: ignore[method-assign]
    nodes.links.ranked = None
    return walks


def test_the_store_is_walked_again_after_a_flush_an_erasure_or_some_seconds_only() -> None:
    nodes = QueriedNodes(owners=2, now=NOW)
    nodes.hit("a", NOW)
    nodes.hit("b", NOW, 5)
    nodes.flush()
    walks = counted_walks(nodes)
    nodes.top()
    nodes.hit("a", NOW, 3)
    assert [link["count"] for link in nodes.top()["links"]] == [5, 4]
    assert len(walks) == 1
    nodes.flush()
    nodes.top()
    assert len(walks) == 2
    nodes.erase("b")
    assert nodes.top()["links"] == [{"key": "a", "count": 4}]
    assert len(walks) == 3
    nodes.hit("c", NOW, 9, owner=2)
    assert len(nodes.top()["links"]) == 1
    nodes.owners[1].flush(NOW)
    assert nodes.top()["links"][0] == {"key": "c", "count": 9}, "another owner has flushed, and this one nothing"
    assert len(walks) == 4
    nodes.top()
    assert len(walks) == 4
    nodes.now += 15
    nodes.top()
    assert len(walks) == 5


@pytest.mark.parametrize("flushing", [1, 2])
def test_a_walk_that_takes_longer_than_the_time_between_flushes_is_answered_and_says_so(flushing: int) -> None:
    nodes = QueriedNodes(owners=2, now=NOW)
    nodes.hit("a", NOW)
    nodes.flush()
    walk, walks, took_s = nodes.store.walk, list[int](), [0.0]

    def slow(after: str | None, limit: int, since_day: int | None) -> list[tuple[str, StoredLink]]:
        found = walk(after, limit, since_day)
        walks.append(len(found))
        took_s[0] += 5
        nodes.hit("a", NOW, owner=flushing)
        nodes.owners[flushing - 1].flush(NOW)
        return found

    nodes.links.walk = lambda within: slow  # type: ignore[method-assign]
    nodes.links.ranked = None

    async def asked(after_s: float = 0) -> rankings.RankedKeys:
        loop = asyncio.get_running_loop()
        monotonic, took_s[0] = loop.time, took_s[0] + after_s
        loop.time = lambda: monotonic() + took_s[0]  # type: ignore[method-assign]
        return await nodes.links.rankings.best(Parameters(), NOW)

    first = run(asked())
    assert (len(first.links), len(walks)) == (1, 1)
    assert first.exact == (flushing == 2), "hits that this owner has flushed meanwhile are left out"
    again = run(asked())
    assert (again.links, again.exact, len(walks)) == (first.links, False, 1), "it serves as long as it took"
    assert run(asked(after_s=60)).links[0][1] > first.links[0][1]
    assert len(walks) == 2


def test_questions_at_the_same_time_share_one_walk() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("a", NOW)
    nodes.flush()
    walks = counted_walks(nodes)

    async def ask_many() -> list[rankings.RankedKeys]:
        return await asyncio.gather(*(nodes.links.rankings.best(Parameters(), NOW) for _ in range(10)))

    assert {tuple(found.links) for found in run(ask_many())} == {(("a", 1),)}
    assert len(walks) == 1


@pytest.mark.parametrize("what", ["flush", "erase"])
def test_what_happens_during_a_walk_is_not_forgotten(what: str) -> None:
    nodes = QueriedNodes(now=NOW)
    for key in "abc":
        nodes.hit(key, NOW)
    nodes.flush()
    nodes.hit("a", NOW, 10)
    walk = nodes.store.walk
    happened: list[bool] = []

    def meanwhile(after: str | None, limit: int, since_day: int | None) -> list[tuple[str, StoredLink]]:
        found = walk(after, limit, since_day)
        if not happened:
            happened.append(True)
            nodes.flush() if what == "flush" else nodes.erase("b")
        return found

    nodes.links.walk = lambda within: meanwhile  # type: ignore[method-assign]
    nodes.links.ranked = None
    assert run(nodes.links.rankings.best(Parameters(), NOW)).links[0] == ("a", 11)
    expected = [("a", 11), ("b", 1), ("c", 1)] if what == "flush" else [("a", 11), ("c", 1)]
    assert run(nodes.links.rankings.best(Parameters(), NOW)).links == expected


@pytest.mark.parametrize("turns", range(1, 12))
def test_a_flush_while_the_pending_hits_are_gathered_loses_none(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankings, "_READS", 1)
    nodes = QueriedNodes(now=NOW)
    for key in "abc":
        nodes.hit(key, NOW)
    nodes.flush()
    nodes.top()

    async def asked() -> rankings.RankedKeys:
        nodes.hit("a", NOW)
        nodes.hit("b", NOW)
        asking = asyncio.create_task(nodes.links.rankings.best(Parameters(), NOW))
        for _ in range(turns):
            await asyncio.sleep(0)
        nodes.flush()
        return await asking

    assert run(asked()).links == [("a", 2), ("b", 2), ("c", 1)]


def test_csv_quotes_keys_that_need_it_and_keeps_them_as_they_are() -> None:
    nodes = QueriedNodes(now=NOW)
    for count, key in enumerate(['say "hi", all', "line\nbreak", "=1+1", "plain"], start=1):
        nodes.hit(key, NOW, count)
    body = as_csv(run(nodes.queries.links(b"format=csv&raw=1")), CsvForm(raw=True))
    assert body.decode() == 'key,count\nplain,4\n=1+1,3\n"line\nbreak",2\n"say ""hi"", all",1\n'


@pytest.mark.parametrize("seed", range(8))
def test_a_database_ranks_as_the_raw_hits_do(seed: int, tmp_path: Path) -> None:
    """Over ranges of all kinds, of one owner or two, for people and bots, with hits that wait and links erased."""
    drawn = random.Random(seed)
    store = SqliteStore(tmp_path / "clickcurve.db", CLICKS)
    nodes = QueriedNodes(owners=1 + seed % 2, now=NOW, store=store)
    ages = [0, 60, 3_600, DAY_S, 5 * DAY_S, 29 * DAY_S, 45 * DAY_S, 300 * DAY_S, 700 * DAY_S]
    spans = ["", "last=60m&", "last=1d&", "last=24h&", "last=7d&", "last=30d&tz=Asia/Kolkata&", "last=12mo&"]
    spans += ["last=3mo&", "last=3y&"]
    for _ in range(8):
        for _ in range(40):
            key, owner = f"k{min(drawn.randrange(60), drawn.randrange(60))}", drawn.randrange(len(nodes.owners)) + 1
            nodes.hit(key, nodes.now - drawn.choice(ages), drawn.randrange(1, 9), drawn.random() < 0.3, owner)
        nodes.flush()
        if drawn.random() < 0.4:
            nodes.erase(f"k{drawn.randrange(20)}")
        for _ in range(drawn.randrange(6)):
            nodes.hit(f"k{drawn.randrange(70)}", nodes.now, drawn.randrange(1, 30))
        for span in spans:
            query = f"{span}limit={drawn.choice([1, 3, 20, 100])}&bots={drawn.choice(list(Bots))}"
            nodes.links.rankings.forget_rankings()
            found = nodes.top(query)
            nodes.links.rankings.forget_rankings()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(nodes.links, "ranked", None)
                assert found == nodes.top(query)
        nodes.now += drawn.choice([60, 3_600, DAY_S, 40 * DAY_S])
    assert verify(store, CLICKS).broken == []
    store.close()
