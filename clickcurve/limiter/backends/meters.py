"""What counts one key in memory, for each strategy: the smallest state that answers, and the verbs that all share.

The backend holds its lock around each call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from clickcurve.limiter import fixed_window, token_bucket
from clickcurve.limiter.backends.bucket_series import Series
from clickcurve.limiter.backends.memory_budget import MemoryBudget
from clickcurve.limiter.fixed_window import closes_us, turn
from clickcurve.limiter.quota import Piece, Quota, longest, new, tightest
from clickcurve.limiter.rates import MAX_LIMIT
from clickcurve.limiter.rule import Rule
from clickcurve.limiter.token_bucket import converted, drops_at, give_back, trim_claims
from clickcurve.times import SECOND_US

# A caller's entry in a list, and its share of the text, which is kept once.
CALLER_BYTES = 64


class Meter(Protocol):
    """One key's state."""

    def weigh(self, rule: Rule, at_us: int, cost: int, taking: bool) -> Quota:
        """Returns the key's quota, after a hit of this cost if it fits and is taken. Changes nothing."""
        ...

    def charge(self, rule: Rule, at_us: int, cost: int, caller: str, held: bool) -> int:
        """Counts a hit that fits. Returns the handle by which, if it is held, it can be taken back."""
        ...

    def refund(self, rule: Rule, at_us: int, handle: int, cost: int, caller: str) -> None:
        """Ends the hold on a hit and takes back so much of its cost, as far as that still counts."""
        ...

    def explained(self, rule: Rule, at_us: int, quota: Quota) -> Quota:
        """Returns the quota with the pieces that it was summed from, and the callers of a list."""
        ...

    def is_idle(self, at_us: int) -> bool:
        """Returns whether nothing counts any more, so that a new meter would answer the same."""
        ...

    def size_bytes(self) -> int:
        """Returns what it took from the budget since it was made, without its share of a key."""
        ...


