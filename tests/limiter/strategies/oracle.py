"""What a limiter ought to answer, worked out from a perfect log of times: slow, simple, and written apart from it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US


class Log:
    """The admitted hits of one key, to the microsecond. A hit that comes with an earlier time than the one before has
    that one's time: for a limiter, time never steps back."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._sums = [0]

    def moment(self, at_us: int) -> int:
        return max(at_us, self._times[-1]) if self._times else at_us

    def admit(self, at_us: int, cost: int) -> None:
        self._times.append(self.moment(at_us))
        self._sums.append(self._sums[-1] + cost)
        if len(self._times) > 20_000:
            self._forget(bisect_left(self._times, self._times[-1] - 3 * DAY_US))

    def after(self, start_us: int) -> int:
        """Hits later than start_us."""
        return self._sums[-1] - self._sums[bisect_right(self._times, start_us)]

    def since(self, start_us: int) -> int:
        """Hits at start_us or later."""
        return self._sums[-1] - self._sums[bisect_left(self._times, start_us)]

    def inside(self, at_us: int, window_s: int) -> int:
        """Hits in the true window (at_us - window, at_us]."""
        return self.after(self.moment(at_us) - window_s * SECOND_US)

    def counted(self, at_us: int, window_s: int, edge_us: int, strict: bool) -> int:
        """What a tiered rule holds against its limit: the hits from the edge before (strict) or after the old end."""
        old_end_us = self.moment(at_us) - window_s * SECOND_US
        return self.since(old_end_us - old_end_us % edge_us + (0 if strict else edge_us))

    def _forget(self, many: int) -> None:
        base = self._sums[many]
        del self._times[:many]
        self._sums = [each - base for each in self._sums[many:]]


class TieredModel:
    """What a tiered rule of these rates (limit, window_s) ought to do, by its log."""

    def __init__(self, rates: list[tuple[int, int]], edge_s: int = 1, strict: bool = True) -> None:
        self.rates, self.strict = rates, strict
        self.edges_us = [self._edge_us(window_s, edge_s) for _, window_s in rates]
        self.log = Log()

    def _edge_us(self, window_s: int, edge_s: int) -> int:
        """Of windows under 20 s a twentieth of the shortest, or the next smaller part of a second that is a bucket."""
        if edge_s > 1 or window_s >= 20:
            return edge_s * SECOND_US
        shortest_s = min(each for _, each in self.rates)
        return max(part for part in (50_000, 100_000, 250_000, 500_000) if 20 * part <= shortest_s * SECOND_US)

    def fits(self, at_us: int, cost: int) -> bool:
        return all(
            self.log.counted(at_us, window_s, edge_us, self.strict) + cost <= limit
            for (limit, window_s), edge_us in zip(self.rates, self.edges_us, strict=True)
        )

    def charge(self, at_us: int, cost: int) -> None:
        self.log.admit(at_us, cost)


class FixedModel:
    """Windows of the clock."""

    def __init__(self, rates: list[tuple[int, int]]) -> None:
        self.rates = rates
        self.latest = 0
        self.counts: dict[tuple[int, int], int] = {}

    def _windows(self, at_us: int) -> list[tuple[int, tuple[int, int]]]:
        second = max(at_us, self.latest) // SECOND_US
        return [(limit, (window_s, second // window_s)) for limit, window_s in self.rates]

    def fits(self, at_us: int, cost: int) -> bool:
        return all(self.counts.get(window, 0) + cost <= limit for limit, window in self._windows(at_us))

    def charge(self, at_us: int, cost: int) -> None:
        for _, window in self._windows(at_us):
            self.counts[window] = self.counts.get(window, 0) + cost
        self.latest = max(at_us, self.latest)


class OpenedModel:
    """A window that opens with the first admitted hit."""

    def __init__(self, rates: list[tuple[int, int]]) -> None:
        ((self.limit, window_s),) = rates
        self.window_us = window_s * SECOND_US
        self.opened_us, self.count = -self.window_us, 0

    def _used(self, at_us: int) -> int:
        return self.count if at_us < self.opened_us + self.window_us else 0

    def fits(self, at_us: int, cost: int) -> bool:
        return self._used(at_us) + cost <= self.limit

    def charge(self, at_us: int, cost: int) -> None:
        self.count = self._used(at_us) + cost
        if self.count == cost:
            self.opened_us = at_us


class TokenModel:
    """A bucket in which a token is as many drops as the window has microseconds: exact, with integers of any size."""

    def __init__(self, rates: list[tuple[int, int]], burst: int) -> None:
        ((self.gain, window_s),) = rates
        self.token = window_s * SECOND_US
        self.full = self.drops = burst * self.token
        self.latest = 0

    def _drops(self, at_us: int) -> int:
        return min(self.full, self.drops + max(0, at_us - self.latest) * self.gain) if self.latest else self.full

    def fits(self, at_us: int, cost: int) -> bool:
        return cost * self.token <= self._drops(at_us)

    def charge(self, at_us: int, cost: int) -> None:
        self.drops = self._drops(at_us) - cost * self.token
        self.latest = max(at_us, self.latest)
