"""Which range another one is compared with: pure, from spans of time and a zone.

A range of 7 days or more is moved back by whole weeks, so that a Friday is compared with a Friday; a shorter one by
itself. Whole days are moved on the clock of the zone, so that a range which begins at midnight is compared with one
that does, also where a day between has 25 hours.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import TypeAlias

from clickcurve.buckets.ladder import DAY_S
from query.zones import Zone

TimeSpan: TypeAlias = tuple[int, int]  # [start, end), epoch seconds

_DAY, _WEEK = timedelta(days=1), timedelta(days=7)
_YEAR = timedelta(days=364)  # 52 weeks: the same weekdays


class Compare(StrEnum):
    """What a range is compared with.

    before: as long, on the same weekdays. before_exact: as long, and just before. year: 364 days before.
    """

    before = "before"
    before_exact = "before_exact"
    year = "year"


def span_before(compare: Compare, span: TimeSpan, until: int, zone: Zone) -> TimeSpan:
    """Returns the range that [span[0], until) is compared with; nothing of it lies before 1970.

    span: the whole range that is asked for. until: where it is cut, as it is under way; else its end.
    """
    start, end = span
    until = min(max(until, start), end)
    length = zone.wall(end) - zone.wall(start)
    if compare is Compare.year:
        back = _YEAR
    elif compare is Compare.before and length >= _WEEK:
        back = -(-length // _WEEK) * _WEEK
    elif length % _DAY == timedelta():
        back = length
    else:
        back_s = end - start
        return max(0, start - back_s), max(0, until - back_s)
    moved_until = start if until == end and back == length else _moved(until, back, zone)
    return _moved(start, back, zone), moved_until


def _moved(t: int, back: timedelta, zone: Zone) -> int:
    """Returns the time whose clock shows so many days less than that of another one; 0 before 1970."""
    if back.days * DAY_S > t + DAY_S:
        return 0
    return max(0, zone.instant(zone.wall(t) - back))
