"""Callers side by side on memcached: never more than the limit, whoever races whom. And the adversarial steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from random import Random

import pytest

from clickcurve.limiter.backend import Settled
from clickcurve.limiter.backends.counters import Verdict
from clickcurve.limiter.backends.memcached import MAX_ATTEMPTS, MemcachedBackend
from clickcurve.limiter.backends.memcached_keys import QuestionKeys
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import EDGES_S
from testing.backend_servers import shared_memcached
from tests.limiter.backends.racer import Racers, racers
from tests.limiter.given import ANN, T, free, hits, ten
from tests.limiter.places import PATIENCE_S, Place, on
from tests.limiter.replay.traces import rates_of, steps, text_of
from tests.limiter.strategies.oracle import SECOND_US, FixedModel, TieredModel
from tests.limiter.together import together

ROUNDS = 8
RATES = {
    "tiered": ("5/m", "5/d", "5/s, 6/m, 9/d"),
    "fixed": ("5/m", "5/m, 9/d"),
    "per_second": ("5/s",),
}
RACED = {
    "tiered": {"by": "ip", "rates": "5/m", "strategy": "tiered"},
    "fixed": {"by": "ip", "rates": "5/m", "strategy": "fixed"},
    "several": {"by": "ip", "rates": "5/s, 6/m, 9/d", "strategy": "tiered"},
}
CASES = [(strategy, rates) for strategy, several in RATES.items() for rates in several]


# --- threads ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("strategy", "rates"), CASES)
@pytest.mark.parametrize("place", ["memcached"], indirect=True)
def test_a_hundred_threads_never_get_more_than_the_five_places_there_are(
    strategy: str, rates: str, place: Place
) -> None:
    limiter = place.limiter({"e": {"by": "ip", "rates": rates, "strategy": strategy}})
    admitted: Counter[int] = Counter()
    for number in range(ROUNDS):
        told: list[Decision] = []
        caller = {"ip": str(number)}
        together(100, lambda _, who=caller, to=told: to.append(limiter.hit("e", who, now=T)))  # type: ignore[misc]
        admitted[sum(decision.allowed for decision in told)] += 1
        assert all(decision.retry_after_s for decision in told if not decision.allowed)
        assert limiter.peek("e", caller, now=T).remaining == 5 - sum(decision.allowed for decision in told)
    # Fewer where the last place was free only for a moment, when nobody looked; that is rare.
    assert max(admitted) == 5


@pytest.mark.parametrize("rates", RATES["tiered"])
@pytest.mark.parametrize("place", ["memcached"], indirect=True)
def test_nor_when_their_clocks_differ(rates: str, place: Place) -> None:
    """By a second, so that some count in buckets that others have not read."""
    limiter = place.limiter({"e": {"by": "ip", "rates": rates}})
    for number in range(ROUNDS):
        allowed: list[bool] = []
        caller = {"ip": str(number)}

        def act(thread: int, who: dict[str, str] = caller, to: list[bool] = allowed) -> None:
            to.append(limiter.hit("e", who, now=T + thread % 2).allowed)

        together(100, act)
        assert sum(allowed) <= 5


@on("tiered", "fixed", among=["memcached"])
def test_trap_1_nor_when_the_window_before_was_not_empty(strategy: str, place: Place) -> None:
    limiter = place.limiter({"e": {"by": "ip", "rates": "9/m", "strategy": strategy}})
    for number in range(ROUNDS):
        caller: dict[str, str] = {"ip": str(number)}
        allowed: list[bool] = []
        for at in range(4):
            assert limiter.hit("e", caller, now=T + at / 2).allowed
        together(50, lambda _, who=caller, to=allowed: to.append(limiter.hit("e", who, now=T + 2).allowed))  # type: ignore[misc]
        assert sum(allowed) <= 5


@on(among=["memcached"])
def test_costs_and_several_rules(strategy: str, place: Place) -> None:
    """What each rule has counted in the end is what passed all of them, and at most its limit."""
    unit = "s" if strategy == "per_second" else "m"
    limits = {"user": 40, "ip": 25, "team": 60}
    limiter = place.limiter(
        {"e": [{"by": name, "rates": f"{limit}/{unit}", "strategy": strategy} for name, limit in limits.items()]}
    )
    passed: list[tuple[dict[str, str], int]] = []

    def act(number: int) -> None:
        for step in range(8):
            features = {"user": f"u{number % 2}", "ip": f"i{(number + step) % 3}", "team": "t"}
            cost = 1 + step % 3
            if limiter.hit("e", features, cost, now=T).allowed:
                passed.append((features, cost))

    together(16, act)
    assert sum(cost for _, cost in passed) <= 60
    for name, limit in limits.items():
        for value in {features[name] for features, _ in passed}:
            count = sum(cost for features, cost in passed if features[name] == value)
            assert count <= limit
            others = {"user": "-", "ip": "-", "team": "-"}
            assert limiter.peek("e", {**others, name: value}, now=T).remaining == limit - count


@on(among=["memcached"])
def test_reservations_that_are_ended_concurrently_end_once(strategy: str, place: Place) -> None:
    limiter = ten(place, strategy)
    token = limiter.reserve("e", ANN, 4, now=T).reservation or ""
    limiter.hit("e", ANN, 6, now=T)
    ends: list[Settled] = []
    together(20, lambda _: ends.append(limiter.cancel("e", token, now=T)))
    assert Counter(ends) == {Settled.done: 1, Settled.ended: 19}
    assert free(limiter, T) == 4


# --- one race, step by step -------------------------------------------------------------------------------------------
class Raced(MemcachedBackend):
    """Between the reading and the writing of each of the next so many decisions, Ann hits by another backend."""

    def __init__(self, address: str) -> None:
        super().__init__([address], timeout_s=PATIENCE_S)
        self.races = 0


@contextmanager
def raced(monkeypatch: pytest.MonkeyPatch, strategy: str, cost: int = 1) -> Iterator[tuple[Limiter, Raced]]:
    address = shared_memcached().address
    with closing(Raced(address)) as backend, closing(MemcachedBackend([address], timeout_s=PATIENCE_S)) as other:
        limiter, rival = (ten(Place("memcached", each), strategy) for each in (backend, other))
        charge = QuestionKeys.charge

        def charged(seats: QuestionKeys, verdict: Verdict) -> Mapping[str, int]:
            if backend.races:
                races, backend.races = backend.races, 0
                rival.hit("e", ANN, cost, now=T)
                backend.races = races - 1
            return charge(seats, verdict)

        monkeypatch.setattr(QuestionKeys, "charge", charged)
        yield limiter, backend


@on("tiered", "fixed", "per_second", among=["counters"])
def test_a_hit_that_loses_the_race_for_the_last_of_the_limit_is_refused(
    strategy: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with raced(monkeypatch, strategy) as (limiter, backend):
        hits(limiter, 9, T)
        backend.races = 1
        refused = limiter.hit("e", ANN, now=T)
        assert (refused.allowed, refused.remaining) == (False, 0)
        assert refused.retry_after_s
        assert backend.measures()["memcached_taken_back_total"] == 1
        assert free(limiter, T) == 0


@on("tiered", "fixed", "per_second", among=["counters"])
def test_a_hit_that_lost_a_race_and_still_has_room_says_what_is_left(
    strategy: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with raced(monkeypatch, strategy) as (limiter, backend):
        hits(limiter, 3, T)
        backend.races = 1
        admitted = limiter.hit("e", ANN, now=T)
        assert (admitted.allowed, admitted.remaining, admitted.bound.at_most) == (True, 5, 5)
        assert free(limiter, T) == 5
        assert backend.measures()["memcached_taken_back_total"] == 0


def test_a_hit_that_loses_every_race_is_refused_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time by one that is taken back before it looks again, so that there is always room when it looks."""
    with raced(monkeypatch, "fixed") as (limiter, backend):
        charge = QuestionKeys.charge
        hits(limiter, 9, T)

        def charged(seats: QuestionKeys, verdict: Verdict) -> Mapping[str, int]:
            others = charge(seats, verdict)
            return others or dict.fromkeys((counter.key for counter, _ in verdict.add), 1)

        monkeypatch.setattr(QuestionKeys, "charge", charged)
        refused = limiter.hit("e", ANN, now=T)
        assert (refused.allowed, refused.retry_after_s) == (False, 0.001)
        assert backend.measures()["memcached_gave_up_total"] == 1
        assert backend.measures()["memcached_taken_back_total"] == MAX_ATTEMPTS
        assert free(limiter, T) == 1


