"""Breakdowns of links by what their visitors say: bytes, times, and which values are kept."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bench.command import Options
from bench.measure import Line, Measure, ready
from bench.visitors import HOSTS, TASTES, values
from clickcurve.buckets.breakdowns.answers import breakdown_total
from clickcurve.buckets.breakdowns.breakdown import (
    BREAKDOWN,
    Breakdown,
    BreakdownDelta,
    fold_breakdown,
    greatest_values,
    merge_breakdowns,
)
from clickcurve.buckets.breakdowns.parts import (
    Parts,
    apply_parts,
    decode_parts,
    encode_parts,
)
from clickcurve.buckets.ladder import DAY_S, HOUR_S, fold_day

NOW = 1_783_000_000
DAY = fold_day(NOW)
HITS = {
    "p50": 5,
    "p90": 32,
    "p99": 493,
    "top 100": 7_800,
    "hottest": 500_000,
}  # the first four as links of `bench.workload`
TOP = 20
Hits = Iterator[tuple[int, str]]


def breakdown(options: Options) -> Iterator[Measure]:
    """Bytes and microseconds of the breakdowns of links, from a quiet one to the most popular."""
    for name, hits in HITS.items():
        parts = link(options.of(hits), tuple(TASTES), seed=hits)
        row = decode_parts(parts)
        figures: tuple[tuple[str, Any, Callable[[Any], object], str], ...] = (
            ("bytes", parts, _bytes_of, "B"),
            ("encode", row, lambda row: encode_parts(row, BREAKDOWN), "us"),
            ("decode", parts, decode_parts, "us"),
            ("fold", row, lambda row: fold_breakdown(row, DAY + 1, BREAKDOWN), "us"),
            ("merge of three", row, lambda row: merge_breakdowns([row, row, row], DAY, BREAKDOWN), "us"),
        )
        for what, made, call, unit in figures:
            yield Measure(f"{name}, {len(TASTES)} dimensions: {what}", ready(made), call, unit)


def _bytes_of(parts: Parts) -> int:
    return len(parts.open) + len(parts.closed)


def link(hits: int, dimensions: Sequence[str], seed: int, now: int = NOW, mark: int = 1_200) -> Parts:
    """Returns a link's breakdown after so many hits of 400 days."""
    chance, day = random.Random(seed), fold_day(now)
    times = [now - 60 - int(400 * DAY_S * chance.random() ** 1.35) for _ in range(hits)]
    said: dict[str, dict[int, Counter[str]]] = {name: {} for name in dimensions}
    for name in dimensions:
        for t, value in zip(times, values(name, hits, chance), strict=True):
            said[name].setdefault(t // HOUR_S * HOUR_S, Counter())[value] += 1
    visitors: dict[int, set[int]] = {}
    for t in times:
        if t >= (day - 1) * DAY_S:
            visitors.setdefault(t // DAY_S * DAY_S, set()).add(chance.getrandbits(40))
    return apply_parts(None, BreakdownDelta(said, visitors), mark, day, 0, BREAKDOWN)


def heavy_hitters(options: Options) -> Iterator[Line]:
    """Which referrers of a hot link's 400 days are kept, flushed hour by hour, beside an exact count.

    steady; drift: other hosts are popular each week; attack: every second hit names a host of its own. Raises
    AssertionError where a bound that the answer gives does not hold.
    """
    for name, change in (("steady", iter), ("drift", _drift), ("attack", _attack)):
        row, size, counted = _recorded(change(_referrers(options.of(500_000))))
        for what, start in (("life", 0), ("30 days", (DAY - 30) * DAY_S), ("today", DAY * DAY_S)):
            yield _kept_line(f"{name}, {what}", row, size, counted, start)


def _kept_line(what: str, row: Breakdown, size: int, counted: Counter[tuple[int, str]], start: int) -> Line:
    found = breakdown_total(row, "ref", start, NOW + 1, BREAKDOWN)
    truth: Counter[str] = Counter()
    for (hour, value), count in counted.items():
        if found.start <= hour < found.end:
            truth[value] += count
    if found.recorded != truth.total():
        raise AssertionError("parts are not the total")
    for value in truth.keys() | found.values.keys():
        bounds = found.bounds(value)
        if not bounds.at_least <= truth[value] <= bounds.at_most:
            raise AssertionError(f"{value}: {truth[value]} is not within {bounds}")
    best = sorted((value for value in truth if value), key=lambda value: (-truth[value], value))[:TOP]
    shown = [value for value in greatest_values(found.values, TOP + 1) if value][:TOP]
    worst = max((1 - found.values.get(value, 0) / truth[value] for value in best), default=0.0)
    total = max(1, truth.total())
    shares = f"{truth.total():,} hits, other {found.other / total:.1%}, slack {found.slack / total:.2%}"
    figure = f"{len(set(best) & set(shown))} of the top {TOP} found"
    return Line(what, figure, f"{len(truth):,} distinct; {shares}; one lacks {worst:.1%} at most; row of {size:,} B")


def _recorded(hits: Hits) -> tuple[Breakdown, int, Counter[tuple[int, str]]]:
    """The row after one flush for each hour, its bytes, and an exact count of the same hits by hour and value."""
    parts: Parts | None = None
    counted = Counter((t // HOUR_S * HOUR_S, value) for t, value in hits)
    of_hour: dict[int, dict[str, int]] = {}
    for (hour, value), count in counted.items():
        of_hour.setdefault(hour, {})[value] = count
    for mark, (hour, some) in enumerate(sorted(of_hour.items()), 1):
        parts = apply_parts(parts, BreakdownDelta({"ref": {hour: some}}), mark, fold_day(hour), 0, BREAKDOWN)
    if parts is None:
        raise AssertionError("no hit was recorded")
    return fold_breakdown(decode_parts(parts), DAY, BREAKDOWN), _bytes_of(parts), counted


def _referrers(hits: int) -> Hits:
    chance = random.Random(5)
    times = sorted(NOW - 60 - int(400 * DAY_S * chance.random() ** 1.35) for _ in range(hits))
    return zip(times, values("ref", hits, random.Random(6)), strict=True)


def _drift(hits: Hits) -> Hits:
    place = {host: at for at, host in enumerate(HOSTS)}
    for t, value in hits:
        yield t, HOSTS[(place[value] * 1_009 + t // (7 * DAY_S) * 7_919) % len(HOSTS)] if value else value


def _attack(hits: Hits) -> Hits:
    for at, (t, value) in enumerate(hits):
        yield t, f"h{at:x}.example" if at % 2 else value
