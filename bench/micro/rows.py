"""A row of counts: its bytes, and microseconds to write it, to read it and to add a hit."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from time import time

from bench.command import Options
from bench.measure import Line, Measure, ready
from clickcurve.buckets.codec import decode, decode_lazily, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.row import EMPTY, Delta, Row, apply

WEEK_S = 7 * DAY_S
DAY = 10_229  # 1998-01-03: a fold day on which a row can hold the most buckets that the calendar ever gives
NOW = (DAY + 1) * DAY_S + 3_599
MARK = 1_200_000


def row_of(people: Mapping[int, int], bots: Mapping[int, int] | None = None, day: int = DAY, mark: int = MARK) -> Row:
    """Returns a new row with these hits by their time, folded to the day."""
    return apply(EMPTY, Delta(dict(people), dict(bots or {})), mark, day, 0, CLICKS)


def typical_rows(_: Options) -> Iterator[Line]:
    """Rows of one owner whose mark is a million; `full` has a bucket wherever the ladder can have one, no two alike."""
    now, chance = int(time()) // 60 * 60, random.Random(1)
    day = fold_day(now)
    weekly = {now - week * WEEK_S - chance.randrange(10_080) * 60: 1 for week in range(52)}
    one_a_minute = {day * DAY_S + minute * 60: 1 for minute in range(1_440)}
    one_in_three = {now - minute * 60: 1 for minute in range(500 * 1_440) if not chance.randrange(3)}
    full = {now - minute * 60: max(1, round(chance.gauss(1_000, 32))) for minute in range(500 * 1_440)}
    cases: tuple[tuple[str, dict[int, int], str], ...] = (
        ("empty", {}, ""),
        ("one hit a week for a year", weekly, "< 200 B"),
        ("one hit a minute for a day", one_a_minute, ""),
        ("a hit in every third minute for 500 days", one_in_three, ""),
        ("full: about 1,000 hits a minute for 500 days", full, "< 8,192 B"),
    )
    for what, minutes, aim in cases:
        yield Line(f"row: {what}", f"{len(encode(row_of(minutes, day=day, mark=1_000_000))):,} B", "", aim)


def row_codec(_: Options) -> Iterator[Measure]:
    """Each row's bytes and times; `flush`: from bytes to bytes with one hit more."""
    delta = Delta({NOW // 60 * 60: 1}, {})
    for name, row in _rows().items():
        data = encode(row)
        yield Measure(f"{name}: bytes", ready(data), len, "B")
        yield Measure(f"{name}: encode", ready(row), encode, "us")
        yield Measure(f"{name}: decode", ready(data), decode, "us")
        flush = lambda data: encode(apply(decode_lazily(data), delta, MARK + 1, DAY, 0, CLICKS))  # noqa: E731
        yield Measure(f"{name}: flush", ready(data), flush, "us")


def _rows() -> dict[str, Row]:
    chance = random.Random(1)
    today = range(NOW // 60 * 60, NOW - DAY_S, -60)
    week = [NOW - i * WEEK_S - chance.randrange(WEEK_S) for i in range(52)]
    half = {start: count for start, count in _traffic(1).items() if chance.random() < 0.5}
    return {
        "empty": row_of({}),
        "one hit": row_of({NOW // 60 * 60: 1}),
        "one a week for a year": row_of({t // 60 * 60: 1 for t in week}),
        "one a minute for a day": row_of(dict.fromkeys(today, 1)),
        "half full": row_of(half),
        "full, one a minute": row_of(_traffic(1)),
        "full, busy": row_of(_traffic(1_000)),
        "full, busy, and bots": row_of(_traffic(1_000), _traffic(100)),
    }


def _traffic(per_minute: int) -> dict[int, int]:
    """Returns steady traffic of twelve years, as the count of each bucket at its start."""
    chance = random.Random(2)
    counts, until = {}, NOW
    for tier, cut in enumerate([*CLICKS.cuts(DAY)[:-1], CLICKS.bucket(5, NOW - 12 * 366 * DAY_S)[0]]):
        while cut < until:
            end = CLICKS.bucket(tier, cut)[1]
            hits = per_minute * (end - cut) // 60
            counts[cut] = hits if per_minute == 1 else max(1, round(chance.gauss(hits, hits**0.5)))
            cut = end
        until = CLICKS.cuts(DAY)[tier]
    return counts
