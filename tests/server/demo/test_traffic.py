"""The made-up year: the same for the same minute, in buckets that land as they are, with the habits of its links."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from clickcurve.buckets.ladder import CLICKS, DAY_S, Ladder, fold_day
from ingest.hit import Moment
from ingest.imports.chunk import ChunkReader
from ingest.reading.request_sums import RequestSums
from server.demo.traffic import LINKS, YEAR_DAYS, made_up_history
from server.demo.visitors import made_up_hits
from tests.ingest.http_kit import Client

NOW = 1_772_407_710  # 2026-03-01T23:28:30Z, a Sunday


def test_every_bucket_lands_as_it_is_and_none_is_refused() -> None:
    sums = RequestSums(Moment(NOW, fold_day(NOW) * DAY_S, NOW + 300))
    for _ in ChunkReader(CLICKS).read_body(b"".join(made_up_history(NOW, CLICKS)), sums):
        pass
    receipt = sums.receipt()
    assert (receipt.refused, receipt.duplicate) == (0, 0)
    assert receipt.counted > 300_000


@pytest.mark.parametrize("ladder", ["quarter", "days"])
def test_a_year_is_the_same_for_the_same_minute(ladder: str) -> None:
    kept = Ladder.parse(ladder)
    lines = list(made_up_history(NOW, kept))
    assert lines == list(made_up_history(NOW + 20, kept))
    assert lines != list(made_up_history(NOW + 60, kept))
    assert len(lines) == len(LINKS)
    for line in map(json.loads, lines):
        starts = [start for start, _, _, _ in line["buckets"]]
        assert min(starts) >= NOW - YEAR_DAYS * DAY_S
        assert max(end for _, end, _, _ in line["buckets"]) <= NOW
        assert all(earlier < later for earlier, later in pairwise(starts))


def test_links_have_habits() -> None:
    days: dict[str, Counter[int]] = {}
    for line in map(json.loads, made_up_history(NOW, CLICKS)):
        counts = days.setdefault(line["key"], Counter())
        for start, _, people, _ in line["buckets"]:
            counts[(NOW - start) // DAY_S] += people
    docs, launch = days["docs"], days["launch"]
    assert sum(docs[day] for day in (1, 7, 8, 14)) < sum(docs[day] for day in (2, 3, 9, 10)) / 2, "weekends"
    assert launch[73] > 10 * launch[60] > 0 == launch[76], "the day it began"
    assert not days["spring-sale"].keys() & set(range(120)), "it ended"


def test_visitors_are_hits_that_count() -> None:
    chance = Random(1)
    hits = [hit for second in range(50) for hit in made_up_hits(chance, NOW + second)]
    client = Client()
    receipt = client.send(hits).json
    assert (receipt["counted"], receipt["refused"]) == (len(hits), 0)
    assert client.intake.bots.total() > 0
    assert len({hit["key"] for hit in hits}) > 5
