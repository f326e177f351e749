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

    def counted(self, at_us: int, window_s: int, edge_s: int, strict: bool) -> int:
        """What a tiered rule holds against its limit: the hits from the edge before (strict) or after the old end."""
        old_end_s = self.moment(at_us) // SECOND_US - window_s
        first_s = old_end_s - old_end_s % edge_s + (0 if strict else edge_s)
        return self.since(first_s * SECOND_US)

    def _forget(self, many: int) -> None:
        base = self._sums[many]
        del self._times[:many]
        self._sums = [each - base for each in self._sums[many:]]
