"""What the limiter answers: the one `Decision` that is made of the quotas under each rule."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from clickcurve.buckets.errors import ClickcurveError
from clickcurve.limiter.quota import Bound, Piece, Quota, by_room, by_wait, new
from clickcurve.limiter.rates import Rate
from clickcurve.limiter.rule import Rule


class Decision(NamedTuple):
    """The answer for a hit or a peek.

    rule and quota are those of the refusing rate with the longest wait, else of the tightest rate. shadow: a rule in
    shadow mode would have refused; then `allowed` is true, and rule and quota are of that rule. reservation: the token
    to commit or cancel with.
    """

    allowed: bool
    rule: Rule
    quota: Quota
    shadow: bool = False
    reservation: str | None = None

    @property
    def limit(self) -> int:
        return self.quota.limit

    @property
    def window_s(self) -> int:
        return self.quota.window_s

    @property
    def rate(self) -> Rate:
        """The rate whose numbers these are; of a token bucket `limit` and `window_s` are those of its burst."""
        rates = self.rule.rates
        return rates[0] if len(rates) == 1 else next(each for each in rates if each.window_s == self.quota.window_s)

    @property
    def remaining(self) -> int:
        return self.quota.remaining

    @property
    def retry_after_s(self) -> float | None:
        """Seconds after which the same hit fits if nobody else calls: 0.0 when allowed, None when it never will."""
        return self.quota.retry_after_s

    @property
    def never(self) -> bool:
        """Whether it costs more than can ever be free."""
        return self.quota.retry_after_s is None

    @property
    def reset_at(self) -> int:
        return self.quota.reset_at

    @property
    def more_at(self) -> int:
        """Epoch seconds at which this hit fits, if it is refused, or one more, if nothing is left; else `reset_at`."""
        return self.quota.more_at or self.quota.reset_at

    @property
    def bound(self) -> Bound:
        return Bound(self.quota.at_least, self.quota.at_most)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return self.quota.pieces

    @property
    def callers(self) -> tuple[str, ...]:
        return self.quota.callers

    @property
    def fallback(self) -> bool:
        """Whether it was decided without the backend: each rule's `on_failure` said what to do."""
        return self.quota.fallback


class LimitReached(ClickcurveError, status=429, title="rate limit exceeded"):
    """A function that is `limited` was called more often than its rule allows; it was not run."""

    def __init__(self, decision: Decision) -> None:
        wait_s = decision.retry_after_s
        again = "this costs more than can ever pass" if wait_s is None else f"again in {wait_s} s"
        super().__init__(f"{decision.rule.name}: {decision.rate} is used up; {again}", rule=decision.rule.name)
        self.decision = decision
        self.retry_after_s = max(1, ceil(wait_s or 0.0))


def combine_quotas(rules: Sequence[Rule], quotas: Sequence[Quota], reservation: str | None = None) -> Decision:
    """Returns the one answer that an event's rules give together."""
    if len(quotas) == 1:
        (quota,), (rule,) = quotas, rules
        if quota.fits:
            return new(Decision, (True, rule, quota, False, reservation))
        return Decision(rule.shadow, rule, quota, rule.shadow, reservation if rule.shadow else None)
    tight = 0
    least = quotas[0].remaining
    for n, quota in enumerate(quotas):
        remaining = quota.remaining
        if not quota.fits or rules[n].shadow:
            return _decide_shadow(rules, quotas, reservation)
        if remaining < least or (remaining == least and by_room(quota) < by_room(quotas[tight])):
            tight, least = n, remaining
    return new(Decision, (True, rules[tight], quotas[tight], False, reservation))


def _decide_shadow(rules: Sequence[Rule], quotas: Sequence[Quota], reservation: str | None) -> Decision:
    """Decides where a rule refuses, or is in shadow mode and has no say."""
    refusing = [n for n, quota in enumerate(quotas) if not quota.fits]
    enforced = [n for n in refusing if not rules[n].shadow]
    if refusing:
        first = max(enforced or refusing, key=lambda n: by_wait(quotas[n]))
        return Decision(not enforced, rules[first], quotas[first], not enforced, None if enforced else reservation)
    binding = [n for n, rule in enumerate(rules) if not rule.shadow] or range(len(rules))
    first = min(binding, key=lambda n: by_room(quotas[n]))
    return Decision(True, rules[first], quotas[first], False, reservation)


def quota_without_counts(rule: Rule, cost: int, at_s: float, retry_s: float) -> Quota:
    """Returns the quota of a caller about which nothing is known: full under `closed`, else as if it had never called.

    at_s: epoch seconds. retry_s: seconds until the backend is tried again, which is when a closed rule may admit. A hit
    that costs more than the limit never fits.
    """
    limit, window_s = rule.reaches[0][:2]
    closed = rule.on_failure == "closed"
    wait_s = None if cost > limit else retry_s if closed else 0.0
    reset_at = ceil(at_s + (wait_s or 0.0))
    remaining = 0 if closed else limit
    return Quota(
        not closed and cost <= limit,
        limit,
        window_s,
        remaining,
        wait_s,
        reset_at,
        0,
        limit,
        fallback=True,
    )


def is_admitted(rules: Sequence[Rule], quotas: Sequence[Quota]) -> bool:
    """Returns whether the hit fits under every rule that is not in shadow mode."""
    return not [quota for n, quota in enumerate(quotas) if not (quota.fits or rules[n].shadow)]
