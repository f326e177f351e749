"""Verbs for programs that answer requests: they always get a decision, also where a backend raises.

A guarded backend does not raise: it obeys the policy of each rule by itself. Where an unguarded one raises, the policy
is obeyed here as far as is possible without counts: a rule that says `closed` refuses, every other admits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from clickcurve.buckets.errors import BackendUnavailable, EventUnknown
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import Settled
from clickcurve.limiter.decision import Decision, combine_quotas, quota_without_counts
from clickcurve.limiter.events import Features
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
    """Returns the verb's decision, or one without the backend. EventUnknown and ParameterInvalid pass through."""
    rules_of_event = limiter.events.of(event, features)
    try:
        if verb == "peek":
            return await limiter.peek(event, features, cost, explain=explain)
        ask = limiter.reserve if verb == "reserve" else limiter.hit
        return await ask(event, features, cost, caller=caller, explain=explain)
    except BackendUnavailable:
        decision = without_backend(rules_of_event.rules, cost, limiter.events.now())
        if verb != "peek":
            limiter.events.report(rules_of_event, features, cost, decision)
        return decision


async def settle_anyway(limiter: AsyncLimiter, event: str, reservation: str, keep: int | None) -> Settled | None:
    """Ends a reservation and returns how that went; None if the backend did not say.

    Then, and where the event has no rule any more, its hit counts until its windows are over.
    """
    try:
        if keep == 0:
            return await limiter.cancel(event, reservation)
        return await limiter.commit(event, reservation, keep)
    except (BackendUnavailable, EventUnknown):
        return None


def without_backend(rules: Sequence[Rule], cost: int, now: float | None) -> Decision:
    """Returns what the rules say of a hit that cannot be counted. One that costs more than its limit never fits."""
    return combine_quotas(rules, [quota_without_counts(rule, cost, now or 0.0, RETRY_S) for rule in rules])
