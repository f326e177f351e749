"""The traps into which other limiters fell, each as a test: those that concern what is decided, whatever keeps the
counts. The numbers are those of the list that the tests of the networked backends go on with."""

from __future__ import annotations

import pytest

from clickcurve.buckets.errors import RuleInvalid
from clickcurve.limiter.rates import parse_rates
from tests.limiter.given import ANN, BEN, MIDNIGHT, T, free, ten
from tests.limiter.places import Place, on


@on("token_bucket")
def test_trap_5_a_token_bucket_that_throws_fractions_away(strategy: str, place: Place) -> None:
    """10 an hour, a caller every 300 seconds, each of whom brings 5/6 of a token back: an hour of them must not empty a
    bucket by more than what came in short."""
    limiter = place.limiter({"e": {"by": "ip", "rates": "10/h", "strategy": strategy}})
    told = [limiter.hit("e", ANN, now=T + n * 300) for n in range(61)]
    # 61 hits in 5 hours: 10 there were, 50 came in, and the last of them is one too many.
    assert [decision.allowed for decision in told] == [True] * 55 + [False] + [True] * 5
    assert sum(decision.allowed for decision in told) == 60


@on("token_bucket")
def test_trap_5_looking_often_brings_as_much_as_looking_once(strategy: str, place: Place) -> None:
    limiter = place.limiter({"e": {"by": "ip", "rates": "7/h", "strategy": strategy}})
    assert limiter.hit("e", ANN, 7, now=T).allowed
    admitted = sum(limiter.hit("e", ANN, now=T + n * 0.7).allowed for n in range(1, 5_144))
    assert admitted == 7


@on()
def test_trap_6_a_clock_that_goes_backwards(strategy: str, place: Place) -> None:
    """Two callers on one key, one clock almost a second behind: together they get what one would."""
    limiter = ten(place, strategy)
    admitted = 0
    for n in range(40):
        for skew_s in (0.0, -0.9):
            admitted += limiter.hit("e", ANN, now=T + n / 100 + skew_s).allowed
    assert admitted == 10


@on()
def test_trap_7_the_first_hit_of_a_window_is_refused_without_being_charged(strategy: str, place: Place) -> None:
    """Same answers from every store is a suite of its own; this is the trace that told two of them apart."""
    limiter = ten(place, strategy)
    assert not limiter.hit("e", ANN, 11, now=T).allowed
    assert free(limiter, T) == 10


@on()
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"ip": "a/b", "user": "c"}, {"ip": "a", "user": "b/c"}),
        ({"ip": "a", "user": "bc"}, {"ip": "ab", "user": "c"}),
        ({"ip": "1:a", "user": "1:b"}, {"ip": "1:a1", "user": "b"}),
        ({"ip": "a b", "user": "c"}, {"ip": "a", "user": "b c"}),
        ({"ip": "a\0", "user": "c"}, {"ip": "a", "user": "\0c"}),
    ],
)
def test_trap_8_keys_that_are_not_injective(
    strategy: str, place: Place, one: dict[str, str], other: dict[str, str]
) -> None:
    rates = "1/s" if strategy == "per_second" else "1/m"
    limiter = place.limiter({"e": {"by": [["ip", "user"]], "rates": rates, "strategy": strategy}})
    assert limiter.hit("e", one, now=T).allowed
    assert limiter.hit("e", other, now=T).allowed
    assert not limiter.hit("e", one, now=T).allowed


@on()
def test_trap_9_a_key_that_is_accepted_and_ignored(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    assert sum(limiter.hit("e", ANN, now=T).allowed for _ in range(15)) == 10
    assert sum(limiter.hit("e", BEN, now=T).allowed for _ in range(15)) == 10


@pytest.mark.parametrize("text", ["10/monthly", "10/minut", "10/mx", "10/s5", "10/h x", "a10/h", "10/0s", "10//s"])
def test_trap_10_a_grammar_that_matches_a_prefix(text: str) -> None:
    with pytest.raises(RuleInvalid):
        parse_rates(text)


@on("tiered", "fixed")
def test_trap_13_headers_that_describe_another_window_than_the_decision(strategy: str, place: Place) -> None:
    """Limit, remaining and reset of each decision are of one moment and one rate, also around the turn of a window."""
    limiter = place.limiter({"e": {"by": "ip", "rates": "3/s, 4/m", "strategy": strategy}})
    for n in range(400):
        now = MIDNIGHT + 50 + n / 20
        decision = limiter.hit("e", ANN, explain=True, now=now)
        assert decision.limit == {1: 3, 60: 4}[decision.window_s]
        held = sum(piece.hits for piece in decision.pieces)
        assert decision.remaining == decision.limit - held
        assert now < decision.reset_at <= now + decision.window_s + 1
        if not decision.allowed:
            assert decision.retry_after_s is not None
            assert now + decision.retry_after_s <= decision.reset_at + 0.001


@on()
def test_trap_16_hits_of_one_moment_that_are_taken_for_one(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    assert sum(limiter.hit("e", ANN, caller="the same", now=T).allowed for _ in range(12)) == 10
