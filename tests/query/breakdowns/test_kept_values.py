"""Answers where values are kept for a time: at once, on whichever days rows were folded, and nothing else changes."""

from __future__ import annotations

import json
from random import Random
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.answers.written import as_json
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder
from clickcurve.buckets.breakdowns.kept_time import KeptTime
from clickcurve.buckets.ladder import DAY_S, HOUR_S, fold_day
from clickcurve.keys import link_subject
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.reader import BreakdownReader
from query.breakdowns.why import ChangeQueries
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.queried_nodes import run

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
TODAY = NOW // DAY_S * DAY_S
K = link_subject("k")
DAYS = (2, 10, 33, 40, 90, 400, 500)


def reader_with(nodes: AttributeNodes, days: int) -> BreakdownQueries:
    """Questions to the same rows where values of `ref` are kept for so many days, and no pass ran since."""
    bounded = BoundedLadder(BREAKDOWN.ladder, BREAKDOWN.caps, (KeptTime("ref", days),))
    mine = nodes.owners[0]
    reader = BreakdownReader(
        nodes.store.rows,
        mine.pending,
        mine.pending_breakdowns,
        nodes.store.ladder,
        bounded,
        is_corrected=lambda _: False,
    )
    return BreakdownQueries(reader, tuple(nodes.since), nodes.since.__getitem__, lambda: nodes.now + 0.5)


def by(queries: BreakdownQueries, dimension: str, query: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(as_json(run(queries.by(K, dimension, query.encode()))))
    return answer


def kept_from(days: int) -> int:
    (time,) = (KeptTime("ref", days),)
    return time.kept_since(fold_day(NOW), BREAKDOWN.ladder)


@given(st.integers(0, 2**64 - 1), st.sampled_from(DAYS))
def test_every_answer_is_that_of_the_raw_hits(seed: int, days: int) -> None:
    rng = Random(seed)
    nodes = AttributeNodes(NOW, {"ref": 0, "country": 0}, rng.choice((1, 3)))
    since = kept_from(days)
    for _ in range(rng.randrange(1, 30)):
        t = NOW - rng.randrange(rng.choice((HOUR_S, 40 * DAY_S, 600 * DAY_S)))
        said = (("ref", rng.choice(["", "a", "b"])), ("country", rng.choice(["", "DE", "US"])))
        nodes.accept(AttributeHit("k", t, rng.choice((1, 5)), said=said), rng.randrange(len(nodes.owners)) + 1)
        if rng.random() < 0.2:
            rng.choice(nodes.owners).flush(NOW - rng.randrange(3) * DAY_S)
    for owner in nodes.owners[1:]:
        owner.flush(NOW)
    queries = reader_with(nodes, days)
    assert by(queries, "country") == nodes.by("k", "country"), "the other dimension stays as it is"
    for start, end in ((0, NOW), (since, NOW), (TODAY - 20 * DAY_S, TODAY - 5 * DAY_S), (TODAY - 300 * DAY_S, NOW)):
        query = urlencode({"from": start, "to": end})
        answer, before = by(queries, "ref", query), nodes.by("k", "ref", query)
        assert answer["kept_since"] == since and "kept_since" not in before
        low, high = before["from"], before["to"]
        assert (answer["from"], answer["to"], answer["total"]) == (low, high, before["total"])
        kept, gone = (
            nodes.of("k", "ref", *span) for span in ((max(low, since), max(high, since)), (low, min(high, since)))
        )
        true, _ = nodes.truth(kept, "ref")
        old, _ = nodes.truth(gone, "ref")
        not_given = true[""] + old.pop("", 0)
        assert answer["other"] == sum(old.values())
        expected = {value: count for value, count in {**true, "": not_given}.items() if count}
        assert {each["value"]: each["at_least"] for each in answer["values"]} == expected
        for each in answer["values"]:
            more = 0 if each["value"] == "" else answer["other"]
            assert each["at_most"] == each["at_least"] + more
    why = json.loads(
        as_json(
            run(
                ChangeQueries(nodes.queries, queries).why(
                    K, urlencode({"from": TODAY - 9 * DAY_S, "to": TODAY}).encode()
                )
            )
        )
    )
    for part in why["dimensions"]:
        changed = sum(each["change"] for each in part["causes"])
        assert changed + part["not_shown"]["change"] + part["other"] + part["unrecorded"] == why["total"]["change"]
        assert part.get("kept_since") == (since if part["dimension"] == "ref" else None)


@pytest.mark.parametrize("days", DAYS)
def test_a_curve_of_a_value_begins_with_what_is_kept(days: int) -> None:
    nodes = AttributeNodes(NOW, {"ref": 0})
    for ago in range(0, 600, 7):
        nodes.accept(AttributeHit("k", NOW - ago * DAY_S, 2, said=(("ref", "a"),)))
    query = urlencode({"value": "a", "from": NOW - 599 * DAY_S, "to": NOW, "step": "native"}).encode()
    curve = run(reader_with(nodes, days).curve(K, "ref", query))
    since = kept_from(days)
    assert curve.kept_since == since
    for point in curve.points:
        true = sum(hit.count for hit in nodes.of("k", "ref", point.start, point.end))
        assert (point.at_least, point.at_most) == ((true, true) if point.start >= since else (0, true))
