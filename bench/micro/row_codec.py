"""Measure bytes a row, and microseconds to write and read it (medians): `python -m bench.micro.row_codec`."""

from __future__ import annotations

import random
import statistics
import sys
import timeit
from collections.abc import Callable

from clickcurve.buckets.codec import decode, decode_header, decode_lazily, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S
from clickcurve.buckets.ranges import Bots, between
from clickcurve.buckets.row import EMPTY, Delta, Row, apply

DAY = 10_229  # 1998-01-03: a fold day on which a row can hold the most buckets that the calendar ever gives
NOW = (DAY + 1) * DAY_S + 3_599
MARK = 1_200_000


def main() -> int:
    every = rows()
    print(
        "row                          buckets   bytes  plain |  encode  decode  header   60 m   24 h   30 d"
        " | apply   flush us"
    )
    for name, row in every.items():
        print(line(name, row))
    print("\ncounts of the full busy row   points      us")
    for name, step_s, points in (("60 m", 60, 60), ("24 h", 300, 288), ("30 d", 3_600, 720), ("12 mo", 30 * DAY_S, 12)):
        print(counts_line(name, step_s, points, every["full, busy"]))
    return 0


def rows() -> dict[str, Row]:
    chance = random.Random(1)
    today = range(NOW // 60 * 60, NOW - DAY_S, -60)
    week = [NOW - i * 7 * DAY_S - chance.randrange(7 * DAY_S) for i in range(52)]
    half = {start: count for start, count in traffic(1).items() if chance.random() < 0.5}
    return {
        "empty": flushed({}),
        "one hit": flushed({NOW // 60 * 60: 1}),
        "six hits in a month": flushed({(NOW - chance.randrange(30 * DAY_S)) // 60 * 60: 1 for _ in range(6)}),
        "one a week for a year": flushed({t // 60 * 60: 1 for t in week}),
        "one a minute for a day": flushed(dict.fromkeys(today, 1)),
        "half full": flushed(half),
        "full, one a minute": flushed(traffic(1)),
        "full, busy": flushed(traffic(1_000)),
        "full, busy, and bots": flushed(traffic(1_000), traffic(100)),
    }


def traffic(per_minute: int) -> dict[int, int]:
    """Steady traffic for twelve years, as the count of each bucket at its start."""
    chance = random.Random(2)
    counts = {}
    until = NOW
    for tier, cut in enumerate([*CLICKS.cuts(DAY)[:-1], CLICKS.bucket(5, NOW - 12 * 366 * DAY_S)[0]]):
        while cut < until:
            end = CLICKS.bucket(tier, cut)[1]
            hits = per_minute * (end - cut) // 60
            counts[cut] = hits if per_minute == 1 else max(1, round(chance.gauss(hits, hits**0.5)))
            cut = end
        until = CLICKS.cuts(DAY)[tier]
    return counts


def flushed(people: dict[int, int], bots: dict[int, int] | None = None) -> Row:
    return apply(EMPTY, Delta(people, bots or {}), MARK, DAY, 0, CLICKS)


def line(name: str, row: Row) -> str:
    data = encode(row)
    buckets = sum(len(starts) for starts, _ in (*row.people_cells, *row.bot_cells))
    since = [CLICKS.kept(NOW - span_s, DAY)[0] for span_s in (3_600, DAY_S, 30 * DAY_S)]
    flush = Delta({NOW // 60 * 60: 1}, {})
    times = [
        median_us(lambda: encode(row)),
        median_us(lambda: decode(data)),
        median_us(lambda: decode_header(data)),
        *(median_us(lambda t=t: decode(data, t, False)) for t in since),  # type: ignore[misc]
    ]
    read = f"{times[0]:7.1f} {times[1]:7.1f} {times[2]:7.1f} {times[3]:6.1f} {times[4]:6.1f} {times[5]:6.1f}"
    applied = median_us(lambda: apply(row, flush, MARK + 1, DAY, 0, CLICKS))
    whole = median_us(lambda: encode(apply(decode_lazily(data), flush, MARK + 1, DAY, 0, CLICKS)))
    size = f"{len(data):7} {len(encode(row, deflate=False)):6}"
    return f"{name:28} {buckets:7} {size} | {read} | {applied:5.1f} {whole:7.1f}"


def counts_line(name: str, step_s: int, points: int, row: Row) -> str:
    end = NOW // step_s * step_s + step_s
    start = end - points * step_s
    edges = [*range(start, end, step_s), end]
    return f"{name:28} {points:6} {median_us(lambda: between(row, edges, Bots.exclude)):7.1f}"


def median_us(call: Callable[[], object]) -> float:
    """The median of 15 rounds, each long enough (0.5 ms) for the clock not to matter."""
    times = 1
    while (once := timeit.timeit(call, number=times)) < 0.0005:
        times *= 2
    return statistics.median(timeit.repeat(call, number=times, repeat=15)) / times * 1e6 if once else 0.0


if __name__ == "__main__":
    sys.exit(main())
