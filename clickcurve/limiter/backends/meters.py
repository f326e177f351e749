"""The meters of each strategy but `tiered`, and the table of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from clickcurve.limiter import fixed_window
from clickcurve.limiter.backends.bucket_series import Series
from clickcurve.limiter.backends.meter import MemoryBudget, Meter
from clickcurve.limiter.fixed_window import closes_us, turn
from clickcurve.limiter.moment import moment
from clickcurve.limiter.quota import Piece, Quota, deciding, new
from clickcurve.limiter.rates import MAX_LIMIT
from clickcurve.limiter.rule import Rule
from clickcurve.limiter.token_bucket import converted, give_back, levels_at, trim_claims, weigh_levels
from clickcurve.times import SECOND_US

# A caller's entry in a list, and its share of the text, which is kept once.
CALLER_BYTES = 64


class Windows(Meter):
    """`fixed` and `per_second`: for each rate a count, and the second at which its window ends.

    The window is that of the second before it too (`moment`).
    """

    __slots__ = ("counts", "ends", "rule")

    def __init__(self, rule: Rule, at_us: int, budget: MemoryBudget) -> None:
        self.rule = rule
        self.ends = [turn(at_us // SECOND_US, rate.window_s) for rate in rule.rates]
        self.counts = [0] * len(rule.rates)

    @classmethod
    def of(cls, rule: Rule, ends: list[int], counts: list[int]) -> Windows:
        """Makes the meter of what was kept elsewhere."""
        meter = cls.__new__(cls)
        meter.rule, meter.ends, meter.counts = rule, ends, counts
        return meter

    def weigh(self, rule: Rule, at_us: int, cost: int, taking: bool) -> Quota:
        second = at_us // SECOND_US
        ends, counts = self.ends, self.counts
        tight, least = 0, MAX_LIMIT + 1
        for n, reach in enumerate(rule.reaches):
            left = reach[0] - counts[n] if 0 < ends[n] - second <= reach[1] + 1 else reach[0]
            if left < least:
                tight, least = n, left
        if least < cost or (taking and least == cost):
            return self._weigh_each(rule, second, at_us, cost, taking)
        if taking:
            least -= cost
        limit, window_s = rule.reaches[tight][:2]
        used = limit - least
        reset_at = second
        if used:
            reset_at = self._closes(tight, second, window_s)
        return new(Quota, (True, limit, window_s, least, 0.0, reset_at, used, used, (), (), False, 0))

    def _weigh_each(self, rule: Rule, second: int, at_us: int, cost: int, taking: bool) -> Quota:
        """Weighs a hit that does not fit under each rate, or takes the last place."""
        quotas = []
        for n, (limit, window_s, _, _, _) in enumerate(rule.reaches):
            closes = self._closes(n, second, window_s)
            used = self.counts[n] if closes == self.ends[n] else 0
            then_us = max(at_us, (closes - window_s) * SECOND_US)
            quotas.append(fixed_window.weigh_count(limit, window_s, used, closes * SECOND_US, then_us, cost, taking))
        return deciding(quotas)

    def _closes(self, n: int, second: int, window_s: int) -> int:
        """Returns the end of the window of rate number n that a second is in."""
        end = self.ends[n]
        return end if 0 < end - second <= window_s + 1 else turn(second, window_s)

    def hit(self, rule: Rule, at_us: int, cost: int, caller: str) -> Quota:
        if len(self.counts) == 1:
            # The usual hit, after which some is left under one rate: without what several need.
            limit, window_s, _, _, _ = rule.reaches[0]
            used, end = self.counts[0] + cost, self.ends[0]
            if used < limit and 0 < end - at_us // SECOND_US <= window_s:
                self.counts[0], self.rule = used, rule
                return new(Quota, (True, limit, window_s, limit - used, 0.0, end, used, used, (), (), False, 0))
        return super().hit(rule, at_us, cost, caller)

    def charge(self, rule: Rule, at_us: int, cost: int, caller: str, is_reserved: bool) -> int:
        second = at_us // SECOND_US
        ends, counts = self.ends, self.counts
        self.rule = rule
        for n, reach in enumerate(rule.reaches):
            closes = self._closes(n, second, reach.window_s)
            counts[n] = cost + (counts[n] if closes == ends[n] else 0)
            ends[n] = closes
        # A second that lies in all of these windows, and in no others.
        return max(second, *self._starts()) if is_reserved else 0

    def _starts(self) -> list[int]:
        return [end - rate.window_s for end, rate in zip(self.ends, self.rule.rates, strict=True)]

    def refund(self, rule: Rule, at_us: int, handle: int, cost: int, caller: str) -> None:
        for n, start in enumerate(self._starts()):
            if start <= handle < self.ends[n]:
                self.counts[n] -= cost

    def explained(self, rule: Rule, at_us: int, quota: Quota) -> Quota:
        window_s = quota.window_s
        n = [rate.window_s for rate in rule.rates].index(window_s)
        start = self._closes(n, at_us // SECOND_US, window_s) - window_s
        return quota._replace(pieces=(Piece(window_s, start, 1, quota.at_most),))

    def is_idle(self, at_us: int) -> bool:
        second, widths = at_us // SECOND_US, [rate.window_s for rate in self.rule.rates]
        return all(self._closes(n, second, width) != self.ends[n] for n, width in enumerate(widths))


class Opened(Meter):
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
        if at_us < self.opened_us:
            at_us = moment(at_us, self.opened_us)
        opened_us, used = (self.opened_us, self.count) if self._counts(rule, at_us) else (at_us, 0)
        return fixed_window.weigh_count(limit, window_s, used, closes_us(opened_us, window_s), at_us, cost, taking)

    def _counts(self, rule: Rule, at_us: int) -> bool:
        """Returns whether it holds hits that count at this moment."""
        return self.count > 0 and self.opened_us <= at_us < closes_us(self.opened_us, rule.reaches[0].window_s)

    def charge(self, rule: Rule, at_us: int, cost: int, caller: str, is_reserved: bool) -> int:
        self.rule = rule
        if at_us < self.opened_us:
            at_us = moment(at_us, self.opened_us)
        if self._counts(rule, at_us):
            self.count += cost
        else:
            self.budget.give(self.size_bytes())
            self.opened_us, self.count, self.callers = at_us, cost, []
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
        if not self._counts(rule, moment(at_us, self.opened_us)):
            return quota
        piece = Piece(quota.window_s, self.opened_us // SECOND_US, 1, self.count)
        return quota._replace(pieces=(piece,), callers=tuple(self.callers))

    def is_idle(self, at_us: int) -> bool:
        return not self._counts(self.rule, moment(at_us, self.opened_us))

    def size_bytes(self) -> int:
        return CALLER_BYTES * len(self.callers)


class Tokens(Meter):
    """`token_bucket`: the levels of all rates' buckets as of a microsecond, and the claims of open reservations.

    The levels are in drops of the flows of the rule that it was last charged for. claims: by handle, oldest first, one
    for each rate.
    """

    __slots__ = ("claims", "holds", "levels", "rule", "seen_us")

    def __init__(self, rule: Rule, at_us: int, budget: MemoryBudget) -> None:
        self.rule = rule
        self.seen_us = at_us
        self.levels = [flow.full for flow in rule.flows]
        self.holds = 0
        self.claims: dict[int, tuple[int, ...]] | None = None

    @classmethod
    def of(
        cls, rule: Rule, levels: list[int], seen_us: int, holds: int, claims: dict[int, tuple[int, ...]] | None
    ) -> Tokens:
        """Makes the meter of what was kept elsewhere."""
        meter = cls.__new__(cls)
        meter.rule, meter.levels, meter.seen_us, meter.holds, meter.claims = rule, levels, seen_us, holds, claims
        return meter

    def weigh(self, rule: Rule, at_us: int, cost: int, taking: bool) -> Quota:
        at_us, levels = self._now(rule, at_us)
        return weigh_levels(rule.flows, levels, at_us, cost, taking)

    def _now(self, rule: Rule, at_us: int) -> tuple[int, list[int]]:
        """Returns the moment that is meant, and the levels then, in drops of this rule."""
        at_us, old = moment(at_us, self.seen_us), self.rule.flows
        levels = levels_at(old, self.levels, self.seen_us, at_us)
        return at_us, levels if rule is self.rule else list(map(converted, levels, old, rule.flows))

    def hit(self, rule: Rule, at_us: int, cost: int, caller: str) -> Quota:
        seen_us = self.seen_us
        elapsed_us = at_us - seen_us
        if rule is self.rule and not self.claims and elapsed_us >= 0:
            # The usual hit, after which some is left under each rate: in one pass, without what others need.
            levels, least = [], MAX_LIMIT + 1
            for n, (tick_us, gain, token, full, _, _) in enumerate(rule.flows):
                ticks = elapsed_us if tick_us == 1 else at_us // tick_us - seen_us // tick_us
                drops = self.levels[n] + ticks * gain
                drops = (full if drops > full else drops) - cost * token
                levels.append(drops)
                left = drops // token
                if left < least:
                    tight, least = n, left
            if least > 0:
                self.levels, self.seen_us = levels, at_us
                tick_us, gain, _, full, limit, window_s = rule.flows[tight]
                reset_at = -((at_us // tick_us - (levels[tight] - full) // gain) * -tick_us // SECOND_US)
                used = limit - least
                return new(Quota, (True, limit, window_s, least, 0.0, reset_at, used, used, (), (), False, 0))
        return super().hit(rule, at_us, cost, caller)

    def charge(self, rule: Rule, at_us: int, cost: int, caller: str, is_reserved: bool) -> int:
        self.seen_us, levels = self._now(rule, at_us)
        if self.claims:
            self._keep(self._trimmed(rule, levels))
        self.levels = [drops - cost * flow.token for drops, flow in zip(levels, rule.flows, strict=True)]
        self.rule = rule
        if not is_reserved:
            return 0
        self.holds += 1
        self.claims = {**(self.claims or {}), self.holds: tuple(flow.full for flow in rule.flows)}
        return self.holds

    def _trimmed(self, rule: Rule, levels: Sequence[int]) -> list[list[int]]:
        """Returns each rate's claims, oldest first, at a moment with these levels; a change of the rate ends them."""
        by_rate = zip(*(self.claims or {}).values(), strict=True)
        return [
            trim_claims(claims, flow.full - drops if flow == before else 0)
            for claims, flow, before, drops in zip(by_rate, rule.flows, self.rule.flows, levels, strict=True)
        ]

    def _keep(self, by_rate: Sequence[Sequence[int]]) -> None:
        claims = zip(self.claims or (), zip(*by_rate, strict=True), strict=True)
        self.claims = {handle: each for handle, each in claims if max(each) > 0}

    def refund(self, rule: Rule, at_us: int, handle: int, cost: int, caller: str) -> None:
        if not self.claims or handle not in self.claims:
            return
        flows, (at_us, levels) = self.rule.flows, self._now(self.rule, at_us)
        which, by_rate = list(self.claims).index(handle), self._trimmed(self.rule, levels)
        if not any(claims[which] for claims in by_rate):
            return  # nothing is given back to a full bucket, and only a hit or a refund moves it on in time
        for n, claims in enumerate(by_rate):
            back, by_rate[n] = give_back(claims, which, cost * flows[n].token)
            levels[n] += back
        self.levels, self.seen_us = levels, at_us
        self._keep(by_rate)

    def is_idle(self, at_us: int) -> bool:
        return self._now(self.rule, at_us)[1] == [flow.full for flow in self.rule.flows]


METERS: Mapping[str, Callable[[Rule, int, MemoryBudget], Meter]] = {
    "tiered": Series,
    "fixed": Windows,
    "per_second": Windows,
    "single_counter": Opened,
    "list": Opened,
    "token_bucket": Tokens,
}
