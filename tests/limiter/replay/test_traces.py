"""Every backend against a perfect log, on adversarial steps: 0 over-admissions, 0 wrong refusals. The one in process
takes a million of them, the others their share."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.rule import EDGES_S, SIDES
from tests.limiter.places import BACKENDS, Place, memory
from tests.limiter.replay.traces import START_US, rates_of, steps, text_of
from tests.limiter.strategies.oracle import SECOND_US, Apart, FixedModel, Model, OpenedModel, TieredModel, TokenModel
from tests.power import at, examples

ANN = {"ip": "10.0.0.1"}
SEEDS = range(at(quick=2, full=10))
SHARES = range(4)
ELSEWHERE = [name for name in BACKENDS if name != "memory"]


def limiter(place: Place, rates: list[tuple[int, int]], **settings: Any) -> Limiter:
    return place.limiter({"e": {"by": "ip", "rates": text_of(rates), **settings}})


def models(place: Place, make: Callable[[], Model]) -> Callable[[int], Model]:
    """Which model a question at an epoch microsecond is for."""
    if place.name == "memcached":
        return Apart(make).of
    model = make()
    return lambda at_us: model


def follow_tiered(place: Place, random: Random, many: int, edge: str, side: str) -> tuple[int, int]:
    """A trace under a random rule; returns how many hits were admitted and how many refused."""
    edge_s, strict = EDGES_S[edge], side == "strict"
    rates = rates_of(random, edge_s)
    model_of = models(place, lambda: TieredModel(rates, edge_s, strict))
    hit = limiter(place, rates, edge=edge, side=side).hit
    admitted = 0
    for at_us, cost in steps(random, many, [window_s for _, window_s in rates]):
        model = model_of(at_us)
        assert isinstance(model, TieredModel)
        log = model.log
        decision = hit("e", ANN, cost, now=at_us / SECOND_US)
        assert model.fits(at_us, cost) <= decision.allowed <= model.fits(at_us, cost, forgotten=True), (
            at_us,
            cost,
            decision,
        )
        if decision.allowed:
            model.charge(at_us, cost)
            admitted += 1
            if strict:  # no over-admission: in no window (t - W, t], not even with its open end
                assert all(log.since(at_us, window_s, forgotten=True) <= limit for limit, window_s in rates)
        else:
            if not strict:  # no wrong refusal: a perfect log would refuse it too
                assert any(log.inside(at_us, window_s) + cost > limit for limit, window_s in rates)
            if place.name != "memcached":  # which writes nothing for a refusal
                model.refuse(at_us)
        at_least, at_most = decision.bound
        assert at_least <= log.inside(at_us, decision.window_s), (at_us, decision)
        assert log.inside(at_us, decision.window_s, forgotten=True) <= at_most, (at_us, decision)
    return admitted, many - admitted


def follow(place: Place, random: Random, many: int, strategy: str) -> int:
    """As `follow_tiered`, for the other strategies; returns how many hits were admitted."""
    rates = rates_of(random, most=4 if strategy == "fixed" else 1)
    burst = random.randint(1, 20)
    model_of = models(place, lambda: OTHERS[strategy](rates, burst))
    more = {"burst": burst} if strategy == "token_bucket" else {}
    hit = limiter(place, rates, strategy=strategy, **more).hit
    admitted = 0
    for at_us, cost in steps(random, many, [window_s for _, window_s in rates]):
        model = model_of(at_us)
        fits = model.fits(at_us, cost)
        decision = hit("e", ANN, cost, now=at_us / SECOND_US)
        assert decision.allowed is fits, (at_us, cost, decision)
        if fits:
            model.charge(at_us, cost)
            admitted += 1
    return admitted


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("side", ["strict", "lenient"])
def test_tiered_never_admits_too_much_or_refuses_wrongly(side: str, seed: int) -> None:
    """35,000 steps each, 700,000 in all: most with the finest edge, all with several rates."""
    random = Random(f"{side} {seed}")
    for edge, many in (("second", 9_000), ("second", 9_000), ("second", 9_000), ("minute", 5_000), ("hour", 3_000)):
        with memory() as place:
            admitted, refused = follow_tiered(place, random, many, edge, side)
        assert admitted > 20
        assert refused > 20


OTHERS: dict[str, Callable[[list[tuple[int, int]], int], Model]] = {
    "fixed": lambda rates, burst: FixedModel(rates),
    "single_counter": lambda rates, burst: OpenedModel(rates),
    "list": lambda rates, burst: OpenedModel(rates),
    "token_bucket": TokenModel,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("strategy", OTHERS)
def test_the_others_do_what_their_model_does(strategy: str, seed: int) -> None:
    """7,500 steps each, 300,000 in all."""
    random = Random(f"{strategy} {seed}")
    for _ in range(3):
        with memory() as place:
            assert follow(place, random, 2_500, strategy) > 20


@pytest.mark.parametrize("seed", SHARES)
@pytest.mark.parametrize("edge", EDGES_S)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("place", ELSEWHERE, indirect=True)
def test_elsewhere_tiered_never_admits_too_much_or_refuses_wrongly(
    place: Place, side: str, edge: str, seed: int
) -> None:
    """30,000 steps on each backend."""
    admitted, refused = follow_tiered(place, Random(f"{place.name} {side} {edge} {seed}"), 1_250, edge, side)
    assert admitted > 5
    assert refused > 0


@pytest.mark.parametrize("seed", SHARES)
@pytest.mark.parametrize("strategy", OTHERS)
@pytest.mark.parametrize("place", ELSEWHERE, indirect=True)
def test_elsewhere_the_others_do_what_their_model_does(place: Place, strategy: str, seed: int) -> None:
    """20,000 steps on each backend."""
    assert follow(place, Random(f"{place.name} {strategy} {seed}"), 1_250, strategy) > 5


gaps_us = st.integers(0, 200 * SECOND_US) | st.sampled_from(
    [0, 1, SECOND_US - 1, SECOND_US, 5 * SECOND_US, 60 * SECOND_US, 3_600 * SECOND_US, -1, -SECOND_US]
)


TRACES = given(
    st.lists(st.tuples(gaps_us, st.integers(1, 3)), max_size=40),
    st.integers(0, 9),
    st.sampled_from(sorted(EDGES_S)),
    st.booleans(),
)


@settings(max_examples=examples(200))
@TRACES
def test_found_by_search(gaps: list[tuple[int, int]], seed: int, edge: str, strict: bool) -> None:
    """The same laws on traces that are looked for and made small."""
    with memory() as place:
        follow_closely(place, gaps, seed, edge, strict)


@pytest.mark.parametrize("name", ELSEWHERE)
@settings(max_examples=examples(50))
@TRACES
def test_elsewhere_found_by_search(name: str, gaps: list[tuple[int, int]], seed: int, edge: str, strict: bool) -> None:
    with BACKENDS[name]() as place:
        follow_closely(place, gaps, seed, edge, strict)


def follow_closely(place: Place, gaps: list[tuple[int, int]], seed: int, edge: str, strict: bool) -> None:
    rates = rates_of(Random(seed), EDGES_S[edge])
    model_of = models(place, lambda: TieredModel(rates, EDGES_S[edge], strict))
    limited = limiter(place, rates, edge=edge, side="strict" if strict else "lenient")
    at_us = START_US
    for gap_us, cost in gaps:
        at_us += gap_us
        model = model_of(at_us)
        assert isinstance(model, TieredModel)
        before = limited.peek("e", ANN, cost, now=at_us / SECOND_US)
        decision = limited.hit("e", ANN, cost, now=at_us / SECOND_US)
        assert before.allowed is decision.allowed
        assert model.fits(at_us, cost) <= decision.allowed <= model.fits(at_us, cost, forgotten=True)
        if decision.allowed:
            model.charge(at_us, cost)
        else:
            assert before == decision
            assert limited.peek("e", ANN, cost, now=at_us / SECOND_US) == decision
            if place.name != "memcached":
                model.refuse(at_us)
        at_least, at_most = decision.bound
        assert at_least <= model.log.inside(at_us, decision.window_s)
        assert model.log.inside(at_us, decision.window_s, forgotten=True) <= at_most
