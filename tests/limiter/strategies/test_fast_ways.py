"""What is written a second time for speed decides as what it stands for, on random rules and traces."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import Question
from clickcurve.limiter.backends.forms import blocking
from clickcurve.limiter.backends.memory import MemoryBackend
from clickcurve.limiter.backends.meter import UNBOUNDED, Meter
from clickcurve.limiter.backends.meters import METERS
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.limiter import Limiter
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import STRATEGIES, Rule, parse_rules
from tests.limiter.given import T

RATES = st.lists(st.sampled_from(["2/s", "3/10s", "5/m", "8/h", "12/d"]), min_size=1, max_size=4, unique=True)
# Seconds since the hit before, backwards too, and its cost.
HITS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.2, 0.7, 1.0, 9.0, 61.0, 3_601.0, -5.0]), st.integers(1, 4)), max_size=40
)


class SlowMemory(MemoryBackend):
    """Decides every question in the general way."""

    def decide(self, question: Question) -> Sequence[Quota]:
        with self._lock:
            return self._decide(question, question.at_us or 0)


def rules_of(strategy: str, rates: list[str]) -> list[Rule]:
    one_rate = strategy in ("single_counter", "list", "per_second")
    text = "3/s" if strategy == "per_second" else rates[0] if one_rate else ", ".join(rates)
    return list(parse_rules({"e": {"by": "ip", "rates": text, "strategy": strategy}}))


def decisions(limiter: Limiter, hit: object, hits: list[tuple[float, int]]) -> list[Decision]:
    now, found = float(T), []
    for later_s, cost in hits:
        now += later_s
        found.append(hit(limiter, "e", {"ip": "a"}, cost, now=now))  # type: ignore[operator]
    return found


@given(st.sampled_from(STRATEGIES), RATES, HITS)
def test_a_hit_of_the_library_is_that_of_the_general_way(
    strategy: str, rates: list[str], hits: list[tuple[float, int]]
) -> None:
    """`Limiter.hit` and `MemoryBackend.decide` beside the verb that is awaited and the general decision."""
    rules = rules_of(strategy, rates)
    fast = decisions(Limiter(rules), Limiter.hit, hits)
    general = Limiter(rules, backends={"memory": SlowMemory()})
    assert fast == decisions(general, blocking(AsyncLimiter.hit), hits)


@given(st.sampled_from(STRATEGIES), RATES, HITS)
def test_a_hit_on_a_meter_is_its_quota_and_its_charge(
    strategy: str, rates: list[str], hits: list[tuple[float, int]]
) -> None:
    """`hit` of each meter beside `weigh` and `charge`, which it joins."""
    (rule,) = rules_of(strategy, rates)
    made: list[Meter] = [METERS[strategy](rule, int(T) * 1_000_000, UNBOUNDED) for _ in range(2)]
    joined, parted = made
    now = float(T)
    for later_s, cost in hits:
        now += later_s
        at_us = int(now * 1_000_000)
        quota = parted.weigh(rule, at_us, cost, True)
        if quota.fits:
            parted.charge(rule, at_us, cost, "", False)
        assert joined.hit(rule, at_us, cost, "") == quota
