"""The made-up year in a store: every law of rows holds, parts are totals, and a fill that was killed is done again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.breakdowns.parts import Parts, decode_parts, separate_parts
from clickcurve.buckets.codec import decode
from clickcurve.buckets.ladder import CLICKS, DAY_S
from clickcurve.buckets.measures import measures_of
from clickcurve.keys import ALL_LINKS, breakdown_of, group_key, link_key
from dashboard.page.audience.values import KINDS_OF_BOTS
from ingest.agents.bots import Bot, bot_judge
from ingest.agents.known_bots import RULE
from server.demo.bots import BOTS
from server.demo.shop import RATES, UNITS
from server.demo.traffic import LINKS
from server.demo.visitors import made_up_hits
from server.demo.year import DEMO, VISITORS, fill, made_up_rows
from storage.contract import CLOSED, SavedRow, Store
from storage.from_uri import open_store
from storage.tools.verify import verify

NOW = 1_772_407_710  # 2026-03-01T23:28:30Z
DIMENSIONS = ("ref", "country", "device", "source", "channel", "bot_kind", "bot")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/clickcurve.db", CLICKS)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def rows() -> dict[str, SavedRow]:
    return made_up_rows(NOW, CLICKS, DIMENSIONS, 7)


def parts(row: SavedRow) -> Parts:
    return separate_parts(row.whole)


def test_every_law_of_a_store_holds(store: Store) -> None:
    fill(store, NOW, DIMENSIONS)
    report = verify(store, CLICKS)
    assert report.broken == []
    assert (report.links, report.groups, report.under_way) == (len(LINKS), 4, [])
    assert [record.state for record in store.owners()] == [CLOSED]


def test_all_that_hits_said_adds_up_to_the_hits(rows: dict[str, SavedRow]) -> None:
    for key in ("docs", group_key("campaigns"), ALL_LINKS):
        counts = decode(rows[key].data)
        breakdown = decode_parts(parts(rows[breakdown_of(key)]))
        assert sorted(breakdown.dimensions) == sorted(DIMENSIONS)
        for name, tiers in breakdown.dimensions.items():
            hits = sum(bucket.recorded() for tier in tiers for bucket in tier.values())
            assert hits == (counts.bots if name in OF_BOTS else counts.lifetime)


def test_a_group_is_the_sum_of_its_links(rows: dict[str, SavedRow]) -> None:
    members = [link.key for link in LINKS if link.group == "newsletter"]
    assert len(members) == 4
    assert decode(rows[group_key("newsletter")].data).lifetime == sum(
        decode(rows[key].data).lifetime for key in members
    )


def test_visitors_of_each_day_are_fewer_than_its_hits_and_than_there_are(rows: dict[str, SavedRow]) -> None:
    breakdown = decode_parts(parts(rows[breakdown_of(ALL_LINKS)]))
    assert len(breakdown.days) >= 1
    assert all(0 < day.visitors.size() <= 1.1 * VISITORS for day in breakdown.days.values())
    by_days = breakdown.visitor_days[0]
    of_ref = breakdown.dimensions["ref"][1]
    assert len(by_days) == len(of_ref) > 20
    for start, days in by_days.items():
        assert start % DAY_S == 0
        assert 0 < days.at_least <= min(VISITORS, of_ref[start].recorded())


def test_all_hits_tell_whose_they_are(rows: dict[str, SavedRow]) -> None:
    for key in ("docs", group_key("campaigns"), ALL_LINKS):
        breakdown = decode_parts(parts(rows[breakdown_of(key)]))
        known = [days.known for tier in breakdown.visitor_days for days in tier.values()]
        known += [day.known for day in breakdown.days.values()]
        assert sum(known) == decode(rows[key].data).lifetime


def test_a_fill_happens_once_and_again_if_it_was_killed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as dying:
        dying.setattr("server.demo.year.made_up_rows", None)
        with pytest.raises(TypeError):
            fill(store, NOW, DIMENSIONS)
    fill(store, NOW + 60, DIMENSIONS)
    kept = store.source(DEMO)
    fill(store, NOW + 120, DIMENSIONS)
    assert len(store.owners()) == 1 and store.source(DEMO) == kept is not None


def test_dimensions_that_nobody_speaks_of_stay_empty() -> None:
    assert breakdown_of("docs") not in made_up_rows(NOW, CLICKS, ("browser",), 7)
    of_bots = made_up_rows(NOW, CLICKS, ("browser", "bot_kind"), 7)
    breakdown = decode_parts(parts(of_bots[breakdown_of(ALL_LINKS)]))
    assert list(breakdown.dimensions) == ["bot_kind"]
    assert not (breakdown.days or any(breakdown.visitor_days)), "visitors are people"


def test_bots_are_judged_as_the_year_has_them() -> None:
    judge = bot_judge()
    assert [judge.bot(bot.agent) for bot in BOTS] == [Bot(bot.name, bot.kind) for bot in BOTS]
    assert {bot.kind for bot in BOTS} == set(KINDS_OF_BOTS) - {RULE}, "the demo has no rules"


def test_the_shops_sales_are_parts_of_their_sums_and_come_where_readers_buy(store: Store) -> None:
    fill(store, NOW, DIMENSIONS, tuple(UNITS))
    assert verify(store, CLICKS).broken == []
    rows = made_up_rows(NOW, CLICKS, DIMENSIONS, 7, tuple(UNITS))
    sales, amounts = (measure.row(ALL_LINKS) for measure in measures_of("sale"))
    for key in (sales, amounts, measures_of("sale")[0].row(link_key("home"))):
        breakdown = decode_parts(parts(rows[breakdown_of(key)]))
        for tiers in breakdown.dimensions.values():
            assert (
                sum(bucket.recorded() for tier in tiers for bucket in tier.values()) == decode(rows[key].data).lifetime
            )
    assert 1_900 < decode(rows[amounts].data).lifetime / decode(rows[sales].data).lifetime < 24_900
    by_ref: dict[str, Counter[str]] = {}
    for key in (ALL_LINKS, sales):
        tiers = decode_parts(parts(rows[breakdown_of(key)])).dimensions["ref"]
        by_ref[key] = sum((Counter(bucket.values) for tier in tiers for bucket in tier.values()), Counter())
    rates = {ref: by_ref[sales][ref] / by_ref[ALL_LINKS][ref] for ref in ("mail.example", "social.example")}
    assert 0 < 4 * rates["social.example"] < rates["mail.example"] < 0.2


def test_clicks_are_the_same_whether_something_comes_of_them_or_not(rows: dict[str, SavedRow]) -> None:
    with_sales = made_up_rows(NOW, CLICKS, DIMENSIONS, 7, tuple(UNITS))
    assert {key: row for key, row in with_sales.items() if key in rows} == rows
    assert with_sales.keys() > rows.keys() and not any("sale:" in key for key in rows)


def test_what_comes_of_a_click_of_now_says_what_the_click_said() -> None:
    chance, moments = Random(7), range(NOW - 40 * DAY_S, NOW, 3_000)
    hits = [hit for now in moments for hit in made_up_hits(chance, now, 0.0, tuple(UNITS))]
    outcomes = [(before, hit) for before, hit in pairwise(hits) if "event" in hit]
    assert outcomes and all(hit["key"] in RATES for _, hit in outcomes)
    for before, hit in outcomes:
        told = {name: value for name, value in hit.items() if name not in ("event", "value")}
        assert told == {name: value for name, value in before.items() if name not in ("event", "value")}
        assert ("value" in hit) == (hit["event"] == "sale")
    assert not any("event" in hit for now in moments for hit in made_up_hits(chance, now, 0.0))
