"""The curve of a set of links: the sum of their curves, and what a body may ask for."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.buckets.ladder import fold_day
from query import sums
from tests.power import examples
from tests.query.queried_nodes import QueriedNodes
from tests.query.test_routes import Node

NOW = 1_772_361_480
DAY_S = 86_400
QUERIES = ("", "last=30d&step=1d", "from=0", "to=2026-02-20", "last=2y&bots=include", "from=2025-06-10&to=2026-02-17")


def busy(seed: int) -> QueriedNodes:
    drawn = random.Random(seed)
    nodes = QueriedNodes(owners=2, now=NOW)
    for _ in range(60):
        age = drawn.choice([0, 3_600, DAY_S, 9 * DAY_S, 200 * DAY_S, 900 * DAY_S]) + drawn.randrange(DAY_S)
        nodes.hit(f"k{drawn.randrange(6)}", NOW - age, drawn.randrange(1, 9), drawn.random() < 0.2)
        if drawn.random() < 0.1:
            nodes.flush()
    nodes.owners[1].flush(NOW)
    return nodes


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32), st.sets(st.integers(0, 8)), st.sampled_from(QUERIES))
def test_a_sum_is_the_sum_of_its_links_curves(seed: int, numbers: set[int], query: str) -> None:
    nodes = busy(seed)
    keys = [f"k{number}" for number in numbers]
    summed = nodes.sum(keys, query)
    given_range = f"from={summed['from']}&to={summed['to']}&step={summed['step']}"
    bots = "&bots=include" if "include" in query else ""
    if summed["from"] == summed["to"]:  # an end alone, before the first hit of all
        assert (summed["points"], summed["total"]) == ([], 0)
        return
    curves = [nodes.curve(key, given_range + bots) for key in keys]
    for name in ("total", "at_least", "at_most"):
        assert summed[name] == sum(curve[name] for curve in curves)
    assert summed["exact"] == (summed["at_least"] == summed["at_most"])
    firsts = [curve["first_hit"] for curve in curves if curve["first_hit"] is not None]
    assert summed["first_hit"] == min(firsts, default=None)
    assert summed["key"] is None
    for at, point in enumerate(summed["points"]):
        assert point["count"] == sum(curve["points"][at]["count"] for curve in curves)
        assert all((point["start"], point["end"]) == (c["points"][at]["start"], c["points"][at]["end"]) for c in curves)
    truth = sum(nodes.counted(key, summed["from"], summed["to"]) for key in keys)
    if not bots:
        assert summed["at_least"] <= truth <= summed["at_most"]


def test_a_key_that_is_named_twice_counts_once() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("a", NOW, 3)
    assert nodes.sum(["a", "a", "unknown"])["total"] == 3
    assert nodes.sum([])["total"] == 0


def test_a_row_that_was_folded_by_a_clock_ahead_says_which_buckets_are_kept() -> None:
    nodes = QueriedNodes(owners=2, now=NOW)
    for number in range(20):
        nodes.hit(f"k{number}", NOW - 60, 1, owner=1 + (number == 19))
    nodes.owners[0].flush(NOW)
    nodes.owners[1].flush(NOW + 3 * DAY_S)
    found = nodes.sum([f"k{number}" for number in range(20)], "last=1h&step=1m")
    assert found["total"] == found["at_most"] == 20
    assert max(point["end"] - point["start"] for point in found["points"]) == 3_600, "as they are kept that day"
    assert fold_day(NOW + 3 * DAY_S) > fold_day(NOW)


def test_an_hour_that_a_clock_ahead_has_folded_and_the_range_cuts_is_not_certain_of_any_link() -> None:
    nodes = QueriedNodes(owners=2, now=NOW)
    nodes.hit("ahead", NOW - 60, 4, owner=2)
    for minutes in (20, 1):
        nodes.hit("cut", NOW - minutes * 60)
    nodes.owners[0].flush(NOW)
    nodes.owners[1].flush(NOW + 3 * DAY_S)
    found = nodes.sum(["cut", "ahead"], f"from={NOW - 600}&to={NOW + 60}&step=1m")
    assert (found["at_least"], found["at_most"], found["exact"]) == (4, 6, False)


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"", 400, None),
        (b"[]", 400, None),
        (b'{"keys": ["a"', 400, None),
        (b"[" * 100_000, 400, None),
        (b"{}", 422, "keys"),
        (b'{"keys": "a"}', 422, "keys"),
        (b'{"keys": [1]}', 422, "key"),
        (b'{"keys": [""]}', 422, "key"),
        (b'{"keys": ["\\ud800"]}', 422, "key"),
        (b'{"keys": ["a"], "key": "b"}', 422, "key"),
        (json.dumps({"keys": ["a"] * 1_001}).encode(), 422, "keys"),
        (b" " * (sums.BODY_BYTES + 1), 413, None),
    ],
)
def test_a_body_that_names_no_keys_is_refused(body: bytes, status: int, field: str | None) -> None:
    answer = Node(QueriedNodes(now=NOW)).ask("POST", "/v1/sum", content=body)
    assert (answer.status_code, answer.json()["field"]) == (status, field)


def test_the_route_answers_a_curve_in_both_forms() -> None:
    nodes = QueriedNodes(now=NOW)
    keys = [f"{'é' * 510}{n:03}" for n in range(1_000)]
    nodes.hit(keys[7], NOW, 3)
    node = Node(nodes)
    body: dict[str, Any] = {"keys": keys}
    answer = node.ask("POST", "/v1/sum?last=1h&step=1h", json=body)
    assert answer.json() == node.get("/v1/curve?last=1h&step=1h").json()
    assert answer.headers["vary"] == "accept"
    csv = node.ask("POST", "/v1/sum?last=1h&step=1h", json=body, headers={"accept": "text/csv"})
    assert csv.text.splitlines()[1].endswith(",3,open")
    assert node.ask("POST", "/v1/sum?key=a", json=body).status_code == 422
    assert node.get("/v1/sum").status_code == 405