def test_a_reset_in_the_middle_of_a_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hit is counted after it, and what was counted before it is not."""
    with raced(monkeypatch, "fixed") as (limiter, _):
        hits(limiter, 9, T)
        charge = QuestionKeys.charge
        resets = [1]

        def charged(seats: QuestionKeys, verdict: Verdict) -> Mapping[str, int]:
            if resets.pop() if resets else 0:
                limiter.reset("e", ANN, now=T)
            return charge(seats, verdict)

        monkeypatch.setattr(QuestionKeys, "charge", charged)
        assert limiter.hit("e", ANN, now=T).remaining == 9
        assert free(limiter, T) == 9


# --- processes --------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def processes() -> Iterator[Racers]:
    with racers("memcached", shared_memcached().address, RACED) as ready:
        yield ready


@pytest.mark.parametrize("event", RACED)
def test_four_processes_of_25_threads(event: str, processes: Racers) -> None:
    admitted = Counter(processes.race(event, f"caller-{number}", T) for number in range(ROUNDS))
    # Fewer where the last place was free only for a moment, when nobody looked; that is rare.
    assert max(admitted) == 5


# --- adversarial steps ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("side", ["strict", "lenient"])
@pytest.mark.parametrize("place", ["memcached"], indirect=True)
def test_tiered_never_admits_too_much_or_refuses_wrongly(place: Place, side: str, seed: int) -> None:
    """2,000 steps each, 12,000 in all."""
    random = Random(f"memcached {side} {seed}")
    for edge, many in (("second", 800), ("second", 800), ("minute", 250), ("hour", 150)):
        rates = rates_of(random, EDGES_S[edge])
        model = TieredModel(rates, EDGES_S[edge], side == "strict")
        limiter = place.limiter({edge: {"by": "ip", "rates": text_of(rates), "edge": edge, "side": side}})
        caller = {"ip": f"{many} {random.random()}"}
        for at_us, cost in steps(random, many, [window_s for _, window_s in rates], back_s=30):
            decision = limiter.hit(edge, caller, cost, now=at_us / SECOND_US)
            assert decision.allowed is model.fits(at_us, cost), (at_us, cost, decision)
            if decision.allowed:
                model.charge(at_us, cost)
            at_least, at_most = decision.bound
            assert at_least <= model.log.inside(at_us, decision.window_s) <= at_most


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("place", ["memcached"], indirect=True)
def test_fixed_does_what_its_model_does(place: Place, seed: int) -> None:
    """4,000 steps each, 12,000 in all."""
    random = Random(f"memcached fixed {seed}")
    for number in range(2):
        rates = rates_of(random)
        model = FixedModel(rates)
        limiter = place.limiter({"e": {"by": "ip", "rates": text_of(rates), "strategy": "fixed"}})
        for at_us, cost in steps(random, 2_000, [window_s for _, window_s in rates], back_s=30):
            decision = limiter.hit("e", {"ip": str(number)}, cost, now=at_us / SECOND_US)
            assert decision.allowed is model.fits(at_us, cost), (at_us, cost, decision)
            if decision.allowed:
                model.charge(at_us, cost)