class Windows:
    """`fixed` and `per_second`: for each rate a count, and the second at which its window ends.

    All times before that end are taken for times in that window, so a clock that steps back opens no other.
    """

    __slots__ = ("counts", "ends", "rule")

    def __init__(self, rule: Rule, at_us: int, budget: MemoryBudget) -> None:
        self.rule = rule
        self.ends = [turn(at_us // SECOND_US, rate.window_s) for rate in rule.rates]
        self.counts = [0] * len(rule.rates)

    def weigh(self, rule: Rule, at_us: int, cost: int, taking: bool) -> Quota:
        second = at_us // SECOND_US
        ends, counts = self.ends, self.counts
        at, least = 0, MAX_LIMIT + 1
        for n, reach in enumerate(rule.reaches):
            left = reach[0] - counts[n] if second < ends[n] else reach[0]
            if left < least:
                at, least = n, left
        if least < cost:
            return longest([quota for quota in self._quotas(rule, second, at_us, cost, False) if not quota.fits])
        if taking:
            if least == cost:
                return tightest(self._quotas(rule, second, at_us, cost, True))
            least -= cost
        limit, window_s = rule.reaches[at][:2]
        used = limit - least
        reset_at = second
        if used:
            reset_at = ends[at] if second < ends[at] else turn(second, window_s)
        return new(Quota, (True, limit, window_s, least, 0.0, reset_at, used, used, (), (), False, 0))

    def _quotas(self, rule: Rule, second: int, at_us: int, cost: int, taking: bool) -> list[Quota]:
        """Returns the quota under each rate, where nothing is left or the hit does not fit."""
        quotas = []
        for (limit, window_s, _, _, _), end, count in zip(rule.reaches, self.ends, self.counts, strict=True):
            used, closes = (count, end) if second < end else (0, turn(second, window_s))
            quotas.append(fixed_window.weigh_count(limit, window_s, used, closes * SECOND_US, at_us, cost, taking))
        return quotas

    def charge(self, rule: Rule, at_us: int, cost: int, caller: str, held: bool) -> int:
        second = at_us // SECOND_US
        ends, counts = self.ends, self.counts
        self.rule = rule
        for n, end in enumerate(ends):
            if second < end:
                counts[n] += cost
            else:
                ends[n], counts[n] = turn(second, rule.reaches[n].window_s), cost
        # A second that lies in all of these windows, and in no others.
        return max(second, *self._starts()) if held else 0

    def _starts(self) -> list[int]:
        return [end - rate.window_s for end, rate in zip(self.ends, self.rule.rates, strict=True)]

    def refund(self, rule: Rule, at_us: int, handle: int, cost: int, caller: str) -> None:
        for n, start in enumerate(self._starts()):
            if start <= handle < self.ends[n]:
                self.counts[n] -= cost

    def explained(self, rule: Rule, at_us: int, quota: Quota) -> Quota:
        window_s = quota.window_s
        end = self.ends[[rate.window_s for rate in rule.rates].index(window_s)]
        start = max(turn(at_us // SECOND_US, window_s), end) - window_s
        return quota._replace(pieces=(Piece(window_s, start, 1, quota.at_most),))

    def is_idle(self, at_us: int) -> bool:
        return at_us // SECOND_US >= max(self.ends)

    def size_bytes(self) -> int:
        return 0


class Opened:
    """`single_counter` and `list`: a count, and for a list its callers, in a window that a hit opened."""

    __slots__ = ("budget", "callers", "count", "opened_us", "rule")

    def __init__(self, rule: Rule, at_us: int, budget: MemoryBudget) -> None:
        self.rule = rule
        self.budget = budget
        self.opened_us = at_us
        self.count = 0
        self.callers: list[str] = []

    def weigh(self, rule: Rule, at_us: int, cost: int, taking: bool) -> Quota:
        limit, window_s = rule.reaches[0][:2]
        counts = self._counts(rule, at_us)
        opened_us, used = (self.opened_us, self.count) if counts else (max(at_us, self.opened_us), 0)
        return fixed_window.weigh_count(limit, window_s, used, closes_us(opened_us, window_s), at_us, cost, taking)

    def _counts(self, rule: Rule, at_us: int) -> bool:
        """Returns whether it holds hits that still count."""
        return self.count > 0 and at_us < closes_us(self.opened_us, rule.reaches[0].window_s)

    def charge(self, rule: Rule, at_us: int, cost: int, caller: str, held: bool) -> int:
        self.rule = rule
        if self._counts(rule, at_us):
            self.count += cost
        else:
            self.budget.give(self.size_bytes())
            self.opened_us, self.count, self.callers = max(at_us, self.opened_us), cost, []
        if rule.strategy == "list" and self.budget.take(CALLER_BYTES * cost):
            self.callers += [caller] * cost
        return self.opened_us

    def refund(self, rule: Rule, at_us: int, handle: int, cost: int, caller: str) -> None:
        if handle == self.opened_us:
            self.count -= cost
            if not self.count:
                self.opened_us = 0  # as if no hit had opened it
            for _ in range(min(cost, self.callers.count(caller))):
                # The last of this name: the order of the others stays.
                del self.callers[len(self.callers) - 1 - self.callers[::-1].index(caller)]
                self.budget.give(CALLER_BYTES)

    def explained(self, rule: Rule, at_us: int, quota: Quota) -> Quota:
        if not self._counts(rule, at_us):
            return quota
        piece = Piece(quota.window_s, self.opened_us // SECOND_US, 1, self.count)
        return quota._replace(pieces=(piece,), callers=tuple(self.callers))

    def is_idle(self, at_us: int) -> bool:
        return not self._counts(self.rule, at_us)

    def size_bytes(self) -> int:
        return CALLER_BYTES * len(self.callers)


class Tokens:
    """`token_bucket`: drops as of a microsecond, and the claims of its open reservations, by handle, oldest first.

    The drops are those of the flow of the rule that it was last charged for.
    """

    __slots__ = ("claims", "drops", "holds", "rule", "seen_us")

    def __init__(self, rule: Rule, at_us: int, budget: MemoryBudget) -> None:
        self.rule = rule
        self.seen_us = at_us
        self.drops = rule.flow.full
        self.holds = 0
        self.claims: dict[int, int] | None = None

    def weigh(self, rule: Rule, at_us: int, cost: int, taking: bool) -> Quota:
        seen_us = self.seen_us
        drops = drops_at(rule.flow, self.drops, seen_us, at_us) if rule is self.rule else self._drops(rule, at_us)
        if at_us > seen_us:
            seen_us = at_us
        return token_bucket.weigh_tokens(rule.flow, rule.reaches[0][1], drops, seen_us, at_us, cost, taking)

    def _drops(self, rule: Rule, at_us: int) -> int:
        old = self.rule.flow
        drops = drops_at(old, self.drops, self.seen_us, at_us)
        return drops if rule is self.rule else converted(drops, old, rule.flow)

    def _see(self, rule: Rule, at_us: int) -> None:
        """Brings the state to a later moment and this version of the rule. A change of the rate ends all claims."""
        self.drops = self._drops(rule, at_us)
        self.seen_us = max(self.seen_us, at_us)
        if self.claims:
            same = rule.flow == self.rule.flow
            self._keep(trim_claims(list(self.claims.values()), rule.flow.full - self.drops if same else 0))
        self.rule = rule

    def _keep(self, claims: list[int]) -> None:
        self.claims = {handle: claim for handle, claim in zip(self.claims or (), claims, strict=True) if claim > 0}

    def charge(self, rule: Rule, at_us: int, cost: int, caller: str, held: bool) -> int:
        if rule is self.rule and not self.claims:  # the usual hit, without what others need
            self.drops = drops_at(rule.flow, self.drops, self.seen_us, at_us) - cost * rule.flow.token
            if at_us > self.seen_us:
                self.seen_us = at_us
        else:
            self._see(rule, at_us)
            self.drops -= cost * rule.flow.token
        if not held:
            return 0
        self.holds += 1
        self.claims = {**(self.claims or {}), self.holds: rule.flow.full}
        return self.holds

    def refund(self, rule: Rule, at_us: int, handle: int, cost: int, caller: str) -> None:
        if not self.claims or handle not in self.claims or self.is_idle(at_us):
            return  # nothing is given back to a full bucket, and only a hit or a refund moves it on in time
        self._see(self.rule, at_us)
        which = list(self.claims).index(handle)
        back, claims = give_back(list(self.claims.values()), which, cost * self.rule.flow.token)
        self.drops += back
        self._keep(claims)

    def explained(self, rule: Rule, at_us: int, quota: Quota) -> Quota:
        return quota

    def is_idle(self, at_us: int) -> bool:
        flow = self.rule.flow
        return drops_at(flow, self.drops, self.seen_us, at_us) == flow.full

    def size_bytes(self) -> int:
        return 0


METERS: Mapping[str, Callable[[Rule, int, MemoryBudget], Meter]] = {
    "tiered": Series,
    "fixed": Windows,
    "per_second": Windows,
    "single_counter": Opened,
    "list": Opened,
    "token_bucket": Tokens,
}
