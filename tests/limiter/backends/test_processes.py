"""Several processes, each of many threads, ask one backend at once: exactly as many are let in as there are places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clickcurve.limiter.rule import STRATEGIES
from testing.backend_servers import shared_memcached, shared_redis
from tests.limiter.backends.racer import Racers, racers
from tests.limiter.given import T

ROUNDS = 10
RULES: dict[str, Any] = {
    strategy: {"by": "ip", "rates": "5/s" if strategy == "per_second" else "5/m", "strategy": strategy}
    for strategy in STRATEGIES
}
RULES["several-rates"] = {"by": "ip", "rates": "5/s, 6/m, 9/d"}
RULES["several-rules"] = [{"by": "ip", "rates": "5/m"}, {"by": "ip", "rates": "7/m", "strategy": "token_bucket"}]


@pytest.fixture(scope="module", params=["redis", "memcached"])
def processes(request: pytest.FixtureRequest) -> Iterator[Racers]:
    address = shared_redis().url if request.param == "redis" else shared_memcached().address
    with racers(request.param, address, RULES) as ready:
        yield ready


@pytest.mark.parametrize("event", RULES)
def test_four_processes_of_25_threads_get_exactly_the_five_places_there_are(event: str, processes: Racers) -> None:
    assert [processes.race(event, f"caller-{number}", T) for number in range(ROUNDS)] == [5] * ROUNDS
