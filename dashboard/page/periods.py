"""Periods of a calendar: those that the page offers, the one before another, and what days an address means.

An address has whole days: its last one belongs to the period, as people mean it. Questions have moments, half-open.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from dashboard.pictures.axes import is_midnight, wall

EVER = "0"  # the start of all time in an address
_DAY = timedelta(days=1)
_WRITTEN_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)|(\d{4})(\d\d)(\d\d)")
_WRITTEN_MONTH = re.compile(r"(\d{4})-(\d\d)")
_NO_DATE = 100_000_000  # epoch seconds of nine digits: 1973
_UTC = ZoneInfo("UTC")
_LAST = re.compile(r"(\d{1,7})([a-z]+)")


@dataclass(frozen=True, slots=True)
class Period:
    """A period that the page offers. last, or start and end: as an address has them. key: what chooses it."""

    name: str
    key: str
    last: str = ""
    start: str = ""
    end: str = ""


@dataclass(frozen=True, slots=True)
class Length:
    """How long a period is: so many months, days or seconds."""

    n: int
    unit: Literal["months", "days", "seconds"]

    def back(self, t: int, zone: ZoneInfo) -> int:
        """Returns the moment before t when the zone's clocks showed the same; of seconds, so many before."""
        return self._moved(t, zone, -self.n)

    def forward(self, t: int, zone: ZoneInfo) -> int:
        """Returns the moment after t when the zone's clocks show the same; of seconds, so many after."""
        return self._moved(t, zone, self.n)

    def _moved(self, t: int, zone: ZoneInfo, n: int) -> int:
        if self.unit == "seconds":
            return t + n
        local = wall(t, zone)
        try:
            moved = _months_after(local, n) if self.unit == "months" else local + n * _DAY
        except (OverflowError, ValueError):  # outside the calendar
            return t
        return int(moved.replace(tzinfo=zone).timestamp())


_UNITS = {
    "m": Length(60, "seconds"),
    "h": Length(3_600, "seconds"),
    "d": Length(1, "days"),
    "w": Length(7, "days"),
    "mo": Length(1, "months"),
    "y": Length(12, "months"),
}


def offered_periods(now: int, zone: ZoneInfo) -> list[Period]:
    """Returns the periods of the range menu. Whole weeks have as many weekends as the period before them."""
    today = wall(now, zone).date()
    first = today.replace(day=1)
    last_month = first - _DAY
    yesterday = str(today - _DAY)
    return [
        Period("Last hour", "R", last="60m"),
        Period("Last 24 hours", "H", last="24h"),
        Period("Today", "D", last="1d"),
        Period("Yesterday", "E", start=yesterday, end=yesterday),
        Period("Last 7 days", "W", last="7d"),
        Period("Last 28 days", "F", last="28d"),
        Period("Last 30 days", "T", last="30d"),
        Period("Last 91 days", "N", last="91d"),
        Period("This month", "M", last="1mo"),
        Period("Last month", "P", start=str(last_month.replace(day=1)), end=str(last_month)),
        Period("This year", "Y", last="1y"),
        Period("Last 12 months", "L", last="12mo"),
        Period("All time", "A", start=EVER),
    ]


def length_of(start: int, end: int, zone: ZoneInfo, last: str = "") -> Length:
    """Returns the length of a period, in months or days where it begins and ends with them.

    last: as asked, or empty. Such a period ends later than its curve, with the day or month that holds now.
    """
    if named := _LAST.fullmatch(last):
        each = _UNITS[named[2]]
        return Length(int(named[1]) * each.n, each.unit)
    first, after = wall(start, zone), wall(end, zone)
    if not (is_midnight(first) and is_midnight(after)):
        return Length(max(60, end - start), "seconds")
    if first.day == after.day == 1:
        return Length(max(1, (after.year - first.year) * 12 + after.month - first.month), "months")
    return Length(max(1, (after - first).days), "days")


def moment_written(t: int) -> str:
    """Writes a moment for a question: as epoch seconds, unless their digits would be read as a year or a date."""
    return str(t) if t >= _NO_DATE else f"{wall(t, _UTC):%Y-%m-%dT%H:%M:%SZ}"


def in_address(start: int, end: int, zone: ZoneInfo) -> dict[str, str]:
    """Returns a range as an address has it: its first and last day if it is of whole days, else two moments."""
    first, after = wall(start, zone), wall(end, zone)
    if is_midnight(first) and is_midnight(after) and first < after:
        return {"start": str(first.date()), "end": str((after - _DAY).date())}
    return {"start": str(start), "end": str(end)}


def day_written(text: str, zone: ZoneInfo) -> int | None:
    """Returns when a day begins that is written as `2026-01-31` or `20260131`; None for any other text."""
    written = _WRITTEN_DAY.fullmatch(text)
    try:
        return int(datetime(*_numbers(written), tzinfo=zone).timestamp()) if written else None
    except (OverflowError, ValueError):
        return None


def after_last_day(end: str) -> str:
    """Returns where a period ends whose last day or month an address names; any other text as it is."""
    try:
        if day := _WRITTEN_DAY.fullmatch(end):
            return str(date(*_numbers(day)) + _DAY)
        if month := _WRITTEN_MONTH.fullmatch(end):
            return str((date(int(month[1]), int(month[2]), 28) + 4 * _DAY).replace(day=1))
    except (OverflowError, ValueError):  # no such day: the question will say so
        return end
    return end


def _numbers(day: re.Match[str]) -> tuple[int, int, int]:
    year, month, number = filter(None, day.groups())
    return int(year), int(month), int(number)


def _months_after(local: datetime, n: int) -> datetime:
    months = local.year * 12 + local.month - 1 + n
    first = local.replace(year=months // 12, month=months % 12 + 1, day=1)
    last_day = ((first + timedelta(days=31)).replace(day=1) - _DAY).day
    return first.replace(day=min(local.day, last_day))
