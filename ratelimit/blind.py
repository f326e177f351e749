"""Verbs for those who answer requests: they always get a decision, also where a backend raises.

A backend that is guarded does not raise: it obeys the policy of each rule by itself. For one that is not, what can be
done without it is done here: a rule that says `closed` refuses, and nobody else does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from buckets.errors import BackendUnavailable, EventUnknown
from ratelimit.asking import Features
from ratelimit.async_limiter import AsyncLimiter
from ratelimit.backend import Settled
from ratelimit.decision import Decision, Standing
from ratelimit.rule import Rule

Verb: TypeAlias = Literal["hit", "peek", "reserve"]
RETRY_S = 1.0


async def decided(
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
    rules = limiter.event(event).rules
    try:
        if verb == "peek":
            return await limiter.peek(event, features, cost, explain=explain)
        ask = limiter.reserve if verb == "reserve" else limiter.hit
        return await ask(event, features, cost, caller=caller, explain=explain)
    except BackendUnavailable:
        decision = without_backend(rules, limiter.at_us(None))
        if verb != "peek":
            limiter.tell(event, cost, decision)
        return decision


async def settled(limiter: AsyncLimiter, event: str, reservation: str, keep: int | None) -> Settled | None:
    """How the end of a reservation went; None if the backend did not say. Then its hit counts until its windows are
    over, as it does when the event's rules are gone."""
    try:
        if keep == 0:
            return await limiter.cancel(event, reservation)
        return await limiter.commit(event, reservation, keep)
    except (BackendUnavailable, EventUnknown):
        return None


def without_backend(rules: Sequence[Rule], at_us: int | None) -> Decision:
    """What the rules say of a hit that nobody can count."""
    closed = next((rule for rule in rules if rule.on_failure == "closed" and not rule.shadow), None)
    rule = closed or rules[0]
    limit, window_s = rule.rates[0].limit, rule.rates[0].window_s
    wait_s = RETRY_S if closed else 0.0
    reset_at = 0 if at_us is None else at_us // 1_000_000 + 1
    standing = Standing(closed is None, limit, window_s, 0, wait_s, reset_at, 0, limit, blind=True)
    return Decision(closed is None, rule, standing)
