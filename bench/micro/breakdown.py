"""Measure a breakdown's bytes, and a flush of it beside one of a row of counts: `python -m bench.micro.breakdown`.

The links are those of `bench.workload` by popularity, each with its own taste in referrers, countries and the rest.
Medians in microseconds; `--quick` leaves out the hottest link, whose half a million hits take a minute to make.
"""

from __future__ import annotations

import random
import statistics
import sys
import timeit
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from bench.workload import Workload
from clickcurve.buckets import codec
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BreakdownDelta, fold_breakdown, merge_breakdowns
from clickcurve.buckets.breakdowns.parts import Parts, apply_parts, decode_parts, encode_parts, parts_due
from clickcurve.buckets.breakdowns.vocabulary import VOCABULARIES
from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, fold_day
from clickcurve.buckets.row import EMPTY, Delta, apply, next_due

NOW = 1_783_000_000
DAY = fold_day(NOW)
WORKLOAD = Workload(100_000, 10_000_000, 400, NOW)
DIMENSIONS = ("ref", "country", "device", "browser", "os", "lang", "utm_campaign")
HITS = {"p50": 5, "p90": 32, "p99": 493, "top 100": 7_800, "hottest": 500_000}  # the first four as the workload's links

COUNTRIES = VOCABULARIES[1].values["country"][1:]
SYLLABLES = [a + b for a in "bcdfghjklmnpqrstvwxyz" for b in "aeiou"]
LANGUAGES = [a + b for a in "abcdefgh" for b in "abcdefgh"]
BROWSERS = ["Chrome", "Safari", "Firefox", "Edge", "Samsung", "Opera", "Instagram", "Facebook", "Android", "WebKit"]
SYSTEMS = ["Android", "iOS", "Windows", "macOS", "Linux", "ChromeOS", "Tizen", "KaiOS", "other"]


def main() -> int:
    quick = "--quick" in sys.argv
    print(
        "row, dimensions     bytes  open closed  cells | encode decode    ref   fold merge3 |  flush  of counts  ratio"
    )
    for name, hits in HITS.items():
        for dimensions in (3, 5, 7):
            if not (quick and name == "hottest"):
                print(row_line(name, hits, DIMENSIONS[:dimensions]), flush=True)
    for dimensions, visitors in ((3, False), (3, True), (5, True), (7, True)):
        print(flush_line(DIMENSIONS[:dimensions], visitors), flush=True)
    return 0


def row_line(name: str, hits: int, dimensions: Sequence[str]) -> str:
    parts, counts = link(hits, dimensions, seed=hits)
    row = decode_parts(parts)
    cells = sum(len(bucket.values) for tiers in row.dimensions.values() for tier in tiers for bucket in tier.values())
    times = [
        median_us(lambda: encode_parts(row, BREAKDOWN)),
        median_us(lambda: decode_parts(parts)),
        median_us(lambda: decode_parts(parts, {"ref"})),
        median_us(lambda: fold_breakdown(row, DAY + 1, BREAKDOWN)),
        median_us(lambda: merge_breakdowns([row, row, row], DAY, BREAKDOWN)),
    ]
    flush, of_counts = flush_us(parts, counts, dimensions, visitors=True)
    size = f"{len(parts.open) + len(parts.closed):7} {len(parts.open):5} {len(parts.closed):6} {cells:6}"
    work = f"{times[0]:6.0f} {times[1]:6.0f} {times[2]:6.0f} {times[3]:6.0f} {times[4]:6.0f}"
    return (
        f"{name:10} {len(dimensions):2}       {size} | {work} | {flush:6.1f} {of_counts:10.1f} {flush / of_counts:6.1f}"
    )


def flush_line(dimensions: Sequence[str], visitors: bool) -> str:
    """The mean over the links that 1,200 draws by popularity meet, but for the 20 hottest."""
    chance = random.Random(2)
    sums = list(accumulate(WORKLOAD.shares()))
    ranks = {bisect(sums, chance.random() * sums[-1]) for _ in range(1_200)}
    rows = [link(WORKLOAD.shares()[rank], dimensions, rank) for rank in sorted(ranks) if rank >= 20]
    times = [flush_us(parts, counts, dimensions, visitors) for parts, counts in rows]
    flush, of_counts = statistics.fmean(t for t, _ in times), statistics.fmean(t for _, t in times)
    sizes = statistics.fmean(len(parts.open) + len(parts.closed) for parts, _ in rows)
    said = f"{len(rows)} links, {len(dimensions)} dimensions, {'with' if visitors else 'without'} visitors"
    return (
        f"{said}: {sizes:.0f} B, a flush {flush:.0f} us beside {of_counts:.0f} of counts, {flush / of_counts:.1f} times"
    )


