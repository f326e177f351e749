"""Many threads at once: what is decided is exact, and never half of it."""

from __future__ import annotations

from collections import Counter

from clickcurve.limiter.backend import Settled
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import parse_rules
from tests.limiter.given import ANN, T, free, ten
from tests.limiter.places import OF_SEVERAL_CALLERS, Place, on
from tests.limiter.together import together


@on()
def test_a_hundred_threads_get_exactly_the_five_places_there_are(strategy: str, place: Place) -> None:
    """Trap 12 is a value that is read after the lock is released: two callers would be told the same."""
    rates = "5/s" if strategy == "per_second" else "5/m"
    limiter = place.limiter({"e": {"by": "ip", "rates": rates, "strategy": strategy}})
    decisions: list[Decision] = []
    together(100, lambda _: decisions.append(limiter.hit("e", ANN, now=T)))
    assert sum(decision.allowed for decision in decisions) == 5
    # The number that each was told is that of its own moment: no two of those let in were told the same.
    assert sorted(decision.remaining for decision in decisions if decision.allowed) == [0, 1, 2, 3, 4]


@on()
def test_they_are_let_in_once_more_when_the_window_before_was_full(strategy: str, place: Place) -> None:
    rates = "5/s" if strategy == "per_second" else "5/m"
    limiter = place.limiter({"e": {"by": "ip", "rates": rates, "strategy": strategy}})
    for moment in (T, T + 61, T + 122):
        allowed: list[bool] = []
        together(30, lambda _, now=moment, told=allowed: told.append(limiter.hit("e", ANN, now=now).allowed))  # type: ignore[misc]
        assert sum(allowed) == 5


@on(among=OF_SEVERAL_CALLERS)
def test_among_threads_a_refused_hit_uses_up_nothing_of_any_rule(strategy: str, place: Place) -> None:
    """Three rules refuse by turns, whatever a hit costs; what each has counted is what passed all of them."""
    unit = "s" if strategy == "per_second" else "m"
    limits = {"user": 40, "ip": 25, "team": 60}
    limiter = place.limiter(
        {"e": [{"by": name, "rates": f"{limit}/{unit}", "strategy": strategy} for name, limit in limits.items()]}
    )
    passed: list[tuple[dict[str, str], int]] = []

    def act(number: int) -> None:
        for step in range(12):
            features = {"user": f"u{number % 2}", "ip": f"i{(number + step) % 3}", "team": "t"}
            cost = 1 + step % 3
            if limiter.hit("e", features, cost, now=T).allowed:
                passed.append((features, cost))

    together(16, act)
    assert 58 <= sum(cost for _, cost in passed) <= 60, "of the team's 60, less than the dearest hit is left"
    for name, limit in limits.items():
        for value in {features[name] for features, _ in passed}:
            count = sum(cost for features, cost in passed if features[name] == value)
            assert count <= limit
            others = {"user": "-", "ip": "-", "team": "-"}
            assert limiter.peek("e", {**others, name: value}, now=T).remaining == limit - count


@on()
def test_reservations_that_are_ended_concurrently_end_once(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    token = limiter.reserve("e", ANN, 4, now=T).reservation or ""
    limiter.hit("e", ANN, 6, now=T)
    ends: list[Settled] = []
    together(20, lambda _: ends.append(limiter.cancel("e", token, now=T)))
    assert Counter(ends) == {Settled.done: 1, Settled.ended: 19}
    assert free(limiter, T) == 4


def test_rules_may_be_replaced_under_load() -> None:
    first, second = (
        parse_rules({"e": {"by": "ip", "rates": rates}}) for rates in ("1000000/m", "2000000/m, 3000000/h")
    )
    limiter = Limiter(first, clock=None)

    def act(number: int) -> None:
        for step in range(200):
            if number == 0:
                limiter.replace(second if step % 2 else first)
            else:
                limiter.hit("e", ANN, now=T)

    together(8, act)
    assert limiter.peek("e", ANN, now=T).bound == (1_400, 1_400)
