"""Breakdowns: their bytes, a flush beside one of a row of counts, answers, and which values are kept.

The links are those of `bench.workload` by popularity, each with its own taste in referrers, countries and the rest.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from bisect import bisect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from time import perf_counter
from typing import Any

from bench.measure import Line, Measure, call_each, ready
from bench.options import Options
from bench.visitors import HOSTS, TASTES, values
from bench.workload import Workload
from clickcurve.buckets import codec
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
    joined_parts,
    parts_due,
)
from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, fold_day
from clickcurve.buckets.row import EMPTY, Delta, apply, next_due
from clickcurve.keys import Subject, breakdown_key
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.reader import BreakdownReader
from storage.contract import StoredLink, StoredRow

NOW = 1_783_000_000
DAY = fold_day(NOW)
WORKLOAD = Workload(100_000, 10_000_000, 400, NOW)
DIMENSIONS = ("ref", "country", "device", "browser", "os", "lang", "utm_campaign")
HITS = {"p50": 5, "p90": 32, "p99": 493, "top 100": 7_800, "hottest": 500_000}  # the first four as the workload's links
LINK = Subject("k", "k")
TOP = 20
Hits = Iterator[tuple[int, str]]


def breakdown(options: Options) -> Iterator[Measure]:
    """Bytes and microseconds of links' breakdowns; then of flushes, the mean of links that draws by popularity meet."""
    for name, hits in HITS.items():
        for width in (3, 5, 7):
            parts, counts = link(options.of(hits), DIMENSIONS[:width], seed=hits)
            row, flush = decode_parts(parts), _flush_of(parts, DIMENSIONS[:width], True)
            figures: tuple[tuple[str, Any, Callable[[Any], object], str], ...] = (
                ("bytes", parts, lambda parts: len(parts.open) + len(parts.closed), "B"),
                ("bytes of the closed part", parts, lambda parts: len(parts.closed), "B"),
                ("cells", row, _cells, "cells"),
                ("encode", row, lambda row: encode_parts(row, BREAKDOWN), "us"),
                ("decode", parts, decode_parts, "us"),
                ("decode ref", parts, lambda parts: decode_parts(parts, {"ref"}), "us"),
                ("fold", row, lambda row: fold_breakdown(row, DAY + 1, BREAKDOWN), "us"),
                ("merge of three", row, lambda row: merge_breakdowns([row, row, row], DAY, BREAKDOWN), "us"),
                ("flush", flush, lambda flush: flush(), "us"),
                ("flush of counts", counts, _flush_of_counts, "us"),
            )
            for what, made, call, unit in figures:
                yield Measure(f"{name}, {width} dimensions: {what}", ready(made), call, unit)
    for width, visitors in ((3, False), (3, True), (5, True), (7, True)):
        links = _drawn_links(options, DIMENSIONS[:width])
        what = f"{len(links)} links, {width} dimensions, {'with' if visitors else 'without'} visitors"
        size = sum(len(parts.open) + len(parts.closed) for parts, _ in links)
        flushes = [_flush_of(parts, DIMENSIONS[:width], visitors) for parts, _ in links]
        of_counts = [partial(_flush_of_counts, counts) for _, counts in links]
        yield Measure(f"{what}: bytes", ready(size), float, "B a link", len(links))
        yield Measure(f"{what}: flush", ready(flushes), call_each, "us a link", len(links))
        yield Measure(f"{what}: flush of counts", ready(of_counts), call_each, "us a link", len(links))


def _cells(row: Breakdown) -> int:
    return sum(len(bucket.values) for tiers in row.dimensions.values() for tier in tiers for bucket in tier.values())


def _drawn_links(options: Options, dimensions: Sequence[str]) -> list[tuple[Parts, bytes]]:
    """What draws by popularity meet, but for the 20 hottest."""
    chance = random.Random(2)
    sums = list(accumulate(WORKLOAD.shares()))
    ranks = {bisect(sums, chance.random() * sums[-1]) for _ in range(options.of(1_200))}
    return [link(WORKLOAD.shares()[rank], dimensions, rank) for rank in sorted(ranks) if rank >= 20]


def _flush_of(parts: Parts, dimensions: Sequence[str], visitors: bool) -> Callable[[], None]:
    """Three hits of the current hour: read, added, written, and when it is due."""
    hour, day = NOW // HOUR_S * HOUR_S, NOW // DAY_S * DAY_S
    said = {name: {hour: dict(zip(TASTES[name].values[:2], (2, 1), strict=True))} for name in dimensions}
    delta = BreakdownDelta(said, {day: {2**39 + 17, 5}} if visitors else {})

    def flush() -> None:
        parts_due(apply_parts(parts, delta, 9_999, DAY, 0, BREAKDOWN), BREAKDOWN)

    return flush


