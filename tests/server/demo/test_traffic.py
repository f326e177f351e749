"""The made-up year: the same for the same minute, in kept buckets, with habits of links; and visitors of now."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from clickcurve.buckets.ladder import CLICKS, DAY_S, Ladder, fold_day
from server.demo.audience import AUDIENCES, hits_by_value
from server.demo.traffic import LINKS, YEAR_DAYS, made_up_years
from server.demo.visitors import made_up_hits
from tests.ingest.http_kit import Client

NOW = 1_772_407_710  # 2026-03-01T23:28:30Z, a Sunday


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


def test_visitors_are_hits_that_count_and_say_where_they_come_from() -> None:
    chance = Random(1)
    hits = [hit for second in range(50) for hit in made_up_hits(chance, NOW + second)]
    client = Client()
    receipt = client.send(hits).json
    assert (receipt["counted"], receipt["refused"]) == (len(hits), 0)
    assert client.intake.bots.total() > 0
    assert len({hit["key"] for hit in hits}) > 5
    for field in ("ref", "country", "source", "groups"):
        assert any(field in hit for hit in hits), field
