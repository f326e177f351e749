"""What is asked and admitted, by minute: each decision once, with its cost, in the minute that it was made in."""

from __future__ import annotations

import pytest

from ratelimit.history import History, asked_in
from ratelimit.limiter import Limiter
from ratelimit.rule import parse_rules
from storage.contract import limit_key

START = 1_772_000_040
ASKED, ADMITTED = limit_key("login", "asked"), limit_key("login", "admitted")
IP = {"ip": "203.0.113.7"}


class Told:
    """A limiter and its history, with a clock that is moved by hand."""

    def __init__(self, **rule: object) -> None:
        self.now = float(START)
        self.history = History()
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


def test_who_waits_in_vain_asked_once() -> None:
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
def test_sums_that_nobody_takes_are_bounded_and_what_goes_is_counted(given_back: bool) -> None:
    told = Told(rates="1/h")
    decision = told.limiter.hit("login", IP, now=START)
    history = History(max_minutes=3)
    for n in range(5):
        history.add("login", 2, decision, START + 60 * n)
        if given_back:
            history.give_back(history.take())
    assert history.lost == 4
    assert history.take() == {START + 60 * n: {ASKED: 2, ADMITTED: 2} for n in range(2, 5)}


def test_lost_hits_are_those_that_were_asked() -> None:
    assert asked_in({60: {ASKED: 3, ADMITTED: 2}, 120: {ADMITTED: 9, limit_key("a.b-c_d", "asked"): 4}}) == 7