def _flush_of_counts(counts: bytes) -> None:
    after = apply(codec.decode(counts), Delta({NOW // 60 * 60: 3}, {}), 9_999, DAY, 0, CLICKS)
    codec.encode(after)
    next_due(after, CLICKS)


def link(hits: int, dimensions: Sequence[str], seed: int) -> tuple[Parts, bytes]:
    """A link's breakdown and row of counts after so many hits of 400 days."""
    chance = random.Random(seed)
    times = [NOW - 60 - int(400 * DAY_S * chance.random() ** 1.35) for _ in range(hits)]
    said: dict[str, dict[int, Counter[str]]] = {name: {} for name in dimensions}
    for name in dimensions:
        for t, value in zip(times, values(name, hits, chance), strict=True):
            said[name].setdefault(t // HOUR_S * HOUR_S, Counter())[value] += 1
    visitors: dict[int, set[int]] = {}
    for t in times:
        if t >= (DAY - 1) * DAY_S:
            visitors.setdefault(t // DAY_S * DAY_S, set()).add(chance.getrandbits(40))
    parts = apply_parts(None, BreakdownDelta(said, visitors), 1_200, DAY, 0, BREAKDOWN)
    minutes = Counter(t // 60 * 60 for t in times)
    return parts, codec.encode(apply(EMPTY, Delta(minutes, {}), 1_200, DAY, 0, CLICKS))


def answers(options: Options) -> Iterator[Line]:
    """Milliseconds of 200 answers about a link with five dimensions, its rows in a dict."""
    for name, hits in HITS.items():
        parts, counts = link(options.of(hits), DIMENSIONS[:5], seed=hits)
        stored = {"k": counts, breakdown_key("k"): joined_parts(parts)}
        for owners in (1, 3):

            async def rows(key: str, owners: int = owners, stored: dict[str, bytes] = stored) -> StoredLink:
                return StoredLink(0, tuple(StoredRow(owner, stored[key]) for owner in range(owners)))

            reader = BreakdownReader(rows, lambda key: [], lambda key: [], lambda: CLICKS, BREAKDOWN)
            queries = BreakdownQueries(reader, DIMENSIONS, lambda dimension: 0, lambda: NOW)
            asked: dict[str, Callable[[], Awaitable[object]]] = {
                "by, life": partial(queries.by, LINK, "ref", b""),
                "by, 30 days": partial(queries.by, LINK, "ref", b"last=30d"),
                "by, 24 h": partial(queries.by, LINK, "ref", b"last=24h"),
                "curve, 30 d": partial(queries.curve, LINK, "ref", b"value=&last=30d&step=1d"),
                "visitors": partial(queries.visitors, LINK, b""),
            }
            for what, answer in asked.items():
                times = asyncio.run(_timed_ms(answer, max(2, options.of(200))))
                p99 = statistics.quantiles(times, n=100, method="inclusive")[98]
                figure = f"p50 {statistics.median(times):.2f} p99 {p99:.2f} ms"
                yield Line(f"{name}, {owners} owners: {what}", figure)


async def _timed_ms(answer: Callable[[], Awaitable[object]], runs: int) -> list[float]:
    """Asks so often, one after the other."""
    moments = [perf_counter()]
    for _ in range(runs):
        await answer()
        moments.append(perf_counter())
    return [(end - start) * 1_000 for start, end in pairwise(moments)]


def heavy_hitters(options: Options) -> Iterator[Line]:
    """Which referrers of a hot link's 400 days are kept, flushed hour by hour, beside an exact count.

    steady; drift: other hosts are popular each week; attack: every second hit names a host of its own. Raises
    AssertionError where a bound that the answer gives does not hold.
    """
    for name, change in (("steady", _steady), ("drift", _drift), ("attack", _attack)):
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
    return fold_breakdown(decode_parts(parts), DAY, BREAKDOWN), len(parts.open) + len(parts.closed), counted


def _referrers(hits: int) -> Hits:
    chance = random.Random(5)
    times = sorted(NOW - 60 - int(400 * DAY_S * chance.random() ** 1.35) for _ in range(hits))
    return zip(times, values("ref", hits, random.Random(6)), strict=True)


def _steady(hits: Hits) -> Hits:
    return hits


def _drift(hits: Hits) -> Hits:
    place = {host: at for at, host in enumerate(HOSTS)}
    for t, value in hits:
        yield t, HOSTS[(place[value] * 1_009 + t // (7 * DAY_S) * 7_919) % len(HOSTS)] if value else value


def _attack(hits: Hits) -> Hits:
    for at, (t, value) in enumerate(hits):
        yield t, f"h{at:x}.example" if at % 2 else value
