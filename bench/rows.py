"""A row of counts: its bytes, and microseconds to write it, to read it and to add a hit."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from bench.command import Options
from bench.measure import Line, Measure, ready
from clickcurve.buckets.codec import decode, decode_lazily, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.row import EMPTY, Delta, Row, apply

DAY = 10_229  # 1998-01-03: a fold day on which a row can hold the most buckets that the calendar ever gives
NOW = (DAY + 1) * DAY_S + 3_599
LAST_MINUTE = NOW // 60 * 60
MARK = 1_200_000
# `full` has a bucket wherever the ladder can have one.
AIMS = {"one hit a week for a year": "< 200 B", "full: about 1,000 hits a minute for 500 days": "< 8,192 B"}


def row_of(people: Mapping[int, int], bots: Mapping[int, int] | None = None, day: int = DAY, mark: int = MARK) -> Row:
    """Returns a new row with these hits by their time, folded to the day."""
    return apply(EMPTY, Delta(dict(people), dict(bots or {})), mark, day, 0, CLICKS)


def steady(per_minute: int, days: int, now: int = NOW) -> dict[int, int]:
    """Returns steady traffic until now as the count of each bucket at its start; no two alike but with 1 a minute."""
    chance, day, at = random.Random(2), fold_day(now), now - days * DAY_S
    counts: dict[int, int] = {}
    while at < now:
        start, at = CLICKS.kept(at, day)
        hits = per_minute * (at - start) // 60
        counts[start] = hits if per_minute == 1 else max(1, round(chance.gauss(hits, hits**0.5)))
    return counts


def typical_rows(_: Options) -> Iterator[Line]:
    """Each row's bytes."""
    yield from (
        Line(f"row: {name}", f"{len(encode(row)):,} B", "", AIMS.get(name, "")) for name, row in _rows().items()
    )


def row_codec(options: Options) -> Iterator[Line | Measure]:
    """Each row's bytes and times; `flush`: from bytes to bytes with one hit more."""
    yield from typical_rows(options)
    delta = Delta({LAST_MINUTE: 1}, {})
    for name, row in _rows().items():
        data = encode(row)
        yield Measure(f"{name}: encode", ready(row), encode, "us")
        yield Measure(f"{name}: decode", ready(data), decode, "us")
        flush = lambda data: encode(apply(decode_lazily(data), delta, MARK + 1, DAY, 0, CLICKS))  # noqa: E731
        yield Measure(f"{name}: flush", ready(data), flush, "us")


def _rows() -> dict[str, Row]:
    chance, years = random.Random(1), 12 * 366
    weekly = {(NOW - week * 7 * DAY_S - chance.randrange(7 * DAY_S)) // 60 * 60: 1 for week in range(52)}
    one_in_three = {LAST_MINUTE - 60 * minute: 1 for minute in range(500 * 1_440) if not chance.randrange(3)}
    return {
        "empty": row_of({}),
        "one hit": row_of({LAST_MINUTE: 1}),
        "one hit a week for a year": row_of(weekly),
        "one hit a minute for a day": row_of({LAST_MINUTE - 60 * minute: 1 for minute in range(1_440)}),
        "a hit in every third minute for 500 days": row_of(one_in_three),
        "half full": row_of({start: count for start, count in steady(1, years).items() if chance.random() < 0.5}),
        "full: about 1,000 hits a minute for 500 days": row_of(steady(1_000, 500)),
        "full, busy": row_of(steady(1_000, years)),
        "full, busy, and bots": row_of(steady(1_000, years), steady(100, years)),
    }
