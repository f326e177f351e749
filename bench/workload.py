"""What is sent: 100,000 links, popular by Zipf's law, and 10 million hits of theirs over 400 days, from one seed."""

from __future__ import annotations

import random
from array import array
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, islice, pairwise, product

from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day


@dataclass(frozen=True, slots=True)
class Workload:
    """`links` links share `hits` hits of the `days` days before `end` (epoch seconds)."""

    links: int
    hits: int
    days: int
    end: int
    skew: float = 1.2
    seed: int = 20_260_101

    def key(self, rank: int) -> str:
        """The key of the link of this popularity rank, scattered: neighbours in the store are not alike."""
        return f"k{rank * 7_919 % self.links:05d}"

    def shares(self) -> list[int]:
        """Hits of each link by rank; `hits` in all."""
        weights = zipf(self.links, self.skew)
        sums = [round(weight * self.hits / weights[-1]) for weight in weights]
        return [upto - before for before, upto in pairwise([0, *sums])]

    def draw(self, count: int, seed: int = 0) -> list[str]:
        """Keys by popularity, `count` draws."""
        chance = random.Random(self.seed + seed)
        sums = zipf(self.links, self.skew)
        return [self.key(bisect(sums, chance.random() * sums[-1])) for _ in range(count)]

    def distinct(self, count: int, seed: int = 0) -> list[str]:
        """`count` different keys, the first that a draw by popularity meets."""
        found: dict[str, None] = {}
        while len(found) < count:
            found.update(dict.fromkeys(self.draw(count, seed)))
            seed += 1
        return list(found)[:count]

    def bodies(self, hits_each: int) -> Iterator[bytes]:
        """All hits as NDJSON bodies: every link's first half, link by link in scattered order, then every second half.

        So each row is written at half its size and replaced later, as rows are in life. A hit says the start of the
        bucket that keeps it: the rows are the same as with its minute, and a flush has fewer counts to add.
        """
        chance = random.Random(self.seed)
        ranks = list(range(self.links))
        chance.shuffle(ranks)
        shares, starts = self.shares(), self._starts()

        def lines() -> Iterator[str]:
            for half, rank in product((0, 1), ranks):
                key, count = self.key(rank), shares[rank] // 2 + half * (shares[rank] % 2)
                yield from (
                    f'{{"key":"{key}","ts":{starts[tick]}}}\n' for tick in array("H", chance.randbytes(2 * count))
                )

        left = lines()
        while body := "".join(islice(left, hits_each)):
            yield body.encode()

    def _starts(self) -> list[int]:
        """When hits happen, 65,536 equally likely moments; half are of the last two fifths of the days."""
        day, minutes = fold_day(self.end), self.days * DAY_S // 60
        ages = (int(minutes * ((turn + 0.5) / 65_536) ** 1.35) + 1 for turn in range(65_536))
        return [CLICKS.kept(self.end - age * 60, day)[0] for age in ages]


def age_s(chance: random.Random) -> int:
    """Draws how long ago a hit of 400 days was: half are of the last two fifths of them."""
    return int(400 * DAY_S * chance.random() ** 1.35)


@cache
def zipf(n: int, skew: float) -> list[float]:
    """Returns the sums of the weights of n things by popularity."""
    return list(accumulate(1 / (rank + 1) ** skew for rank in range(n)))


def batch(keys: Sequence[str], at: int) -> list[str]:
    """One hit a key as JSON texts, spread over the last minutes before `at`."""
    return [f'{{"key":"{key}","ts":{at - index % 240}}}' for index, key in enumerate(keys)]
