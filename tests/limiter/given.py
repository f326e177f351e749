"""What the tests of the limiter begin with: a moment, two callers, and ten hits a minute."""

from __future__ import annotations

from clickcurve.limiter.limiter import Limiter
from tests.limiter.places import Place

MIDNIGHT = 1_709_164_800
T = MIDNIGHT + 40_000.25
ANN, BEN = {"ip": "10.0.0.1", "user": "ann"}, {"ip": "10.0.0.2", "user": "ben"}


def ten(place: Place, strategy: str) -> Limiter:
    """Ten hits a minute, or a second where there is no other, by address."""
    rates = "10/s" if strategy == "per_second" else "10/m"
    return place.limiter({"e": {"by": "ip", "rates": rates, "strategy": strategy}})


def hits(limiter: Limiter, many: int, now: float, cost: int = 1) -> list[bool]:
    """Which of so many hits of Ann are allowed."""
    return [limiter.hit("e", ANN, cost, now=now).allowed for _ in range(many)]


def free(limiter: Limiter, now: float) -> int:
    return limiter.peek("e", ANN, now=now).remaining
