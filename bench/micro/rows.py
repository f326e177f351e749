"""A row of counts: its bytes, and microseconds to write it, to read it and to count points of a curve."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

from bench.measure import Measure, ready
from bench.options import Options
from clickcurve.buckets.codec import decode, decode_header, decode_lazily, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S
from clickcurve.buckets.ranges import Bots, between
from clickcurve.buckets.row import EMPTY, Delta, Row, apply

DAY = 10_229  # 1998-01-03: a fold day on which a row can hold the most buckets that the calendar ever gives
NOW = (DAY + 1) * DAY_S + 3_599
MARK = 1_200_000
POINTS = (("60 m", 60, 60), ("24 h", 300, 288), ("30 d", 3_600, 720), ("12 mo", 30 * DAY_S, 12))


def row_codec(_: Options) -> Iterator[Measure]:
    """Each row's sizes and times; `flush`: from bytes to bytes with one hit more."""
    delta = Delta({NOW // 60 * 60: 1}, {})
    every = rows()
    for name, row in every.items():
        data = encode(row)

        def figure(what: str, call: object, unit: str, made: object = row, row: str = name) -> Measure:
            return Measure(f"{row}: {what}", ready(made), call, unit)  # type: ignore[arg-type]

        yield figure("bytes", lambda made: len(encode(made)), "B")
        yield figure("bytes, not deflated", lambda made: len(encode(made, deflate=False)), "B")
        yield figure("buckets", _buckets, "buckets")
        yield figure("encode", encode, "us")
        yield figure("decode", decode, "us", data)
        yield figure("decode the header", decode_header, "us", data)
        for what, span_s in (("60 m", 3_600), ("24 h", DAY_S), ("30 d", 30 * DAY_S)):
            since = CLICKS.kept(NOW - span_s, DAY)[0]
            yield figure(f"decode {what}", lambda made, since=since: decode(made, since, False), "us", data)
        yield figure("apply", lambda made: apply(made, delta, MARK + 1, DAY, 0, CLICKS), "us")
        yield figure(
            "flush", lambda made: encode(apply(decode_lazily(made), delta, MARK + 1, DAY, 0, CLICKS)), "us", data
        )
    for what, step_s, points in POINTS:
        end = NOW // step_s * step_s + step_s
        edges = [*range(end - points * step_s, end, step_s), end]
        count = partial(between, edges=edges, bots=Bots.exclude)
        yield Measure(f"full, busy: {points} points of {what}", ready(every["full, busy"]), count, "us")


def _buckets(row: Row) -> int:
    return sum(len(starts) for starts, _ in (*row.people_cells, *row.bot_cells))


def rows() -> dict[str, Row]:
    chance = random.Random(1)
    today = range(NOW // 60 * 60, NOW - DAY_S, -60)
    week = [NOW - i * 7 * DAY_S - chance.randrange(7 * DAY_S) for i in range(52)]
    half = {start: count for start, count in traffic(1).items() if chance.random() < 0.5}
    return {
        "empty": _flushed({}),
        "one hit": _flushed({NOW // 60 * 60: 1}),
        "six hits in a month": _flushed({(NOW - chance.randrange(30 * DAY_S)) // 60 * 60: 1 for _ in range(6)}),
        "one a week for a year": _flushed({t // 60 * 60: 1 for t in week}),
        "one a minute for a day": _flushed(dict.fromkeys(today, 1)),
        "half full": _flushed(half),
        "full, one a minute": _flushed(traffic(1)),
        "full, busy": _flushed(traffic(1_000)),
        "full, busy, and bots": _flushed(traffic(1_000), traffic(100)),
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


def _flushed(people: dict[int, int], bots: dict[int, int] | None = None) -> Row:
    return apply(EMPTY, Delta(people, bots or {}), MARK, DAY, 0, CLICKS)
