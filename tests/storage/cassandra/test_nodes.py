"""Which node is asked what: the policies alone, told what became of requests by the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from storage.cassandra.nodes import (
    HEDGED_SOON,
    LATER,
    LEAST_S,
    MOST_HEDGED,
    SOON,
    Heard,
    Hedges,
    SilentLast,
    condition_timeout_s,
)


class Sent:
    """A request that was sent to these nodes, one after the other; `ends` with the answer of one of them, or none."""

    def __init__(self, *nodes: str) -> None:
        self.attempted_hosts = list(nodes)
        self.coordinator_host: str | None = None
        self._callbacks: list[tuple[Callable[[Any], None], Callable[[Exception], None]]] = []

    def add_callbacks(self, callback: Callable[[Any], None], errback: Callable[[Exception], None]) -> None:
        self._callbacks.append((callback, errback))

    def ends(self, answered: str | None) -> None:
        self.coordinator_host = answered
        for callback, errback in self._callbacks:
            if answered is None:
                errback(TimeoutError())
            else:
                callback([])


class Ear:
    """What was heard of nodes, and which of them were asked for a sign."""

    def __init__(self) -> None:
        self.silent: set[Any] = set()
        self.asked: list[str] = []
        self.heard = Heard(self.silent, self.asked.append)

    def send(self, *nodes: str) -> Sent:
        sent = Sent(*nodes)
        self.heard.follow(sent)
        return sent


def test_a_node_that_another_one_had_to_answer_for_is_silent_until_it_gives_a_sign() -> None:
    ear = Ear()
    ear.send("a", "b").ends("b")
    assert ear.silent == {"a"}
    ear.send("a", "b").ends("b")
    assert ear.asked == ["a"], "it is asked once, until it answers"
    ear.heard.answered("a")
    assert ear.silent == set()


def test_a_node_that_gave_no_answer_to_what_is_sent_once_is_silent() -> None:
    ear = Ear()
    ear.send("a").ends(None)
    assert ear.silent == {"a"}


def test_a_node_that_lost_one_answer_and_gave_others_since_is_not_silent() -> None:
    ear = Ear()
    lost, other = ear.send("a", "b"), ear.send("a")
    other.ends("a")
    lost.ends("b")
    assert ear.silent == set()
    ear.send("a").ends("a")
    ear.send("a", "b").ends("b")  # of which it has given no sign
    assert ear.silent == {"a"}


class InTurn:
    def make_query_plan(self, working_keyspace: str | None = None, query: object = None) -> Iterable[str]:
        return iter(("a", "b", "c", "d"))


def test_silent_nodes_are_asked_last_and_the_others_twice_in_their_order() -> None:
    silent: set[str] = set()
    policy = SilentLast(InTurn(), silent)
    assert list(policy.make_query_plan()) == [*"abcd", *"abcd"]
    silent |= {"a", "c"}
    assert list(policy.make_query_plan()) == [*"bd", *"bd", *"ac"]


def delays(hedges: Hedges, hosts: Sequence[str | None]) -> list[float]:
    plan = hedges.new_plan(None, None)
    return [plan.next_execution(host) for host in hosts]


def test_a_second_node_is_asked_soon_and_a_third_one_later() -> None:
    assert delays(Hedges(8.0), (None, "b", "c")) == [8 * SOON, 8 * LATER, -1]


def test_where_many_requests_need_a_second_node_it_is_asked_later() -> None:
    hedges = Hedges(8.0)
    first = [delays(hedges, (None, "b"))[0] for _ in range(1_000)]  # every request needs one
    assert first.count(8 * SOON) < MOST_HEDGED + HEDGED_SOON * 1_100
    assert 8 * LATER in first[-20:]
    for _ in range(round(MOST_HEDGED / HEDGED_SOON)):
        delays(hedges, (None,))  # no request needs one
    assert [delays(hedges, (None,))[0] for _ in range(10)] == [8 * SOON] * 10


@pytest.mark.parametrize(
    ("timeout_s", "waits"), [(8.0, [1.0, 2.0, 4.0, 4.0, 4.0]), (1.0, [LEAST_S, 0.5, 0.5, 0.5, 0.5]), (0.3, [0.15] * 5)]
)
def test_the_answer_to_a_conditional_update_is_waited_for_longer_each_time(
    timeout_s: float, waits: list[float]
) -> None:
    assert [condition_timeout_s(timeout_s, attempt) for attempt in range(5)] == waits
