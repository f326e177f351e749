"""What a limiter ought to answer, worked out from a perfect log of times: slow, simple, and written apart from it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Protocol

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US


def last_us(at_us: int) -> int:
    """The end of the next second: what was counted after it lies in the future, and is no count."""
    return (at_us // SECOND_US + 2) * SECOND_US - 1


class Log:
    """The admitted hits of one key, to the microsecond, oldest first.

    A question that comes with an earlier time than the latest hit is of that hit's tick, if it lies in the same second
    or in the next; hits of later buckets are forgotten by the next one that is admitted. What had once left all windows
    may be forgotten too, when a clock is set back to where it would count (`left_us`: the latest such hit).
    """

    def __init__(self, tick_us: int, edge_us: int) -> None:
        self.tick_us, self.edge_us = tick_us, edge_us
        self.latest_us = 0  # the start of the latest hit's tick
        self.left_us = 0
        self._times: list[int] = []
        self._sums = [0]

    def as_of(self, at_us: int) -> tuple[Log, int]:
        """What counts at a time, and the moment that is meant."""
        then, last = self, last_us(at_us) // self.tick_us * self.tick_us
        if last < self.latest_us:
            then = Log(self.tick_us, self.edge_us)
            kept = bisect_left(self._times, last // self.edge_us * self.edge_us + self.edge_us)
            then._times, then._sums = self._times[:kept], self._sums[: kept + 1]
            then.latest_us = then._times[-1] // self.edge_us * self.edge_us if kept else 0
            then.left_us = self.left_us
        return then, max(at_us, then.latest_us)

    def refuse(self, at_us: int) -> None:
        """Forgets what lies in the future: it is not to be counted when the time comes."""
        then, _ = self.as_of(at_us)
        self._times, self._sums, self.latest_us = then._times, then._sums, then.latest_us

    def admit(self, at_us: int, cost: int, longest_us: int = 3 * DAY_US) -> None:
        """longest_us: how long a hit may count."""
        then, at_us = self.as_of(at_us)
        self.left_us = max(self.left_us, at_us - longest_us)
        self._times, self._sums = [min(each, at_us) for each in then._times], then._sums
        self.latest_us = max(then.latest_us, at_us // self.tick_us * self.tick_us)
        self._times.append(at_us)
        self._sums.append(self._sums[-1] + cost)
        if len(self._times) > 3_000:
            self._forget(bisect_left(self._times, self._times[-1] - 3 * DAY_US))

    def _since(self, start_us: int, forgotten: bool) -> int:
        if forgotten and start_us <= self.left_us:
            start_us = self.left_us + 1
        return self._sums[-1] - self._sums[bisect_left(self._times, start_us)]

    def since(self, at_us: int, window_s: int, forgotten: bool = False) -> int:
        """Hits in the window [at_us - window, at_us]; forgotten: without those that may be forgotten."""
        then, at_us = self.as_of(at_us)
        return then._since(at_us - window_s * SECOND_US, forgotten)

    def inside(self, at_us: int, window_s: int, forgotten: bool = False) -> int:
        """Hits in the true window (at_us - window, at_us]."""
        then, at_us = self.as_of(at_us)
        return then._since(at_us - window_s * SECOND_US + 1, forgotten)

    def counted(self, at_us: int, window_s: int, edge_us: int, strict: bool, forgotten: bool) -> int:
        """What a tiered rule holds against its limit: the hits from the edge before (strict) or after the old end."""
        then, at_us = self.as_of(at_us)
        old_end_us = at_us - window_s * SECOND_US
        return then._since(old_end_us - old_end_us % edge_us + (0 if strict else edge_us), forgotten)

    def _forget(self, many: int) -> None:
        base = self._sums[many]
        del self._times[:many]
        self._sums = [each - base for each in self._sums[many:]]


class TieredModel:
    """What a tiered rule of these rates (limit, window_s) ought to do, by its log."""

    def __init__(self, rates: list[tuple[int, int]], edge_s: int = 1, strict: bool = True) -> None:
        self.rates, self.strict = rates, strict
        self.edges_us = [self._edge_us(window_s, edge_s) for _, window_s in rates]
        self.log = Log(min(SECOND_US, *self.edges_us), min(self.edges_us[0], edge_s * SECOND_US))

    @property
    def latest_us(self) -> int:
        return self.log.latest_us

    def _edge_us(self, window_s: int, edge_s: int) -> int:
        """Of windows under 20 s a twentieth of the shortest, or the next smaller part of a second that is a bucket."""
        if edge_s > 1 or window_s >= 20:
            return edge_s * SECOND_US
        shortest_s = min(each for _, each in self.rates)
        return max(part for part in (50_000, 100_000, 250_000, 500_000) if 20 * part <= shortest_s * SECOND_US)

    def fits(self, at_us: int, cost: int, forgotten: bool = False) -> bool:
        """forgotten: where all is forgotten that may be."""
        return all(
            self.log.counted(at_us, window_s, edge_us, self.strict, forgotten) + cost <= limit
            for (limit, window_s), edge_us in zip(self.rates, self.edges_us, strict=True)
        )

    def refuse(self, at_us: int) -> None:
        self.log.refuse(at_us)

    def charge(self, at_us: int, cost: int) -> None:
        self.log.admit(at_us, cost, self.rates[-1][1] * SECOND_US)


class FixedModel:
    """Windows of the clock: of each rate the number of the latest, and its hits."""

    def __init__(self, rates: list[tuple[int, int]]) -> None:
        self.rates = rates
        self.latest = [(0, 0)] * len(rates)

    @property
    def latest_us(self) -> int:
        return (
            max(number * window_s for (number, _), (_, window_s) in zip(self.latest, self.rates, strict=True))
            * SECOND_US
        )

    def _now(self, at_us: int) -> list[tuple[int, int]]:
        second, now = at_us // SECOND_US, []
        for (number, hits), (_, window_s) in zip(self.latest, self.rates, strict=True):
            is_now = number in (second // window_s, (second + 1) // window_s)
            now.append((number, hits) if is_now else (second // window_s, 0))
        return now

    def fits(self, at_us: int, cost: int) -> bool:
        return all(hits + cost <= limit for (_, hits), (limit, _) in zip(self._now(at_us), self.rates, strict=True))

    def charge(self, at_us: int, cost: int) -> None:
        self.latest = [(number, hits + cost) for number, hits in self._now(at_us)]


class OpenedModel:
    """A window that opens with the first admitted hit."""

    def __init__(self, rates: list[tuple[int, int]]) -> None:
        ((self.limit, window_s),) = rates
        self.window_us = window_s * SECOND_US
        self.latest_us, self.count = -self.window_us, 0

    def _now(self, at_us: int) -> tuple[int, int]:
        if at_us < self.latest_us <= last_us(at_us):
            at_us = self.latest_us
        is_now = self.latest_us <= at_us < self.latest_us + self.window_us
        return (self.latest_us, self.count) if is_now else (at_us, 0)

    def fits(self, at_us: int, cost: int) -> bool:
        return self._now(at_us)[1] + cost <= self.limit

    def charge(self, at_us: int, cost: int) -> None:
        self.latest_us, self.count = self._now(at_us)
        self.count += cost


class TokenModel:
    """A bucket in which a token is as many drops as the window has microseconds: exact, with integers of any size."""

    def __init__(self, rates: list[tuple[int, int]], burst: int) -> None:
        ((self.gain, window_s),) = rates
        self.token = window_s * SECOND_US
        self.full = self.drops = burst * self.token
        self.latest_us = 0

    def _now(self, at_us: int) -> tuple[int, int]:
        if at_us < self.latest_us <= last_us(at_us):
            at_us = self.latest_us
        drops = self.drops + (at_us - self.latest_us) * self.gain
        return at_us, drops if self.latest_us and 0 <= drops < self.full else self.full

    def fits(self, at_us: int, cost: int) -> bool:
        return cost * self.token <= self._now(at_us)[1]

    def charge(self, at_us: int, cost: int) -> None:
        self.latest_us, drops = self._now(at_us)
        self.drops = drops - cost * self.token


class Model(Protocol):
    """latest_us: of what counts; of windows of the clock the start of the latest."""

    @property
    def latest_us(self) -> int: ...

    def fits(self, at_us: int, cost: int) -> bool: ...

    def charge(self, at_us: int, cost: int) -> None: ...


class Apart:
    """Memcached's items of one key: a clock that is behind one counts in the next, and in the last as everywhere."""

    def __init__(self, make: Callable[[], Model]) -> None:
        self.models = [make() for _ in range(3)]

    def of(self, at_us: int) -> Model:
        return next((each for each in self.models if each.latest_us <= last_us(at_us)), self.models[-1])
