"""Same trace, same answers: every backend against the one in process, number for number, on random rules and traces."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from clickcurve.limiter.decision import Decision
from clickcurve.limiter.rule import STRATEGIES
from tests.limiter.places import BACKENDS, CLUSTER, Place, memory
from tests.limiter.replay.traces import rates_of, steps, text_of

SECOND_US = 1_000_000
OTHERS = [name for name in BACKENDS if name != "memory"]
NAMES = ("ann", "ben", "eve/1", "1:eve")


def rules_of(random: Random, name: str) -> list[dict[str, Any]]:
    rules = [_rule(random, random.choice(STRATEGIES)) for _ in range(random.choice((1, 1, 2, 3)))]
    if name == CLUSTER:  # which decides about one caller
        rules = [{**rule, "by": rules[0]["by"]} for rule in rules]
    return rules


def _rule(random: Random, strategy: str) -> dict[str, Any]:
    rule: dict[str, Any] = {"by": random.choice(["user", "team", [["team", "user"]]]), "strategy": strategy}
    rule["shadow"] = random.random() < 0.15
    edge_s = 1
    if strategy == "tiered":
        rule["edge"], edge_s = random.choice([("second", 1), ("second", 1), ("minute", 60), ("hour", 3_600)])
        rule["side"] = random.choice(["strict", "lenient"])
    rates = rates_of(random, edge_s, 4 if strategy in ("tiered", "fixed", "token_bucket") else 1)
    if strategy == "token_bucket" and len(rates) == 1:
        rule["burst"] = random.randint(1, 30)
    rule["rates"] = f"{rates[0][0]}/s" if strategy == "per_second" else text_of(rates)
    return rule


def numbers(decision: Decision) -> tuple[object, ...]:
    """All of a decision but its rule, which names its backend, and its token."""
    return (decision.allowed, decision.shadow, decision.rule.name, decision.reservation is None, *decision.quota)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", OTHERS)
def test_same_trace_same_answers(name: str, seed: int) -> None:
    random = Random(f"{name} {seed}")
    rules = rules_of(random, name)
    with BACKENDS[name]() as place, memory() as reference:
        follow(random, place, reference, rules, 600)


def follow(random: Random, place: Place, reference: Place, rules: list[dict[str, Any]], many: int) -> None:
    one, other = place.limiter({"e": rules}), reference.limiter({"e": rules})
    tokens: list[tuple[str, str]] = []
    latest_us = 0
    for at_us, cost in steps(random, many, [1, 60, 3_600]):
        # Beyond that memcached counts apart, and what has left all windows may be forgotten in one place alone.
        at_us = max(at_us, latest_us - SECOND_US)
        latest_us = max(at_us, latest_us)
        now = at_us / SECOND_US
        features = {"user": random.choice(NAMES), "team": random.choice(NAMES[:2])}
        kind = random.random()
        if kind < 0.02:
            one.reset("e", features, now=now)
            other.reset("e", features, now=now)
        elif kind < 0.1 and tokens:
            keep = random.choice([0, None])
            ends = [
                limiter.commit("e", token, keep, now=now)
                for limiter, token in zip((one, other), random.choice(tokens[-4:]), strict=True)
            ]
            assert ends[0] is ends[1]
        else:
            verb, more = random.choice(
                [("hit", {}), ("hit", {"explain": True}), ("peek", {}), ("peek", {"explain": True}), ("reserve", {})]
            )
            told = [getattr(limiter, verb)("e", features, cost, now=now, **more) for limiter in (one, other)]
            assert numbers(told[0]) == numbers(told[1]), (verb, at_us, cost, features)
            if told[0].reservation is not None:
                tokens.append((told[0].reservation, told[1].reservation))
