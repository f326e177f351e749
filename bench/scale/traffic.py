"""The traffic that is reckoned with: links by Zipf's law, so many hits a second, and what flushes make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from math import exp, expm1, log, log10
from random import Random
from typing import TypeVar

from bench.rows import row_of
from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day

T = TypeVar("T")
EXACT_RANKS = 1_000  # the rest in groups of ranks whose rates are within a twentieth
DAYS = 400


@dataclass(frozen=True)
class Traffic:
    """`links` links with `hits_per_s` in all, the one of rank r with a part of 1 / r ** skew."""

    links: int
    hits_per_s: float
    skew: float = 1.0

    @cached_property
    def _groups(self) -> list[tuple[int, float]]:
        """(number of links, weight of each)."""
        groups = [(1, rank**-self.skew) for rank in range(1, min(EXACT_RANKS, self.links) + 1)]
        first = EXACT_RANKS + 1
        while first <= self.links:
            after = min(int(first * 1.05) + 1, self.links + 1)
            groups.append((after - first, _mean(first, after, self.skew)))
            first = after
        return groups

    @cached_property
    def _whole(self) -> float:
        return sum(number * weight for number, weight in self._groups)

    def rates(self) -> Iterator[tuple[int, float]]:
        """(number of links, hits a second of each), the most popular first."""
        for number, weight in self._groups:
            yield number, weight * self.hits_per_s / self._whole

    def rate(self, rank: int) -> float:
        """Hits a second of the link of this rank, 1 the first."""
        return float(rank**-self.skew * self.hits_per_s / self._whole)

    def rows_per_s(self, flush_s: float) -> float:
        """Rows that flushes write: links with a hit at least within the interval."""
        return sum(number * -expm1(-rate * flush_s) for number, rate in self.rates()) / flush_s

    def row_bytes(self, now: int) -> float:
        """Mean bytes of a row, by rows that are made and encoded for rates along the whole range."""
        return sum(number * _between(_lengths(now), log(rate)) for number, rate in self.rates()) / self.links


class Share:
    """Every `part`-th link of the traffic, so that it has no more of the most popular link than its due.

    rates: hits a second of its links; hits_per_s: of all of them.
    """

    def __init__(self, traffic: Traffic, part: int) -> None:
        self.part = part
        self.rates = [traffic.rate(max(1, rank)) for rank in range(part // 2, traffic.links + 1, part)]
        self.hits_per_s = sum(self.rates)

    def by_kind(self, steps: int, make: Callable[[float], T]) -> list[T]:
        """Returns what is made for each link's rate, once for all of about the same: so many kinds a power of ten."""
        kinds = [round(log10(rate) * steps) for rate in self.rates]
        made = {kind: make(10 ** (kind / steps)) for kind in dict.fromkeys(kinds)}
        return [made[kind] for kind in kinds]


@lru_cache(1)
def _lengths(now: int) -> list[tuple[float, int]]:
    """Returns logarithms of rates, and the bytes of a row of each."""
    chance = Random(1)
    steps = [10 ** (power / 3) for power in range(-24, 17)]
    return [(log(rate), len(row(rate, now, chance))) for rate in steps]


def row(rate: float, now: int, chance: Random, mark: int = 1) -> bytes:
    """The row of a link with so many hits a second for 400 days, whole numbers of hits by chance."""
    day = fold_day(now)
    hits: dict[int, int] = {}
    at = now - DAYS * DAY_S
    while at < now:
        start, end = CLICKS.kept(at, day)
        if count := _poisson(rate * (min(end, now) - at), chance):
            hits[start] = count
        at = end
    return encode(row_of(hits, day=day, mark=mark))


def _poisson(mean: float, chance: Random) -> int:
    if mean > 50:
        return max(0, round(chance.gauss(mean, mean**0.5)))
    limit, product, count = exp(-mean), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return count


def _mean(first: int, after: int, skew: float) -> float:
    """The mean weight of ranks from `first` to before `after`, by the integral around them."""
    low, high = first - 0.5, after - 0.5
    whole = log(high / low) if skew == 1 else (high ** (1 - skew) - low ** (1 - skew)) / (1 - skew)
    return whole / (after - first)


def _between(points: list[tuple[float, int]], x: float) -> float:
    """Returns what lies at x on the line through these points, level before the first and behind the last."""
    for (left, low), (right, high) in pairwise(points):
        if x <= right:
            return low + (high - low) * max(0.0, x - left) / (right - left)
    return points[-1][1]
