"""What every strategy does on every backend when the clock is set back: counts that lie in the future are none."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.limiter.decision import Decision
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import STRATEGIES
from tests.limiter.given import ANN, MIDNIGHT
from tests.limiter.places import BACKENDS, Place, on
from tests.limiter.replay.traces import rates_of, text_of
from tests.power import examples

DAY_S, YEAR_S = 86_400, 31_536_000
# Half a minute after midnight; the hits of tests are of the second before it.
NOW = MIDNIGHT + 30.25
BACK_S = {"3 s": 3, "an hour": 3_600, "a day": DAY_S, "ten years": 10 * YEAR_S}
SEVERAL = ("tiered", "fixed", "token_bucket")


def limiter_of(place: Place, strategy: str, rates: str) -> Limiter:
    if strategy == "per_second":
        rates = rates.partition("/")[0] + "/s"
    return place.limiter({"e": {"by": "ip", "strategy": strategy, "rates": rates}})


def most_s(decision: Decision) -> float:
    """The period of the rate that refuses: `tiered` counts the bucket that is being left, too."""
    return decision.window_s + (1 if decision.rule.strategy == "tiered" else 0)


@pytest.mark.parametrize("back", BACK_S)
@on()
def test_a_caller_is_not_refused_for_hits_that_lie_in_the_future(strategy: str, place: Place, back: str) -> None:
    limiter = limiter_of(place, strategy, "3/2s" if back == "3 s" else "3/m")
    assert [limiter.hit("e", ANN, now=NOW).allowed for _ in range(4)] == [True, True, True, False]
    then = NOW - BACK_S[back]
    peeked = limiter.peek("e", ANN, 3, now=then)
    assert (peeked.allowed, peeked.remaining) == (True, 3)
    assert [limiter.hit("e", ANN, now=then).allowed for _ in range(4)] == [True, True, True, False]
    refused = limiter.hit("e", ANN, now=then)
    assert refused.retry_after_s is not None
    assert refused.retry_after_s <= most_s(refused)
    assert refused.reset_at <= then + most_s(refused) + 1
    if place.name != "memcached" or back != "3 s":  # where the former counts are another item's, and no longer ahead
        assert limiter.hit("e", ANN, now=then + refused.retry_after_s).allowed


@pytest.mark.parametrize("ahead", BACK_S)
@on()
def test_a_clock_that_was_ahead_leaves_nothing_behind_when_it_is_right_again(
    strategy: str, place: Place, ahead: str
) -> None:
    limiter = limiter_of(place, strategy, "3/2s" if ahead == "3 s" else "3/m")
    limiter.hit("e", ANN, 3, now=NOW + BACK_S[ahead])
    for _ in range(4):
        limiter.hit("e", ANN, now=NOW)
    # When the clock gets to where it was, what was counted then is forgotten.
    assert limiter.peek("e", ANN, 3, now=NOW + BACK_S[ahead]).allowed is (place.name != "memcached")


@on()
def test_a_clock_that_is_a_little_behind_grants_nothing(strategy: str, place: Place) -> None:
    limiter = limiter_of(place, strategy, "3/m")
    assert [limiter.hit("e", ANN, now=NOW).allowed for _ in range(3)] == [True] * 3
    for back_s in (0.000_001, 0.01, 0.5, 1.0):
        refused = limiter.hit("e", ANN, now=NOW - back_s)
        assert not refused.allowed
        assert refused.retry_after_s is not None
        assert refused.retry_after_s <= most_s(refused)


@on("tiered", "fixed", among=[name for name in BACKENDS if name != "memcached"])
def test_what_began_before_counts_on(strategy: str, place: Place) -> None:
    """On memcached it counts in another item, from which a clock that is ahead takes nothing."""
    limiter = limiter_of(place, strategy, "3/m, 6/d")
    limiter.hit("e", ANN, 2, now=NOW + 3_600)
    limiter.hit("e", ANN, 3, now=NOW + 7_200)
    later = limiter.peek("e", ANN, now=NOW + 3_700)
    assert later.remaining == (1 if strategy == "fixed" else 3)


@on("token_bucket", among=[name for name in BACKENDS if name != "memcached"])
def test_a_bucket_holds_what_it_held_then(strategy: str, place: Place) -> None:
    limiter = limiter_of(place, strategy, "6/m")
    limiter.hit("e", ANN, 2, now=NOW)  # which takes 20 s to come in
    assert limiter.peek("e", ANN, now=NOW - 10).remaining == 3
    assert limiter.hit("e", ANN, now=NOW - 10).remaining == 2
    assert limiter.peek("e", ANN, now=NOW).remaining == 3


@on()
def test_a_reservation_of_a_clock_that_was_ahead_is_settled(strategy: str, place: Place) -> None:
    limiter = limiter_of(place, strategy, "3/m")
    token = limiter.reserve("e", ANN, 3, now=NOW + DAY_S).reservation or ""
    assert limiter.hit("e", ANN, now=NOW).remaining == 2
    limiter.commit("e", token, now=NOW)
    assert limiter.peek("e", ANN, now=NOW).remaining == 2
    own = limiter.reserve("e", ANN, 2, now=NOW).reservation or ""
    assert not limiter.peek("e", ANN, now=NOW).allowed
    limiter.cancel("e", own, now=NOW)
    assert limiter.peek("e", ANN, now=NOW).remaining == 2


steps_s = (
    st.floats(0, 3)
    | st.sampled_from([0.0, 0.000_001, 1.0, 59.9, 60.0, 3_600.0, float(DAY_S)])
    | st.sampled_from([-0.000_001, -0.9, -1.0, -2.0, -30.0, -61.0, -3_600.0, -float(DAY_S), -3.0 * YEAR_S])
)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=examples(40))
@given(st.lists(st.tuples(steps_s, st.integers(1, 4)), max_size=30), st.integers(0, 20))
def test_nobody_waits_longer_than_the_period_of_the_rate_that_refuses(
    strategy: str, name: str, walk: Sequence[tuple[float, int]], seed: int
) -> None:
    """And whoever waits as long as he was told is admitted then, unless others come or the clock is set again."""
    rates = text_of(rates_of(Random(seed), most=3 if strategy in SEVERAL else 1))
    with BACKENDS[name]() as place:
        limiter = limiter_of(place, strategy, rates)
        now = float(MIDNIGHT)
        for later_s, cost in walk:
            now = max(1_000.0, now + later_s)
            decision = limiter.hit("e", ANN, cost, now=now)
            if decision.retry_after_s:
                assert decision.retry_after_s <= most_s(decision)
                # A clock that is a little behind may ask once more: until it has caught up. On memcached it may come to
                # where another clock has counted.
                again = limiter.peek("e", ANN, cost, now=now + decision.retry_after_s + 2)
                assert again.allowed or name == "memcached", (rates, now, cost, decision, again)
