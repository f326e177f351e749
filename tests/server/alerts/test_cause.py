"""What an alert says of where its hits come from: certain, in the alert's own span, and nothing that is not told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.keys import link_subject
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.reader import BreakdownReader
from query.breakdowns.why import ChangeQueries
from server.alerts.cause import AlertCause, CauseFinder
from server.alerts.ledger import Noted
from server.alerts.message import FIRED, AlertMessage
from server.settings.alerts import Alert, parse_alerts
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.queried_nodes import run
from tests.server.alerts.watched import NOW, SECRET, WatchedNode, unavailable

START, END = NOW + 30 - HOUR_S, NOW + 30


def nodes_with(*hits: tuple[int, str, int]) -> AttributeNodes:
    """Hits of `launch`: how many seconds ago, from where, how many."""
    nodes = AttributeNodes(NOW, {"ref": 0, "country": 0})
    for ago, ref, count in hits:
        nodes.accept(AttributeHit("launch", NOW - ago, count, said=(("ref", ref), ("country", "DE"))))
    return nodes


def finder(nodes: AttributeNodes, least: int = 0) -> CauseFinder:
    mine = nodes.owners[0]
    reader = BreakdownReader(
        nodes.store.rows, mine.pending, mine.pending_breakdowns, nodes.store.ladder, nodes.bounded, least=least
    )
    shown = BreakdownQueries(reader, tuple(nodes.since), nodes.since.__getitem__, lambda: nodes.now + 0.5)
    return CauseFinder(ChangeQueries(nodes.queries, shown), shown, least)


def alert_of(when: str = "over 1000 in 1h", **more: str) -> Alert:
    (alert,) = parse_alerts(
        [{"link": "launch", "when": when, "url": "https://hooks.example/", "secret": SECRET, **more}]
    )
    return alert


def cause_of(nodes: AttributeNodes, least: int = 0) -> AlertCause | None:
    return asyncio.run(finder(nodes, least).find(alert_of(), START, END))


STEADY = [(HOUR_S * hour + 60, "news.example", 30) for hour in range(1, 30)]


def test_the_value_that_brought_the_hits_is_named_with_what_is_certain() -> None:
    """The span cuts both hours: what is certain is less than what is there."""
    nodes = nodes_with(
        *STEADY, (60, "x.com", 900), (60, "news.example", 80), (50 * 60, "x.com", 40), (HOUR_S + 600, "x.com", 20)
    )
    cause = cause_of(nodes)
    assert cause is not None
    assert (cause.dimension, cause.value) == ("ref", "x.com")
    assert (cause.at_least, cause.at_most) == (910, 940), (
        "the hour that is cut has 60 of it, 50 of its hits are outside"
    )
    message = AlertMessage("msg_1", FIRED, NOW, alert_of(), (1_020, 1_020), cause)
    assert "over 1000 in 1h: 910 to 940 of them from x.com (referrer)" in message.text()
    assert json.loads(message.body())["data"]["cause"] == {
        "dimension": "ref", "value": "x.com", "at_least": 910, "at_most": 940
    }  # fmt: skip


@pytest.mark.parametrize(
    "hits", [[], [(60, f"site{n}.example", 50) for n in range(30)]], ids=["no more than before", "many, each a little"]
)
def test_where_nothing_stands_out_nothing_is_said(hits: Sequence[tuple[int, str, int]]) -> None:
    assert cause_of(nodes_with(*STEADY, *hits)) is None


def test_few_hits_are_named_to_nobody_outside() -> None:
    for outside in (0, 5):  # in the second case the bucket has enough hits, and too few are certain
        nodes = nodes_with((5 * HOUR_S, "news.example", 9), (50 * 60, "home-of-ann.example", 6))
        if outside:
            nodes.accept(AttributeHit("launch", NOW - HOUR_S - 600, outside, said=(("ref", "news.example"),)))
        named = cause_of(nodes)
        assert named is not None and (named.value, named.at_least) == ("home-of-ann.example", 6 - outside)
        assert cause_of(nodes, least=5 if outside else 7) is None


@given(st.integers(0, 2**64 - 1))
def test_bounds_hold_for_the_raw_hits_of_the_span(seed: int) -> None:
    rng = Random(seed)
    spread = rng.choice((2 * HOUR_S, 30 * HOUR_S, 90 * DAY_S))
    hits = [(rng.randrange(spread), rng.choice(["", "a", "b", "c"]), rng.choice((1, 7))) for _ in range(20)]
    nodes = nodes_with(*hits)
    if rng.random() < 0.5:
        nodes.owners[0].flush(NOW)
    start = (NOW - rng.randrange(spread)) // 60 * 60
    end = start + rng.randrange(1, 200) * 60 * rng.choice((1, 60))
    asked = nodes.breakdowns.bounds_in(link_subject("launch"), "ref", ["a", "b", ""], (start, end))
    inside = [hit for hit in nodes.hits if start <= hit.minute < end]
    for value, bounds in zip(["a", "b", ""], run(asked), strict=True):
        true = sum(hit.count for hit in inside if dict(hit.said)["ref"] == value)
        assert 0 <= bounds.at_least <= true <= bounds.at_most <= sum(hit.count for hit in nodes.hits)


def test_a_message_is_the_same_after_a_restart_and_falls_have_no_cause() -> None:
    node = WatchedNode({"link": "launch", "when": "over 10 in 1h"})
    hit = (60, "x.com", 11)
    node.nodes.hit("launch", NOW - 60, 11)
    node.causes = finder(nodes_with(hit))
    node.restart()
    node.receiver.faults = ["killed after"]
    node.visit()
    node.causes = None
    node.restart()
    node.visit(1)
    first, again = node.receiver.posts
    assert first == again
    assert json.loads(first[1])["data"]["cause"]["value"] == "x.com"
    assert not [text for text in node.store.notes().values() if "x.com" in text], "it is delivered: forgotten"
    node.visit(HOUR_S)
    over = json.loads(node.receiver.posts[-1][1])
    assert over["type"] == "alert.over" and "cause" not in over["data"]
    quiet = WatchedNode({"link": "launch", "when": "under 12 in 1h"})
    quiet.nodes.hit("launch", NOW - 60, 11)
    quiet.nodes.hit("launch", NOW - DAY_S, 11)
    quiet.causes = finder(nodes_with(hit))
    quiet.restart()
    quiet.visit()
    assert "cause" not in json.loads(quiet.receiver.posts[0][1])["data"]


def test_states_that_an_older_version_noted_are_read() -> None:
    older = b'[true,1772407710,"msg_1",["url"],[11,11]]'
    assert msgspec.json.decode(older, type=Noted) == Noted(True, 1_772_407_710, "msg_1", ("url",), (11, 11))


def test_an_alert_whose_cause_cannot_be_told_is_said_without(monkeypatch: pytest.MonkeyPatch) -> None:
    node = WatchedNode({"link": "launch", "when": "over 10 in 1h"})
    node.nodes.hit("launch", NOW - 60, 11)
    node.causes = finder(nodes := nodes_with((60, "x.com", 11)))

    async def down(key: str) -> object:
        raise unavailable()

    monkeypatch.setattr(nodes.store, "rows", down)
    node.causes = finder(nodes)
    node.restart()
    assert node.visit() == ["msg_1"]
    assert "cause" not in json.loads(node.receiver.posts[0][1])["data"]
