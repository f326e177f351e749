"""The made-up year, in kept buckets, with habits of links; and visitors of now, as many as the year has."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, MINUTE_S, Ladder, fold_day
from server.demo.audience import AUDIENCES, hits_by_value
from server.demo.bots import BOTS
from server.demo.traffic import LINKS, YEAR_DAYS, made_up_years
from server.demo.visitors import BURST_HITS, BURST_KEY, EVERY_S, expected_hits, made_up_hits
from tests.ingest.http_kit import Client

NOW = 1_772_407_710  # 2026-03-01T23:28:30Z, a Sunday
NOON = NOW - NOW % DAY_S + DAY_S // 2


@pytest.mark.parametrize("ladder", ["quarter", "days"])
def test_a_year_is_the_same_for_the_same_minute_and_lies_in_kept_buckets(ladder: str) -> None:
    kept = Ladder.parse(ladder)
    years = list(made_up_years(NOW, kept))
    assert years == list(made_up_years(NOW + 20, kept))
    assert years != list(made_up_years(NOW + 60, kept))
    assert len(years) == len(LINKS)
    for _, buckets in years:
        starts = [bucket.start for bucket in buckets]
        assert min(starts) >= NOW - YEAR_DAYS * DAY_S and max(starts) < NOW
        assert all(earlier < later for earlier, later in pairwise(starts))
        assert all(kept.kept(start, fold_day(NOW))[0] == start for start in starts)
    assert sum(bucket.people for _, buckets in years for bucket in buckets) > 300_000


def test_links_have_habits() -> None:
    days: dict[str, Counter[int]] = {}
    for link, buckets in made_up_years(NOW, CLICKS):
        counts = days.setdefault(link.key, Counter())
        for start, people, _ in buckets:
            counts[(NOW - start) // DAY_S] += people
    docs, launch = days["docs"], days["launch"]
    assert sum(docs[day] for day in (1, 7, 8, 14)) < sum(docs[day] for day in (2, 3, 9, 10)) / 2, "weekends"
    assert launch[73] > 10 * launch[60] > 0 == launch[76], "the day it began"
    assert not days["spring-sale"].keys() & set(range(120)), "it ended"


@pytest.mark.parametrize("hits", [0, 1, 7, 40, 41, 5_000, 1_000_000])
def test_parts_are_the_whole_and_follow_their_shares(hits: int) -> None:
    chance = Random(7)
    for audience in AUDIENCES.values():
        for shares in audience.values():
            parts = hits_by_value(chance, hits, shares)
            assert sum(parts.values()) == hits and parts.keys() <= shares.keys()
            assert all(count > 0 for count in parts.values())
            if hits == 1_000_000:
                weights = sum(shares.values())
                assert all(abs(parts[each] / hits - shares[each] / weights) < 0.005 for each in shares)


SECONDS_OF_AN_HOUR = [second * EVERY_S for second in range(int(HOUR_S / EVERY_S))]


@given(st.integers(NOW - 7 * DAY_S, NOW + 7 * DAY_S))
def test_visitors_of_now_come_at_the_rate_of_the_past(now: int) -> None:
    hour = now - now % HOUR_S
    for link in LINKS:
        past = link.expected(hour, now)
        assert expected_hits(link, now, DAY_S) * HOUR_S / EVERY_S == pytest.approx(past, abs=1e-9)


@given(st.integers(NOW - 7 * DAY_S, NOW + 7 * DAY_S))
def test_one_link_has_a_burst_that_is_small_beside_its_past(now: int) -> None:
    for link in LINKS:
        past = expected_hits(link, now, DAY_S)
        if link.key != BURST_KEY:
            assert expected_hits(link, now, 0) == past
            continue
        first_hour = sum(expected_hits(link, now, second) for second in SECONDS_OF_AN_HOUR)
        past *= len(SECONDS_OF_AN_HOUR)
        assert first_hour - past == pytest.approx(BURST_HITS)
        assert first_hour <= 10 * past, "a card never says 63 times"


@pytest.mark.parametrize("hour", [3, 8, 12, 19])
def test_an_hour_of_visitors_is_as_large_as_the_same_hour_yesterday(hour: int) -> None:
    begin = NOW - NOW % DAY_S + hour * HOUR_S
    now, hits, agents = Random(hour), Counter[bool](), {bot.agent for bot in BOTS}
    for second in SECONDS_OF_AN_HOUR:
        hits.update(hit["ua"] in agents for hit in made_up_hits(now, int(begin + second), DAY_S + second))
    past = Counter[bool]()
    for _, buckets in made_up_years(begin, CLICKS):
        for start, people, bots in buckets:
            if begin - DAY_S <= start < begin - DAY_S + HOUR_S:
                past.update({False: people, True: bots})
    assert hits[False] == pytest.approx(past[False], abs=4 * (hits[False] + past[False]) ** 0.5)
    assert 0 < hits[True] < hits[False] / 2
    assert hits[False] < 4 * HOUR_S / MINUTE_S, "one to three a minute by day, fewer at night"


def test_visitors_are_hits_that_count_and_say_where_they_come_from() -> None:
    chance = Random(1)
    hits = [hit for second in range(3_600) for hit in made_up_hits(chance, NOON + second, second)]
    client = Client()
    receipt = client.send(hits).json
    assert (receipt["counted"], receipt["refused"]) == (len(hits), 0)
    assert client.intake.bots.total() > 0
    assert len({hit["key"] for hit in hits}) > 5
    for field in ("ref", "country", "source", "groups"):
        assert any(field in hit for hit in hits), field
