"""Which range another one is compared with: pure, from spans of time and a zone.

A range of 7 days or more is moved back by whole weeks, so that a Friday is compared with a Friday; a shorter one by
itself. With exact dates October is compared with September. Whole days are moved on the clock of the zone, so
that a range which begins at midnight is compared with one that does, also where a day between has 25 hours.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from clickcurve.buckets.ladder import DAY_S
from query.zones import EPOCH, Zone

TimeSpan: TypeAlias = tuple[int, int]  # [start, end), epoch seconds

_DAY, _WEEK = timedelta(days=1), timedelta(days=7)
_YEAR = timedelta(days=364)  # 52 weeks: the same weekdays


class Compare(StrEnum):
    """What a range is compared with.

    before: as long, on the same weekdays. before_exact: just before, and as long, or as many whole months of the
    calendar. year: 364 days before.
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
    first, after = zone.wall(start), zone.wall(end)
    length = after - first
    if compare is Compare.year:
        back = _YEAR
    elif compare is Compare.before and length >= _WEEK:
        back = -(-length // _WEEK) * _WEEK
    elif (months := _whole_months(first, after)) and compare is Compare.before_exact:
        return _months_before(first, months, (start, until, end), zone)
    elif length % _DAY == timedelta():
        back = length
    else:
        back_s = end - start
        return max(0, start - back_s), max(0, until - back_s)
    moved_until = start if until == end and back == length else _moved(until, back, zone)
    return _moved(start, back, zone), moved_until


def _whole_months(first: datetime, after: datetime) -> int:
    """Returns how many months of the calendar lie between two readings of a clock; 0 where they cut one."""
    is_whole = all((each.day, each.hour, each.minute, each.second) == (1, 0, 0, 0) for each in (first, after))
    return (after.year - first.year) * 12 + after.month - first.month if is_whole else 0


def _months_before(first: datetime, months: int, span: tuple[int, int, int], zone: Zone) -> TimeSpan:
    """Returns as many months before, up to the same part of them: at most to their end, which is where span begins."""
    start, until, end = span
    month = first.year * 12 + first.month - 1 - months
    if month < EPOCH.year * 12:
        return 0, 0
    back = first - datetime(month // 12, month % 12 + 1, 1)
    return _moved(start, back, zone), start if until == end else min(start, _moved(until, back, zone))


def _moved(t: int, back: timedelta, zone: Zone) -> int:
    """Returns the time whose clock shows so many days less than that of another one; 0 before 1970."""
    if back.days * DAY_S > t + DAY_S:
        return 0
    return max(0, zone.instant(zone.wall(t) - back))
