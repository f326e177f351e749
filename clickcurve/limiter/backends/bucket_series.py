"""A key's admitted hits in memory, for a tiered rule.

Only the buckets of the edge's width are kept, and of these only those with hits: their starts, oldest first, and the
running sums before and after each (4 + 4 bytes a bucket, in two arrays). The hits since any edge are then one
search and one subtraction, however many buckets the cover of that window has; `sliding_window` says what they mean.
All rates share the buckets. Those that no window reaches any more are cut off when the arrays have doubled.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from clickcurve.buckets.cover import Run
from clickcurve.limiter.backends.memory_budget import MemoryBudget
from clickcurve.limiter.quota import Quota, by_room, longest, new
from clickcurve.limiter.rates import MAX_LIMIT
from clickcurve.limiter.rule import Reach, Rule
from clickcurve.limiter.sliding_window import admitted_quota, pieces, refused_quota
from clickcurve.times import SECOND_US

BUCKET_BYTES = 8
# The arrays hold numbers below 2^32. Hits that still count are at most MAX_LIMIT; the others are cut off at this sum.
_SUM_MAX = 2 * MAX_LIMIT
_ROOM = 16


class Series:
    """The buckets of one key. sums[i + 1] - sums[i] hits are in the one that begins at starts[i].

    latest: the second of the latest hit that was charged; an earlier time is taken for it.
    """

    __slots__ = ("budget", "latest", "room", "rule", "starts", "sums")

    def __init__(self, rule: Rule, at_us: int, budget: MemoryBudget) -> None:
        self.rule = rule
        self.budget = budget
        self.latest = at_us // SECOND_US
        self.room = _ROOM
        self.starts = array("I")
        self.sums = array("I", (0,))

    def weigh(self, rule: Rule, at_us: int, cost: int, taking: bool) -> Quota:
        """Returns the quota under all rates, after a hit of this cost if that fits and is taken."""
        second = at_us // SECOND_US
        if second < self.latest:
            second = self.latest
        starts, sums = self.starts, self.sums
        total = sums[-1]
        oldest = starts[0] if starts else second
        tight, least = rule.reaches[0], MAX_LIMIT + 1
        for reach in rule.reaches:
            limit, _, decided_s, _ = reach
            left = limit - total
            if oldest <= second - decided_s:
                left += sums[bisect_right(starts, second - decided_s)]
            if left < least:
                tight, least = reach, left
        if least < cost:
            return self._refused(rule, second, at_us, cost)
        limit, window_s, decided_s, other_s = tight
        used = limit - least
        other = total
        if oldest <= second - other_s:
            other -= sums[bisect_right(starts, second - other_s)]
        newest = self.latest
        if taking:
            if least == cost:
                return self._last_place(rule, second, cost)
            used, other, least, newest = used + cost, other + cost, least - cost, second
        resets = newest - newest % rule.edge_s + decided_s if used else second
        if other < used:
            used, other = other, used
        return new(Quota, (True, limit, window_s, least, 0.0, resets, used, other, (), (), False, 0))

    def _last_place(self, rule: Rule, second: int, cost: int) -> Quota:
        """Returns the quota after a hit that fits and leaves nothing: of the rate under which one more fits last."""
        starts, sums = self.starts, self.sums
        start = second - second % rule.edge_s
        found = []
        for reach in rule.reaches:
            oldest = bisect_right(starts, second - reach.decided_s)
            used = sums[-1] - sums[oldest]
            if used + cost == reach.limit:
                while oldest < len(starts) and sums[oldest + 1] == sums[oldest]:
                    oldest += 1  # taken back
                other = sums[-1] - sums[bisect_right(starts, second - reach.other_s)]
                more_at = (starts[oldest] if used else start) + reach.decided_s
                bounds = min(used, other), max(used, other)
                found.append(admitted_quota(rule, reach, bounds, cost, second, second, more_at))
        return min(found, key=by_room)

    def charge(self, rule: Rule, at_us: int, cost: int, caller: str, held: bool) -> int:
        """Counts a hit; returns the start of the bucket that it went into."""
        self.rule = rule
        second = at_us // SECOND_US
        if second < self.latest:
            second = self.latest
        self.latest = second
        start = second - second % rule.edge_s
        starts, sums = self.starts, self.sums
        if starts and starts[-1] == start:
            sums[-1] += cost
        else:
            self._begin(rule, start, cost)
        return start

    def _begin(self, rule: Rule, start: int, cost: int) -> None:
        if len(self.starts) >= self.room or self.sums[-1] > _SUM_MAX:
            self._trim(rule)
        starts, sums = self.starts, self.sums
        if not starts:
            self.budget.add(BUCKET_BYTES)  # without one bucket it could not count at all
        elif not self.budget.take(BUCKET_BYTES):
            # The newest bucket's hits count as if they had come now: never too few.
            starts[-1] = start
            sums[-1] += cost
            return
        starts.append(start)
        sums.append(sums[-1] + cost)

    def _trim(self, rule: Rule) -> None:
        """Cuts off the buckets that no window reaches, and lets the sums begin at 0 again."""
        gone = bisect_right(self.starts, self.latest - rule.keep_s)
        self.budget.give(gone * BUCKET_BYTES)
        del self.starts[:gone]
        base = self.sums[gone]
        self.sums = array("I", [each - base for each in self.sums[gone:]])
        self.room = max(_ROOM, 2 * len(self.starts))

    def refund(self, rule: Rule, at_us: int, handle: int, cost: int, caller: str) -> None:
        """Takes a hit, or a part of its cost, out of its bucket if that is still kept."""
        starts, sums = self.starts, self.sums
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
        """Returns the same quota with the pieces of its window."""
        second = max(at_us // SECOND_US, self.latest)
        reach = next(reach for reach in rule.reaches if reach.window_s == quota.window_s)
        return quota._replace(pieces=pieces(rule, reach, second, self._hits))

    def is_idle(self, at_us: int) -> bool:
        """Returns whether all windows are empty."""
        return self.latest + self.rule.keep_s <= at_us // SECOND_US

    def size_bytes(self) -> int:
        return BUCKET_BYTES * len(self.starts)

    def _hits(self, run: Run) -> int:
        return self.sums[bisect_left(self.starts, run.end)] - self.sums[bisect_left(self.starts, run.start)]

    def _refused(self, rule: Rule, second: int, at_us: int, cost: int) -> Quota:
        refusals = []
        for reach in rule.reaches:
            refused = self._refusal(rule, reach, second, at_us, cost)
            if refused is not None:
                refusals.append(refused)
        return longest(refusals)

    def _refusal(self, rule: Rule, reach: Reach, second: int, at_us: int, cost: int) -> Quota | None:
        starts, sums = self.starts, self.sums
        oldest = bisect_right(starts, second - reach.decided_s)
        used = sums[-1] - sums[oldest]
        too_many = used + cost - reach.limit
        if too_many <= 0:
            return None
        passes_at = None
        if cost <= reach.limit:
            # The bucket with which enough of them will have left.
            last = bisect_left(sums, sums[oldest] + too_many) - 1
            passes_at = starts[last] + reach.decided_s
        other = sums[-1] - sums[bisect_right(starts, second - reach.other_s)]
        bounds = min(used, other), max(used, other)
        return refused_quota(rule, reach, bounds, self.latest, second, at_us, passes_at)
