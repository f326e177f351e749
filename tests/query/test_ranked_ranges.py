"""Rankings of a range between two moments, on rows of any age, also of owners whose clock was ahead."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.ladder import fold_day
from tests.query.queried_nodes import QueriedNodes

NOW = 1_772_361_480  # 2026-03-01T10:38
DAY_S = 86_400
AGES_S = (0, 3_600, DAY_S, 3 * DAY_S, 20 * DAY_S, 200 * DAY_S, 800 * DAY_S)


def hit_at_random(nodes: QueriedNodes, drawn: random.Random, hits: int, owners: int = 2) -> None:
    for _ in range(hits):
        t = NOW - drawn.choice(AGES_S) - drawn.randrange(2 * DAY_S)
        key, groups = f"k{drawn.randrange(8)}", (f"g{drawn.randrange(2)}",)
        nodes.hit(key, t, drawn.randrange(1, 9), drawn.random() < 0.2, drawn.randrange(owners) + 1, groups)


def drawn_range(drawn: random.Random) -> tuple[int, int]:
    """Whole minutes, now and then whole hours or days."""
    start, end = sorted(NOW - drawn.choice(AGES_S) - drawn.randrange(DAY_S) for _ in range(2))
    unit = drawn.choice((60, 3_600, DAY_S))
    return start // unit * unit, end // unit * unit + unit


def agrees(nodes: QueriedNodes, answer: Mapping[str, Any], start: int, end: int, bots: str) -> None:
    """Whether a ranking of all links is one of the range, by each link's own total."""
    query = f"from={start}&to={end}&bots={bots}"
    assert (answer["from"], answer["to"]) == (start, end)
    counts = {each["key"]: each["count"] for each in answer["links"]}
    assert list(counts) == sorted(counts, key=lambda key: (-counts[key], key))
    for key in {hit.key for hit in nodes.hits}:
        total = nodes.total(key, query)
        assert counts.get(key, 0) >= total["at_least"], key
        if answer["exact"] and key in counts:
            assert counts[key] == total["total"], key


@settings(max_examples=60, deadline=None)
@given(st.booleans(), st.integers(0, 2**32), st.sampled_from(["exclude", "include", "only"]))
def test_a_ranking_of_a_range_has_what_each_link_counts_in_it(walked: bool, seed: int, bots: str) -> None:
    drawn = random.Random(seed)
    nodes = QueriedNodes(owners=2, now=NOW)
    if walked:
        nodes.links.ranked = None
    hit_at_random(nodes, drawn, 40)
    nodes.flush()
    for _ in range(6):
        start, end = drawn_range(drawn)
        hit_at_random(nodes, drawn, 3, owners=1)
        query = f"from={start}&to={end}&bots={bots}&limit=1000"
        before = nodes.top(query)
        agrees(nodes, before, start, end, bots)
        nodes.flush()
        assert nodes.top(query) == before


@settings(max_examples=60, deadline=None)
@given(st.booleans(), st.integers(0, 2**32), st.integers(1, 60))
def test_rows_that_a_clock_ahead_has_folded_are_not_left_out(walked: bool, seed: int, days: int) -> None:
    """As after a clock that went back: rows are folded to a later day than that of the question."""
    drawn = random.Random(seed)
    nodes = QueriedNodes(owners=2, now=NOW)
    if walked:
        nodes.links.ranked = None
    hit_at_random(nodes, drawn, 40)
    nodes.owners[0].flush(NOW + days * DAY_S)
    nodes.owners[1].flush(NOW)
    for _ in range(6):
        start, end = drawn_range(drawn)
        agrees(nodes, nodes.top(f"from={start}&to={end}&limit=1000"), start, end, "exclude")
    assert fold_day(NOW + days * DAY_S) > fold_day(NOW)


def test_a_bucket_that_the_range_cuts_counts_whole_and_is_not_exact() -> None:
    nodes = QueriedNodes(now=NOW)
    hour = NOW // 3_600 * 3_600 - 20 * DAY_S
    for minute in (1, 50):
        nodes.hit("cut", hour + minute * 60)
    nodes.hit("whole", hour + 7_200, groups=("g",))
    nodes.flush()
    answer = nodes.top(f"from={hour + 1_800}&to={hour + 10_800}")
    assert answer == {
        "from": hour + 1_800,
        "to": hour + 10_800,
        "links": [{"key": "cut", "count": 2}, {"key": "whole", "count": 1}],
        "exact": False,
    }
    assert nodes.top(f"from={hour}&to={hour + 10_800}")["exact"]
    assert nodes.top(f"from={hour + 1_800}&to={hour + 10_800}&limit=1")["exact"] is False
    assert nodes.top_groups(f"from={hour + 1_800}&to={hour + 10_800}")["exact"], "its only hit is known to lie inside"


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        (f"from={NOW - 600}", NOW - 600, NOW // 60 * 60 + 60),
        (f"to={NOW - 600}", 0, NOW - 600),
        ("from=2026-02-01&to=2026-03-01&tz=Asia/Kolkata", 1_769_884_200, 1_772_303_400),
    ],
)
def test_an_end_that_is_left_out_is_as_in_other_questions(query: str, start: int, end: int) -> None:
    answer = QueriedNodes(now=NOW).top(query)
    assert (answer["from"], answer["to"], answer["links"], answer["exact"]) == (start, end, [], True)
