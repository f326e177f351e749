"""Measure which values a breakdown keeps when there are too many: `python -m bench.micro.heavy_hitters`.

A hot link's referrers of 400 days, flushed hour by hour, beside an exact count: steady ones; ones that change weekly
(drift); and with a random referrer, never seen again, in every second hit (attack). Every answer is held against the
truth: a bound that does not hold ends the run. `--quick` takes a tenth of the hits.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator

from bench.micro.breakdown import DAY, HOSTS, NOW, values
from clickcurve.buckets.breakdowns.answers import divided
from clickcurve.buckets.breakdowns.breakdown import (
    BREAKDOWN,
    Breakdown,
    BreakdownDelta,
    fold_breakdown,
    greatest_values,
)
from clickcurve.buckets.breakdowns.parts import Parts, apply_parts, decode_parts
from clickcurve.buckets.ladder import DAY_S, HOUR_S, fold_day

HITS = 500_000
DAYS = 400
WEEK_S = 7 * DAY_S
TOP = 20
Hits = Iterator[tuple[int, str]]


def main() -> int:
    hits = HITS // 10 if "--quick" in sys.argv else HITS
    print("referrers  range      hits distinct |  other  slack | top 20 found, worst shortfall | bytes of the row")
    for name, stream in (("steady", steady), ("drift", drift), ("attack", attack)):
        row, size, counted = recorded(stream(hits))
        for what, start in (("life", 0), ("30 days", (DAY - 30) * DAY_S), ("today", DAY * DAY_S)):
            print(f"{name:10} {what:7} {answer_line(row, counted, start)} | {size:7,}", flush=True)
    return 0


def answer_line(row: Breakdown, counted: Counter[tuple[int, str]], start: int) -> str:
    """One answer beside the truth; raises AssertionError where a bound does not hold."""
    found = divided(row, "ref", start, NOW + 1, BREAKDOWN)
    truth: Counter[str] = Counter()
    for (hour, value), count in counted.items():
        if found.start <= hour < found.end:
            truth[value] += count
    assert found.recorded == truth.total(), "parts are the total"
    for value in truth.keys() | found.values.keys():
        bounds = found.bounds(value)
        assert bounds.at_least <= truth[value] <= bounds.at_most, value
    best = sorted((value for value in truth if value), key=lambda value: (-truth[value], value))[:TOP]
    shown = [value for value in greatest_values(found.values, TOP + 1) if value][:TOP]
    worst = max(1 - found.values.get(value, 0) / truth[value] for value in best)
    shares = f"{found.other / truth.total():6.1%} {found.slack / truth.total():6.2%}"
    return f"{truth.total():7,} {len(truth):8,} | {shares} | {len(set(best) & set(shown)):12} {worst:16.1%}"


def recorded(hits: Hits) -> tuple[Breakdown, int, Counter[tuple[int, str]]]:
    """The row after one flush for each hour, its bytes, and an exact count of the same hits by hour and value."""
    parts: Parts | None = None
    counted: Counter[tuple[int, str]] = Counter()
    of_hour: dict[int, Counter[str]] = {}
    for t, value in hits:
        hour = t // HOUR_S * HOUR_S
        of_hour.setdefault(hour, Counter())[value] += 1
        counted[hour, value] += 1
    for mark, (hour, some) in enumerate(sorted(of_hour.items()), 1):
        parts = apply_parts(parts, BreakdownDelta({"ref": {hour: some}}), mark, fold_day(hour), 0, BREAKDOWN)
    assert parts is not None
    return fold_breakdown(decode_parts(parts), DAY, BREAKDOWN), len(parts.open) + len(parts.closed), counted


def times(hits: int) -> list[int]:
    chance = random.Random(5)
    return sorted(NOW - 60 - int(DAYS * DAY_S * chance.random() ** 1.35) for _ in range(hits))


def steady(hits: int) -> Hits:
    return zip(times(hits), values("ref", hits, random.Random(6)), strict=True)


def drift(hits: int) -> Hits:
    """The same, but each week other hosts are the popular ones."""
    place = {host: at for at, host in enumerate(HOSTS)}
    for t, value in steady(hits):
        yield t, HOSTS[(place[value] * 1_009 + t // WEEK_S * 7_919) % len(HOSTS)] if value else value


def attack(hits: int) -> Hits:
    """The same, but every second hit names a host that no other names."""
    for at, (t, value) in enumerate(steady(hits)):
        yield t, f"h{at:x}.example" if at % 2 else value


if __name__ == "__main__":
    sys.exit(main())
