"""What every backend must answer. Times are given, so that the same questions can be put to all of them."""

from __future__ import annotations

from clickcurve.limiter.rule import parse_rules
from tests.limiter.given import ANN, BEN, MIDNIGHT, T, free, hits, ten
from tests.limiter.places import OF_SEVERAL_CALLERS, Place, on


# --- one limit --------------------------------------------------------------------------------------------------------
@on()
def test_ten_means_ten(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    assert hits(limiter, 12, T) == [True] * 10 + [False] * 2


@on()
def test_every_decision_says_what_is_left(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    told = [limiter.hit("e", ANN, now=T) for _ in range(11)]
    assert [each.remaining for each in told] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0]
    assert {each.limit for each in told} == {10}
    assert [each.retry_after_s for each in told[:10]] == [0.0] * 10
    assert all(each.reset_at > T for each in told)
    assert told[3].bound == (4, 4)


@on()
def test_a_refused_hit_fits_when_its_wait_is_over_and_not_before(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    hits(limiter, 10, T)
    refused = limiter.hit("e", ANN, 3, now=T + 0.5)
    assert refused.retry_after_s is not None
    assert refused.retry_after_s > 0
    passes_at = T + 0.5 + refused.retry_after_s
    assert not limiter.peek("e", ANN, 3, now=passes_at - 0.002).allowed
    assert limiter.hit("e", ANN, 3, now=passes_at).allowed


@on()
def test_all_is_free_again_at_reset_at(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    for n in range(10):
        limiter.hit("e", ANN, now=T + n * 0.05)
    reset_at = limiter.peek("e", ANN, now=T + 0.5).reset_at
    assert free(limiter, reset_at) == 10
    assert free(limiter, reset_at - 1) < 10
    idle = limiter.peek("e", ANN, now=reset_at + 5)
    assert (idle.remaining, idle.reset_at, idle.bound) == (10, reset_at + 5, (0, 0))


@on()
def test_a_refused_hit_consumes_nothing(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    hits(limiter, 8, T)
    before = limiter.peek("e", ANN, explain=True, now=T)
    assert hits(limiter, 5, T, cost=3) == [False] * 5
    assert limiter.peek("e", ANN, explain=True, now=T) == before
    assert hits(limiter, 1, T, cost=2) == [True]


@on()
def test_a_peek_changes_nothing_and_costs_what_it_is_asked_for(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    assert limiter.peek("e", ANN, 10, now=T).allowed
    assert limiter.peek("e", ANN, 10, now=T).remaining == 10
    assert hits(limiter, 1, T, cost=10) == [True]
    assert not limiter.peek("e", ANN, now=T).allowed


@on()
def test_a_cost_above_the_limit_never_fits(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    never = limiter.hit("e", ANN, 11, now=T)
    assert (never.allowed, never.never, never.retry_after_s, never.remaining) == (False, True, None, 10)
    assert hits(limiter, 10, T) == [True] * 10


@on()
def test_each_caller_has_a_limit_of_their_own(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    hits(limiter, 10, T)
    assert not limiter.hit("e", ANN, now=T).allowed
    assert limiter.hit("e", BEN, now=T).remaining == 9


@on()
def test_a_reset_forgets_one_caller(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    hits(limiter, 10, T)
    limiter.hit("e", BEN, 4, now=T)
    limiter.reset("e", ANN, now=T)
    assert free(limiter, T) == 10
    assert limiter.peek("e", BEN, now=T).remaining == 6


@on()
def test_another_limit_goes_on_from_what_was_counted(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    hits(limiter, 6, T)
    seven = {"by": "ip", "rates": "7/s" if strategy == "per_second" else "7/m", "strategy": strategy}
    limiter.replace(parse_rules({"e": {**seven, "backend": place.name}}))
    # A bucket of tokens keeps the tokens that are there, others keep the hits.
    assert free(limiter, T) == (4 if strategy == "token_bucket" else 1)
    four = {**seven, "rates": seven["rates"].replace("7", "4")}
    limiter.replace(parse_rules({"e": {**four, "backend": place.name}}))
    assert free(limiter, T) == (4 if strategy == "token_bucket" else 0)


@on("tiered", "fixed", "per_second", "single_counter", "list")
def test_the_pieces_add_up_to_what_is_held_against_the_limit(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    for n in range(7):
        explained = limiter.hit("e", ANN, explain=True, now=T + n / 8)
        assert sum(piece.hits for piece in explained.pieces) == 10 - explained.remaining
        assert explained.pieces


@on("list")
def test_a_list_remembers_its_callers(strategy: str, place: Place) -> None:
    limiter = place.limiter({"e": {"by": "ip", "rates": "4/m", "strategy": strategy}})
    limiter.hit("e", ANN, caller="first", now=T)
    limiter.hit("e", ANN, 2, now=T + 1)
    decision = limiter.reserve("e", ANN, caller="third", now=T + 2)
    assert not limiter.hit("e", ANN, caller="fourth", now=T + 3).allowed
    assert limiter.peek("e", ANN, now=T + 3).callers == ("first", "10.0.0.1", "10.0.0.1", "third")
    assert decision.reservation is not None
    limiter.cancel("e", decision.reservation, now=T + 4)
    assert limiter.peek("e", ANN, now=T + 4).callers == ("first", "10.0.0.1", "10.0.0.1")
    assert limiter.hit("e", ANN, caller="last", explain=True, now=T + 60).callers == ("last",)


@on("single_counter", "list")
def test_the_window_opens_with_the_first_hit_and_lasts_to_the_microsecond(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    hits(limiter, 1, T)
    hits(limiter, 9, T + 59.9)
    assert not limiter.hit("e", ANN, now=T + 59.999).allowed
    assert limiter.hit("e", ANN, now=T + 60).remaining == 9


@on("fixed", "per_second")
def test_windows_turn_with_the_clock(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    turn = MIDNIGHT + 60
    assert hits(limiter, 10, turn - 0.001) == [True] * 10
    assert hits(limiter, 11, turn) == [True] * 10 + [False]


# --- several limits, one decision -------------------------------------------------------------------------------------
@on("tiered", "fixed")
def test_several_rates_are_one_decision(strategy: str, place: Place) -> None:
    limiter = place.limiter({"e": {"by": "ip", "rates": "2/s, 5/m, 7/h", "strategy": strategy}})
    now = MIDNIGHT + 1.0
    assert hits(limiter, 3, now) == [True, True, False]
    assert hits(limiter, 3, now + 10) == [True, True, False]
    told = limiter.hit("e", ANN, now=now + 20)
    assert (told.allowed, told.limit, told.remaining) == (True, 5, 0)
    refused = limiter.hit("e", ANN, now=now + 30)
    assert (refused.allowed, refused.limit, refused.window_s) == (False, 5, 60)
    assert hits(limiter, 3, now + 70) == [True, True, False]
    assert limiter.hit("e", ANN, now=now + 80).window_s == 3_600


@on(among=OF_SEVERAL_CALLERS)
def test_a_hit_that_one_rule_refuses_uses_up_nothing_of_any(strategy: str, place: Place) -> None:
    unit = "s" if strategy == "per_second" else "m"
    limiter = place.limiter(
        {
            "e": [
                {"by": "user", "rates": f"10/{unit}", "strategy": strategy},
                {"by": "ip", "rates": f"3/{unit}", "strategy": strategy},
                {"by": [["user", "ip"]], "rates": f"8/{unit}", "strategy": strategy},
            ]
        }
    )
    assert hits(limiter, 6, T) == [True] * 3 + [False] * 3
    other = {"user": "ann", "ip": "10.0.0.9"}
    told = limiter.hit("e", other, 3, now=T)
    assert (told.allowed, told.rule.name, told.remaining) == (True, "e.2", 0)
    assert limiter.hit("e", {"user": "ann", "ip": "10.0.0.8"}, 3, now=T).allowed
    assert limiter.hit("e", {"user": "ann", "ip": "10.0.0.7"}, now=T).rule.name == "e"
    assert not limiter.hit("e", {"user": "ann", "ip": "10.0.0.6"}, now=T).allowed


@on()
def test_a_rule_in_shadow_mode_refuses_nothing_and_counts_what_it_would_have_admitted(
    strategy: str, place: Place
) -> None:
    unit = "s" if strategy == "per_second" else "m"
    limiter = place.limiter(
        {
            "e": [
                {"by": "ip", "rates": f"8/{unit}", "strategy": strategy},
                {"by": "ip", "rates": f"3/{unit}", "strategy": strategy, "shadow": True},
            ]
        }
    )
    told = [limiter.hit("e", ANN, now=T) for _ in range(9)]
    assert [each.allowed for each in told] == [True] * 8 + [False]
    assert [each.shadow for each in told] == [False] * 3 + [True] * 5 + [False]
    assert (told[4].rule.name, told[4].limit, told[4].remaining) == ("e.2", 3, 0)
    assert told[4].retry_after_s
    assert told[2].rule.name == told[8].rule.name == "e"
