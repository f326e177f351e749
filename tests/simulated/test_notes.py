"""Changes of one note by several processes, on a cluster that loses, delays and doubles messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from server.process.duty import GONE_LOOKS, Duty
from tests.simulated.cluster import Faults
from tests.simulated.threaded import SimulatedFactory

FAULTS = Faults(lost=0.1, late=0.1, twice=0.1, answer_lost=0.2, hasty=0.2, stalled=0.2)


@pytest.fixture
def factory() -> Iterator[SimulatedFactory]:
    with closing(SimulatedFactory()) as factory:
        yield factory


@pytest.mark.parametrize("seed", range(20))
def test_whoever_is_told_that_a_change_was_made_made_it_alone(seed: int, factory: SimulatedFactory) -> None:
    stores, rnd = [factory() for _ in range(3)], factory.stage.rnd
    rnd.seed(seed)
    stores[0].note("x", "first")
    made: dict[str, str] = {}  # before -> after
    texts = iter(range(10_000))
    for _ in range(60):
        factory.cluster.faults = FAULTS if rnd.random() < 0.8 else Faults()
        with suppress(StoreUnavailable):
            store = rnd.choice(stores)
            before = rnd.choice(["first", *made.values()][-2:]) if rnd.random() < 0.5 else store.noted("x") or ""
            after = f"text {next(texts)}"
            if store.change_note("x", before, after) == after:
                assert before not in made, f"{after} after {made[before]} was told"
                made[before] = after
    assert made


@pytest.mark.parametrize("seed", range(5))
def test_one_process_has_a_duty_when_the_faults_end(seed: int, factory: SimulatedFactory) -> None:
    factory.stage.rnd.seed(seed)

    async def tell() -> None:
        each = [Duty(factory(), "alerts", ["an alert"]) for _ in range(3)]
        factory.cluster.faults = FAULTS
        for _ in range(30):
            with suppress(StoreUnavailable):
                await factory.stage.rnd.choice(each).look()
        factory.cluster.faults = Faults()
        for _ in range(GONE_LOOKS + 1):
            held = [await duty.look() for duty in each]
        assert held.count(True) == 1

    asyncio.run(tell())
