"""What a steady caller gets of its rate, on every backend: strict refuses little more than a log of all times would."""

from __future__ import annotations

import pytest

from clickcurve.limiter.limiter import Limiter
from tests.limiter.given import ANN, MIDNIGHT
from tests.limiter.places import Place
from tests.limiter.strategies.oracle import SECOND_US, Log

RATES = [
    *(("1/s", 1, 1), ("2/s", 2, 1), ("5/s", 5, 1), ("10/s", 10, 1), ("100/s", 100, 1)),
    *(("10/5s", 10, 5), ("5/m", 5, 60), ("60/m", 60, 60)),
]


def admitted(limiter: Limiter, limit: int, window_s: int, factor: float, many: int) -> tuple[int, int]:
    """Of so many evenly spaced hits those that pass, and those that a perfect log would let pass."""
    gap_us = window_s * SECOND_US / limit / factor
    log, own = Log(1, 1), Log(1, 1)
    passed = by_log = 0
    for n in range(many):
        at_us = int(MIDNIGHT * SECOND_US + 30_000 + n * gap_us)
        if limiter.hit("e", ANN, now=at_us / SECOND_US).allowed:
            own.admit(at_us, 1)
            passed += 1
            # Never more than the limit in a true window, not even with its open end.
            assert own.since(at_us, window_s) <= limit
        if log.inside(at_us, window_s) < limit:
            log.admit(at_us, 1)
            by_log += 1
    return passed, by_log


@pytest.mark.parametrize(("rates", "limit", "window_s"), RATES)
def test_strict_costs_a_caller_just_below_the_rate_nothing(place: Place, rates: str, limit: int, window_s: int) -> None:
    limiter = place.limiter({"e": {"by": "ip", "rates": rates}})
    many = 3 * limit + 10
    assert admitted(limiter, limit, window_s, 0.95, many) == (many, many)


@pytest.mark.parametrize(("rates", "limit", "window_s"), RATES)
def test_strict_costs_a_caller_at_the_very_rate_one_hit_in_each_window(
    place: Place, rates: str, limit: int, window_s: int
) -> None:
    """At the rate to the microsecond each hit comes when the one before the last N is just leaving: N of N + 1 pass."""
    limiter = place.limiter({"e": {"by": "ip", "rates": rates}})
    passed, by_log = admitted(limiter, limit, window_s, 1.0, 4 * limit + 40)
    assert passed >= by_log * limit / (limit + 1) * 0.95 - 1


@pytest.mark.parametrize(("rates", "limit", "window_s"), RATES)
def test_a_caller_that_asks_three_times_too_often_gets_its_rate_too(
    place: Place, rates: str, limit: int, window_s: int
) -> None:
    limiter = place.limiter({"e": {"by": "ip", "rates": rates}})
    passed, by_log = admitted(limiter, limit, window_s, 3.0, 6 * limit + 60)
    assert passed >= 0.74 * by_log - 1
