"""What is asked and admitted, by minute: each decision once, with its cost, in the minute that it was made in."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.keys import caller_key, limit_key
from clickcurve.limiter.key import identity_of
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from server.limiter.history import DecisionSums, asked_in, digest_of, parse_caller

START = 1_772_000_040
ASKED, ADMITTED = limit_key("login", "asked"), limit_key("login", "admitted")
IP = {"ip": "203.0.113.7"}


class Told:
    """A limiter and its history, with a clock that is moved by hand."""

    def __init__(self, **rule: object) -> None:
        self.now = float(START)
        self.history = DecisionSums()
        self.limiter = Limiter(
            parse_rules({"login": {"by": "ip", "rates": "2/m", **rule}, "other": {"by": "ip", "rates": "1/s"}}),
            clock=lambda: self.now,
            listener=lambda event, cost, decision: self.history.add(event, cost, decision, self.now),
        )


def test_a_refused_hit_was_asked_and_not_admitted() -> None:
    told = Told()
    assert [told.limiter.hit("login", IP).allowed for _ in range(3)] == [True, True, False]
    assert told.history.take() == {START: {ASKED: 3, ADMITTED: 2}}


def test_a_decision_counts_its_cost() -> None:
    told = Told(rates="10/m")
    assert told.limiter.hit("login", IP, 7).allowed
    assert not told.limiter.hit("login", IP, 4).allowed
    assert told.history.take() == {START: {ASKED: 11, ADMITTED: 7}}


def test_each_event_and_each_minute_has_sums_of_its_own() -> None:
    told = Told()
    told.limiter.hit("login", IP)
    told.now += 59.9
    told.limiter.hit("login", IP)
    told.limiter.hit("other", IP)
    told.now += 0.1
    told.limiter.hit("other", IP)
    other_asked, other_admitted = limit_key("other", "asked"), limit_key("other", "admitted")
    assert told.history.take() == {
        START: {ASKED: 2, ADMITTED: 2, other_asked: 1, other_admitted: 1},
        START + 60: {other_asked: 1},
    }


def test_what_a_rule_in_shadow_mode_would_refuse_is_admitted() -> None:
    told = Told(shadow=True)
    assert told.limiter.hit("login", IP, 3).shadow
    assert told.history.take() == {START: {ASKED: 3, ADMITTED: 3}}


def test_a_peek_is_nothing() -> None:
    told = Told()
    told.limiter.peek("login", IP)
    assert told.history.take() == {}


def test_a_reservation_counts_when_it_is_made_also_if_it_is_cancelled() -> None:
    told = Told()
    reservation = told.limiter.reserve("login", IP).reservation
    assert reservation is not None
    told.limiter.cancel("login", reservation)
    assert told.history.take() == {START: {ASKED: 1, ADMITTED: 1}}


def test_a_caller_that_waits_in_vain_asked_once() -> None:
    told = Told(rates="1/h")
    told.limiter.hit("login", IP)
    assert not told.limiter.wait("login", IP, wait_s=5).allowed
    assert told.history.take() == {START: {ASKED: 2, ADMITTED: 1}}


def test_what_was_taken_is_gone_and_what_is_given_back_is_added() -> None:
    told = Told()
    told.limiter.hit("login", IP)
    taken = told.history.take()
    assert told.history.take() == {}
    told.limiter.hit("login", IP)
    told.now += 60
    told.limiter.hit("login", IP)
    told.history.give_back(taken)
    assert told.history.take() == {START: {ASKED: 2, ADMITTED: 2}, START + 60: {ASKED: 1}}


@pytest.mark.parametrize("given_back", [False, True])
def test_sums_that_are_never_taken_are_bounded_and_the_lost_ones_counted(given_back: bool) -> None:
    told = Told(rates="1/h")
    decision = told.limiter.hit("login", IP, now=START)
    history = DecisionSums(max_sums=4)
    for n in range(5):
        history.add("login", 2, decision, START + 60 * n)
        if given_back:
            history.give_back(history.take())
    kept = history.take()
    assert 2 <= len(kept) <= 3
    assert list(kept) == [START + 60 * n for n in range(5)][-len(kept) :]
    assert history.lost == 2 * (5 - len(kept))


def test_lost_hits_are_those_that_were_asked() -> None:
    assert asked_in({60: {ASKED: 3, ADMITTED: 2}, 120: {ADMITTED: 9, limit_key("a.b-c_d", "asked"): 4}}) == 7


# --- callers ----------------------------------------------------------------------------------------------------------
HEARD = list[tuple[str, str, int, bool]]


def limiter_with(heard: HEARD, *rules: Mapping[str, object]) -> Limiter:
    return Limiter(
        parse_rules({"login": list(rules)}),
        clock=lambda: START,
        caller_listener=lambda event, caller, cost, decision: heard.append((event, caller, cost, decision.allowed)),
    )


def test_listeners_hear_of_callers_where_a_rule_says_so() -> None:
    heard: HEARD = []
    limiter = limiter_with(heard, {"by": ["user", "ip"], "rates": "1/m", "history": "callers"})
    ann, guest = {"user": "ann", **IP}, dict(IP)
    for features in (ann, ann, guest):
        limiter.hit("login", features, 1)
    limiter.peek("login", ann)
    by_user, by_ip = identity_of({"user": "ann"}), identity_of(IP)
    assert heard == [("login", by_user, 1, True), ("login", by_user, 1, False), ("login", by_ip, 1, True)]


def test_listeners_hear_of_a_caller_once_for_each_way_to_name_it_and_not_where_no_rule_says_so() -> None:
    heard: HEARD = []
    kept, other = {"history": "callers", "by": "ip"}, {"by": "user", "rates": "9/d"}
    limiter = limiter_with(heard, {**kept, "rates": "1/m"}, {**kept, "rates": "5/h"}, other)
    reserved = limiter.reserve("login", {"user": "ann", **IP}, 1)
    assert reserved.allowed
    assert heard == [("login", identity_of(IP), 1, True)]
    limiter.replace(parse_rules({"login": other}))
    limiter.hit("login", {"user": "ann"})
    assert len(heard) == 1


def test_a_caller_that_people_name_is_the_one_that_was_counted() -> None:
    assert parse_caller("ip=203.0.113.7") == IP
    assert parse_caller("b=2 'a=1 =x'") == {"a": "1 =x", "b": "2"}
    assert identity_of({"b": "2", "a": "1"}) == identity_of({"a": "1", "b": "2"})
    digests = {
        digest_of(b"secret", identity_of(caller))
        for caller in ({"a": "bc"}, {"ab": "c"}, {"a": "b", "c": "d"}, {"a": "b1:c1:d"}, {"user": "x"}, {"ip": "x"})
    }
    assert len(digests) == 6
    assert digest_of(b"secret", "x") != digest_of(b"another", "x")


@pytest.mark.parametrize("text", ["", "ann", "=ann", "user=", "user=ann x", "user='ann"])
def test_what_names_no_caller_is_refused(text: str) -> None:
    with pytest.raises(ParameterInvalid, match="is not written as feature=value"):
        parse_caller(text)


def test_callers_of_a_day_are_bounded_and_the_rest_share_a_history() -> None:
    decision = Limiter(parse_rules({"login": {"by": "ip", "rates": "9/m"}}), clock=lambda: START).hit("login", IP)
    history = DecisionSums(max_callers=2)
    for digest in ("a", "b", "c", "d", "a"):
        history.add_caller("login", digest, 1, decision, START)
    sums = history.take()[START]
    found = {digest: sums[caller_key("login", "asked", digest)] for digest in ("a", "b", "others")}
    assert (found, len(sums)) == ({"a": 2, "b": 1, "others": 2}, 6)
    history.add_caller("login", "d", 1, decision, START + 86_400)
    assert caller_key("login", "admitted", "d") in history.take()[START + 86_400]