def flush_us(parts: Parts, counts: bytes, dimensions: Sequence[str], visitors: bool) -> tuple[float, float]:
    """Three hits of the current hour: read, add, write, and when it is due; of a breakdown and of a row of counts."""
    hour, minute, day = NOW // HOUR_S * HOUR_S, NOW // 60 * 60, NOW // DAY_S * DAY_S
    said = {name: {hour: dict(zip(some_values(name, 2), (2, 1), strict=True))} for name in dimensions}
    delta = BreakdownDelta(said, {day: {2**39 + 17, 5}} if visitors else {})
    clicks = Delta({minute: 3}, {})

    def flush() -> None:
        parts_due(apply_parts(parts, delta, 9_999, DAY, 0, BREAKDOWN), BREAKDOWN)

    def flush_of_counts() -> None:
        after = apply(codec.decode(counts), clicks, 9_999, DAY, 0, CLICKS)
        codec.encode(after)
        next_due(after, CLICKS)

    return median_us(flush), median_us(flush_of_counts)


def link(hits: int, dimensions: Sequence[str], seed: int) -> tuple[Parts, bytes]:
    """A link's breakdown and row of counts after so many hits of 400 days."""
    chance = random.Random(seed)
    times = [NOW - 60 - int(400 * DAY_S * chance.random() ** 1.35) for _ in range(hits)]
    minutes: dict[int, int] = {}
    for t in times:
        minutes[t // 60 * 60] = minutes.get(t // 60 * 60, 0) + 1
    said: dict[str, dict[int, dict[str, int]]] = {}
    for name in dimensions:
        hours: dict[int, dict[str, int]] = said.setdefault(name, {})
        for t, value in zip(times, values(name, hits, chance), strict=True):
            of_hour = hours.setdefault(t // HOUR_S * HOUR_S, {})
            of_hour[value] = of_hour.get(value, 0) + 1
    visitors: dict[int, set[int]] = {}
    for t in times:
        if t >= (DAY - 1) * DAY_S:
            visitors.setdefault(t // DAY_S * DAY_S, set()).add(chance.getrandbits(40))
    parts = apply_parts(None, BreakdownDelta(said, visitors), 1_200, DAY, 0, BREAKDOWN)
    return parts, codec.encode(apply(EMPTY, Delta(minutes, {}), 1_200, DAY, 0, CLICKS))


def values(name: str, hits: int, chance: random.Random) -> Iterator[str]:
    """What a link's hits say: some nothing, some what its own visitors say, the others what all links' do."""
    taste = KNOWN[name]
    own = chance.sample(taste.values, taste.own)
    here = chance.choices(own, cum_weights=zipf(len(own), 1.2), k=hits)
    everywhere = chance.choices(taste.values, cum_weights=zipf(len(taste.values), taste.skew), k=hits)
    for special, common in zip(here, everywhere, strict=True):
        turn = chance.random()
        yield "" if turn < taste.none else special if turn < taste.none + taste.own_share else common


def some_values(name: str, n: int) -> Sequence[str]:
    return KNOWN[name].values[:n]


def zipf(n: int, skew: float) -> list[float]:
    return list(accumulate(1 / (rank + 1) ** skew for rank in range(n)))


def host(number: int) -> str:
    chance = random.Random(number)
    word = "".join(chance.choice(SYLLABLES) for _ in range(chance.randint(2, 5)))
    return word + chance.choice((".com", ".com", ".org", ".net", ".de", ".co.uk", ".io"))


class Taste(NamedTuple):
    """A dimension's values by popularity and how skewed that is; the share of hits that do not say one; how many values
    are a link's own, and their share."""

    values: Sequence[str]
    skew: float
    none: float
    own: int
    own_share: float


HOSTS = list(dict.fromkeys(host(i) for i in range(20_000)))
CAMPAIGNS = [f"{SYLLABLES[i % 99]}-{SYLLABLES[i % 98]}-{i}" for i in range(5_000)]
KNOWN = {
    "ref": Taste(HOSTS, 1.1, 0.35, 30, 0.325),
    "country": Taste(COUNTRIES, 1.2, 0.0, 1, 0.5),
    "device": Taste(["phone", "desktop", "tablet", "tv"], 1.5, 0.0, 1, 0.0),
    "browser": Taste(BROWSERS, 1.3, 0.0, 1, 0.0),
    "os": Taste(SYSTEMS, 1.0, 0.0, 1, 0.0),
    "lang": Taste(LANGUAGES, 1.3, 0.0, 1, 0.6),
    "utm_campaign": Taste(CAMPAIGNS, 1.0, 0.7, 5, 0.3),
}


def median_us(call: Callable[[], object]) -> float:
    """The median of 9 rounds, each long enough (0.5 ms) for the clock not to matter."""
    times = 1
    while timeit.timeit(call, number=times) < 0.0005:
        times *= 2
    return statistics.median(timeit.repeat(call, number=times, repeat=9)) / times * 1e6


if __name__ == "__main__":
    sys.exit(main())
