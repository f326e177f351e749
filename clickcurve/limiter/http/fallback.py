"""Verbs for those who answer requests: they always get a decision, also where a backend raises.

A backend that is guarded does not raise: it obeys the policy of each rule by itself. For one that is not, what can be
done without it is done here: a rule that says `closed` refuses, and nobody else does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Literal, TypeAlias

from clickcurve.buckets.errors import BackendUnavailable, EventUnknown
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import Settled
from clickcurve.limiter.decision import Decision, decide
from clickcurve.limiter.events import Features
from clickcurve.limiter.quota import Quota
from clickcurve.limiter.rule import Rule

Verb: TypeAlias = Literal["hit", "peek", "reserve"]
RETRY_S = 1.0


async def decide_anyway(
    limiter: AsyncLimiter,
    verb: Verb,
    event: str,
    features: Features,
    cost: int = 1,
    *,
    caller: str | None = None,
    explain: bool = False,
) -> Decision:
    """The verb's decision, or one without the backend. EventUnknown and ParameterInvalid pass through."""
    known = limiter.events[event]
    try:
        if verb == "peek":
            return await limiter.peek(event, features, cost, explain=explain)
        ask = limiter.reserve if verb == "reserve" else limiter.hit
        return await ask(event, features, cost, caller=caller, explain=explain)
    except BackendUnavailable:
        decision = without_backend(known.rules, cost, limiter.events.now())
        if verb != "peek":
            limiter.events.report(known, features, cost, decision)
        return decision


async def settle_anyway(limiter: AsyncLimiter, event: str, reservation: str, keep: int | None) -> Settled | None:
    """How the end of a reservation went; None if the backend did not say. Then its hit counts until its windows are
    over, as it does when the event's rules are gone."""
    try:
        if keep == 0:
            return await limiter.cancel(event, reservation)
        return await limiter.commit(event, reservation, keep)
    except (BackendUnavailable, EventUnknown):
        return None


def without_backend(rules: Sequence[Rule], cost: int, now: float | None) -> Decision:
    """What the rules say of a hit that nobody can count. One that costs more than its limit never fits."""
    return decide(rules, [_without(rule, cost, now) for rule in rules])


def _without(rule: Rule, cost: int, now: float | None) -> Quota:
    """How a caller stands of whom nothing is known: as if it were full under `closed`, else as if nobody had called."""
    limit, window_s = rule.burst or rule.rates[0].limit, rule.rates[0].window_s
    wait_s: float | None = RETRY_S if rule.on_failure == "closed" else 0.0
    if cost > limit:
        wait_s = None
    left = 0 if rule.on_failure == "closed" else limit
    reset_at = ceil((now or 0.0) + (wait_s or 0.0))
    return Quota(wait_s == 0.0, limit, window_s, left, wait_s, reset_at, 0, limit, fallback=True)
