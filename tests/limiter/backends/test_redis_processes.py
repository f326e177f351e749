"""Several processes, each of many threads, ask one Redis at once: exactly as many are let in as there are places."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clickcurve.limiter.rule import STRATEGIES
from testing.backend_servers import shared_redis
from tests.limiter.backends.racer import Racers, racers
from tests.limiter.given import T

pytestmark = pytest.mark.needs("redis")

ROUNDS = 10
RULES = {
    strategy: {"by": "ip", "rates": "5/s" if strategy == "per_second" else "5/m", "strategy": strategy}
    for strategy in STRATEGIES
}


@pytest.fixture(scope="module")
def processes() -> Iterator[Racers]:
    with racers("redis", shared_redis().url, RULES) as ready:
        yield ready


@pytest.mark.parametrize("strategy", RULES)
def test_four_processes_of_25_threads_get_exactly_the_five_places_there_are(strategy: str, processes: Racers) -> None:
    for number in range(ROUNDS):
        assert processes.race(strategy, f"caller-{number}", T) == 5
