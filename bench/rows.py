"""Bytes of typical rows, as stored."""

from __future__ import annotations

import random
from time import time

from bench.measure import Line
from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.row import EMPTY, Delta, Row, apply

WEEK_S = 7 * DAY_S


def _row(minutes: dict[int, int], now: int) -> Row:
    return apply(EMPTY, Delta(people=minutes, bots={}), 1_000_000, fold_day(now), 0, CLICKS)


def bytes_per_row() -> list[Line]:
    """Rows of one owner whose mark is a million; `full` has a bucket wherever the ladder can have one, no two alike."""
    now = int(time()) // 60 * 60
    today = fold_day(now) * DAY_S
    chance = random.Random(1)
    weekly = {now - week * WEEK_S - chance.randrange(10_080) * 60: 1 for week in range(52)}
    one_a_minute = {today + minute * 60: 1 for minute in range(1_440)}
    one_in_three = {now - minute * 60: 1 for minute in range(500 * 1_440) if not chance.randrange(3)}
    full = {now - minute * 60: max(1, round(chance.gauss(1_000, 32))) for minute in range(500 * 1_440)}
    cases: tuple[tuple[str, dict[int, int], str], ...] = (
        ("empty", {}, ""),
        ("one hit a week for a year", weekly, "< 200 B"),
        ("one hit a minute for a day", one_a_minute, ""),
        ("a hit in every third minute for 500 days", one_in_three, ""),
        ("full: about 1,000 hits a minute for 500 days", full, "< 8,192 B"),
    )
    return [Line(f"row: {what}", f"{len(encode(_row(minutes, now))):,} B", "", aim) for what, minutes, aim in cases]
