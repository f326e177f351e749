"""A key's admitted hits in memory, for a tiered rule.

Only the buckets of the finest edge's width are kept, and of these only those with hits: their starts, oldest first, and
the running sums before and after each (4 + 4 bytes a bucket, in two arrays; 8 + 4 where buckets are finer than a
second). The hits since any edge are then one search and one subtraction, however many buckets the cover of that window
has; `sliding_window` says what they mean. All rates share the buckets. Those that no window reaches any more are cut
off when the arrays have doubled, and fine ones that only long windows still reach become one for each second.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from copy import copy

from clickcurve.buckets.cover import Run
from clickcurve.limiter.backends.meter import UNBOUNDED, MemoryBudget, Meter
from clickcurve.limiter.moment import last_us, moment
from clickcurve.limiter.quota import Quota, deciding, new
from clickcurve.limiter.rates import MAX_LIMIT
from clickcurve.limiter.rule import Reach, Rule
from clickcurve.limiter.sliding_window import FINE_KEPT_S, Counted, bucket_start, pieces, weigh_rate

BUCKET_BYTES = 8
# The arrays hold numbers below 2^32. Hits that still count are at most MAX_LIMIT; the others are cut off at this sum.
_SUM_MAX = 2 * MAX_LIMIT
_ROOM = 16


class Series(Meter):
    """The buckets of one key. sums[i + 1] - sums[i] hits are in the one that begins at starts[i], in ticks of the rule.

    latest: the tick of the latest hit that counts. merged: before this tick there is one bucket for each second.
    """

    __slots__ = ("budget", "latest", "merged", "room", "rule", "starts", "sums")

    def __init__(self, rule: Rule, at_us: int, budget: MemoryBudget) -> None:
        self.rule = rule
        self.budget = budget
        self.latest = self.merged = 0
        self.room = _ROOM
        self.starts = array("I" if rule.ticks_s == 1 else "Q")
        self.sums = array("I", (0,))

    def weigh(self, rule: Rule, at_us: int, cost: int, taking: bool) -> Quota:
        tick = at_us // rule.tick_us
        if tick < self.latest:
            return self._weigh_earlier(rule, at_us, cost, taking)
        starts, sums = self.starts, self.sums
        total = sums[-1]
        oldest = starts[0] if starts else tick
        many = rule.ticks_s
        last = 0  # of the second, as `_gone` has it; divisions cost most here, so only where it is needed
        tight, least = rule.reaches[0], MAX_LIMIT + 1
        for reach in rule.reaches:
            limit, _, edge, decided, _ = reach
            left = limit - total
            if edge == 1:
                gone = tick - decided
            else:
                last = last or tick - tick % many + many - 1
                gone = last - decided
            if oldest <= gone:
                left += sums[bisect_right(starts, gone)]
            if left < least:
                tight, least = reach, left
        if least < cost:
            return self._weigh_tight(rule, tick, at_us, cost, cost - 1)
        limit, window_s, edge, decided, other_end = tight
        used = limit - least
        other = total
        gone = (tick if edge == 1 else last) - other_end
        if oldest <= gone:
            other -= sums[bisect_right(starts, gone)]
        newest = self.latest
        if taking:
            if least == cost:
                return self._weigh_tight(rule, tick, at_us, cost, cost)
            used, other, least, newest = used + cost, other + cost, least - cost, tick
        if edge > 1:
            newest -= newest % edge
        resets = newest + decided if used else tick - tick % many
        resets = resets if many == 1 else -(-resets // many)
        if other < used:
            used, other = other, used
        return new(Quota, (True, limit, window_s, least, 0.0, resets, used, other, (), (), False, 0))

    def _weigh_earlier(self, rule: Rule, at_us: int, cost: int, taking: bool) -> Quota:
        """Weighs a hit at a time before the latest one."""
        if taking:  # even if it is refused: until it fits, the clock may come to where others have counted
            self._forget_after(last_us(at_us) // rule.tick_us)
        then, at_us = self._as_of(rule, at_us)
        return then.weigh(rule, at_us, cost, taking)

    def charge(self, rule: Rule, at_us: int, cost: int, caller: str, is_reserved: bool) -> int:
        """Counts a hit that fits; its handle is the start of the bucket that it went into."""
        self.rule = rule
        tick = at_us // rule.tick_us
        if tick < self.latest:
            self._forget_after(last_us(at_us) // rule.tick_us)
            tick = max(tick, self.latest)
        self.latest = tick
        start = tick if rule.edge == 1 else tick - tick % rule.edge
        starts, sums = self.starts, self.sums
        if starts and starts[-1] == start:
            sums[-1] += cost
            return start
        if len(starts) >= self.room or sums[-1] > _SUM_MAX:
            self._trim(rule)
            starts, sums = self.starts, self.sums
        if not starts:
            self.budget.add(BUCKET_BYTES)  # without one bucket it could not count at all
        elif not self.budget.take(BUCKET_BYTES):
            # The newest bucket's hits count as if they had come now: never too few.
            starts[-1] = start
            sums[-1] += cost
            return start
        starts.append(start)
        sums.append(sums[-1] + cost)
        return start

    def _as_of(self, rule: Rule, at_us: int) -> tuple[Series, int]:
        """Returns what counts at a time that may be before the latest hit, and the moment that is meant."""
        then, last = self, last_us(at_us) // rule.tick_us
        if last < self.latest:
            then = copy(self)
            then.starts, then.sums, then.budget = self.starts[:], self.sums[:], UNBOUNDED
            then._forget_after(last)
        return then, moment(at_us, then.latest * rule.tick_us)

    def _forget_after(self, tick: int) -> None:
        """Forgets the buckets that begin after a tick."""
        starts, kept = self.starts, bisect_right(self.starts, tick)
        if tick < self.latest:
            self.latest = starts[kept - 1] if kept else 0
        self.budget.give(BUCKET_BYTES * (len(starts) - kept))
        del starts[kept:], self.sums[kept + 1 :]

    def _trim(self, rule: Rule) -> None:
        """Cuts off the buckets that no window reaches, and lets the sums begin at 0 again."""
        before = len(self.starts)
        longest_reach = rule.reaches[-1]
        decided = max(longest_reach.decided, longest_reach.other)
        gone = bisect_right(self.starts, _gone(rule, longest_reach, self.latest, decided))
        del self.starts[:gone]
        base = self.sums[gone]
        self.sums = array("I", [each - base for each in self.sums[gone:]])
        if longest_reach.edge > rule.edge:
            self._merge_seconds(rule)
        self.budget.give((before - len(self.starts)) * BUCKET_BYTES)
        self.room = max(_ROOM, 2 * len(self.starts))

    def _merge_seconds(self, rule: Rule) -> None:
        """Makes one bucket for each second of the fine ones that no short window reaches."""
        many = rule.ticks_s
        self.merged = bucket_start(self.latest, many) - FINE_KEPT_S * many
        starts, old = self.starts, bisect_left(self.starts, self.merged)
        ends = [n for n in range(old) if n + 1 == old or starts[n] // many != starts[n + 1] // many]
        self.sums = array("I", [0, *(self.sums[n + 1] for n in ends), *self.sums[old + 1 :]])
        self.starts = array("Q", [*(bucket_start(starts[n], many) for n in ends), *starts[old:]])

    def refund(self, rule: Rule, at_us: int, handle: int, cost: int, caller: str) -> None:
        starts, sums = self.starts, self.sums
        if handle < self.merged:
            handle = bucket_start(handle, rule.ticks_s)
        index = bisect_left(starts, handle)
        if index == len(starts) or starts[index] != handle:
            return
        cost = min(cost, sums[index + 1] - sums[index])
        for later in range(index + 1, len(sums)):
            sums[later] -= cost
        if sums[index + 1] == sums[index]:
            del starts[index], sums[index + 1]
            self.budget.give(BUCKET_BYTES)

    def explained(self, rule: Rule, at_us: int, quota: Quota) -> Quota:
        then, at_us = self._as_of(rule, at_us)
        tick = at_us // rule.tick_us
        reach = next(reach for reach in rule.reaches if reach.window_s == quota.window_s)
        return quota._replace(pieces=pieces(rule, reach, tick, then._hits))

    def is_idle(self, at_us: int) -> bool:
        rule, (then, at_us) = self.rule, self._as_of(self.rule, at_us)
        return not then.starts or then.starts[-1] + rule.keep_s * rule.ticks_s <= at_us // rule.tick_us

    def size_bytes(self) -> int:
        return BUCKET_BYTES * len(self.starts)

    def _hits(self, run: Run) -> int:
        return self.sums[bisect_left(self.starts, run.end)] - self.sums[bisect_left(self.starts, run.start)]

    def _weigh_tight(self, rule: Rule, tick: int, at_us: int, cost: int, most_left: int) -> Quota:
        """Weighs a hit that is refused or takes the last place, under the rates that leave so little."""
        quotas = []
        for reach in rule.reaches:
            counted = self._counted(rule, reach, tick, cost, most_left)
            if counted is not None:
                quotas.append(weigh_rate(rule, reach, counted, self.latest, tick, at_us, cost, True))
        return deciding(quotas)

    def _counted(self, rule: Rule, reach: Reach, tick: int, cost: int, most_left: int) -> Counted | None:
        """Returns what counts under one rate; None where more than most_left is left."""
        starts, sums = self.starts, self.sums
        oldest = bisect_right(starts, _gone(rule, reach, tick, reach.decided))
        used = sums[-1] - sums[oldest]
        left = reach.limit - used
        if left > most_left:
            return None
        other = sums[-1] - sums[bisect_right(starts, _gone(rule, reach, tick, reach.other))]
        start = 0
        if used and cost <= reach.limit:
            last = bisect_left(sums, sums[oldest] + (cost - left or 1)) - 1
            start = bucket_start(starts[last], reach.edge)
        return new(Counted, (used, other, start))


def _gone(rule: Rule, reach: Reach, tick: int, reached: int) -> int:
    """Returns the latest start of a bucket that is no longer reached: of a fine one, if its whole second is not."""
    last = tick if reach.edge == 1 else bucket_start(tick, rule.ticks_s) + rule.ticks_s - 1
    return last - reached
