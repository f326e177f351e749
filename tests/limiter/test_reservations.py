"""Reservations on every backend: they count at once, end once, and a cancelled one leaves no trace."""

from __future__ import annotations

import pytest

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.limiter.backend import Settled
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.limiter import Limiter
from tests.limiter.given import ANN, T, free, hits, ten
from tests.limiter.places import OF_SEVERAL_CALLERS, Place, on


def reserved(limiter: Limiter, now: float, cost: int = 1) -> str:
    decision = limiter.reserve("e", ANN, cost, now=now)
    assert decision.allowed
    assert decision.reservation is not None
    return decision.reservation


def quota(decision: Decision) -> tuple[object, ...]:
    return (decision.remaining, decision.bound)


@on()
def test_a_cancelled_reservation_never_was(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    hits(limiter, 2, T)
    before = quota(limiter.peek("e", ANN, now=T))
    token = reserved(limiter, T, 5)
    assert free(limiter, T) == 3
    assert limiter.cancel("e", token, now=T + 0.1) is Settled.done
    assert quota(limiter.peek("e", ANN, now=T)) == before


@on("tiered", "fixed", "single_counter", "list", "token_bucket")
def test_it_is_taken_out_of_the_bucket_that_it_went_into(strategy: str, place: Place) -> None:
    limiter, twin = ten(place, strategy), {"ip": "10.0.0.9"}
    limiter.hit("e", ANN, 2, now=T)
    limiter.hit("e", twin, 2, now=T)
    token = reserved(limiter, T + 1, 3)
    for features in (ANN, twin):
        limiter.hit("e", features, 4, now=T + 3)
    limiter.cancel("e", token, now=T + 5)
    for later_s in (5, 19, 58, 59, 60, 61, 62, 63, 64, 90):
        now = T + later_s
        assert quota(limiter.peek("e", ANN, now=now)) == quota(limiter.peek("e", twin, now=now)), later_s


@on()
def test_a_reservation_ends_once(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    cancelled, committed = reserved(limiter, T, 2), reserved(limiter, T, 3)
    assert limiter.cancel("e", cancelled, now=T) is Settled.done
    assert limiter.commit("e", committed, now=T) is Settled.done
    assert limiter.cancel("e", cancelled, now=T) is Settled.ended
    assert limiter.cancel("e", committed, now=T) is Settled.ended
    assert limiter.commit("e", cancelled, now=T) is Settled.ended
    assert free(limiter, T) == 7


@on()
def test_a_commit_may_keep_less_but_not_more(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    token, other = reserved(limiter, T, 6), reserved(limiter, T, 3)
    assert limiter.commit("e", token, 2, now=T) is Settled.done
    assert free(limiter, T) == 5
    with pytest.raises(ParameterInvalid, match="only 3 were reserved"):
        limiter.commit("e", other, 4, now=T)
    assert limiter.commit("e", other, 0, now=T) is Settled.done
    assert free(limiter, T) == 8


@on()
def test_a_token_that_was_never_handed_out_is_unknown(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    reserved(limiter, T)
    for token in ("", "1-00000000000000000000000000000000", "x" * 500, "9" * 5_000 + "-", "999-"):
        assert limiter.cancel("e", token, now=T) is Settled.unknown
        assert limiter.commit("e", token, now=T) is Settled.unknown
        assert limiter.commit("e", token, 1, now=T) is Settled.unknown
    assert free(limiter, T) == 9


@on()
def test_a_refused_hit_holds_nothing(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    hits(limiter, 10, T)
    refused = limiter.reserve("e", ANN, now=T)
    assert (refused.allowed, refused.reservation) == (False, None)


@on()
def test_what_was_reset_is_not_given_back_again(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    token = reserved(limiter, T, 4)
    limiter.reset("e", ANN, now=T)
    hits(limiter, 6, T)
    limiter.cancel("e", token, now=T)
    assert free(limiter, T) == 4


@on(among=OF_SEVERAL_CALLERS)
def test_a_reservation_under_several_rules_is_given_back_to_each(strategy: str, place: Place) -> None:
    unit = "s" if strategy == "per_second" else "m"
    rule = {"rates": f"5/{unit}", "strategy": strategy}
    limiter = place.limiter({"e": [{"by": "user", **rule}, {"by": "ip", **rule}]})
    token = reserved(limiter, T, 5)
    assert not limiter.peek("e", {"user": "ann", "ip": "10.9.9.9"}, now=T).allowed
    assert not limiter.peek("e", {"user": "eve", "ip": "10.0.0.1"}, now=T).allowed
    assert limiter.cancel("e", token, now=T) is Settled.done
    assert limiter.peek("e", {"user": "ann", "ip": "10.9.9.9"}, 5, now=T).allowed
    assert limiter.peek("e", {"user": "eve", "ip": "10.0.0.1"}, 5, now=T).allowed
