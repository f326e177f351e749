"""Where the marks of a picture stand: round counts up the side, round times of a zone along the bottom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, floor, log10
from zoneinfo import ZoneInfo

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SPACE = "\N{NO-BREAK SPACE}"
TO = " - "  # between the ends of a range
PERCENT = f"{SPACE}%"  # never alone on a line
# A day inside the years that the calendar of the standard library has, in every zone.
_EARLIEST, _LATEST = -86_400, 253_402_128_000


# --- counts ---------------------------------------------------------------------------------------------------------
def round_steps(highest: float, most: int, whole: bool) -> list[float]:
    """Returns the marks above 0 up to the first that is not below `highest`, at most `most` of them.

    They are 1, 2 or 5 times a power of ten apart; whole: no mark lies between two integers.
    """
    if highest <= 0:
        return [1.0]
    least = highest / most
    power = 10.0 ** floor(log10(least))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * (1 + 1e-9) >= least)
    if whole:
        step = max(1.0, step)
    return [step * n for n in range(1, max(1, ceil(highest / step - 1e-9)) + 1)]


def with_commas(count: float) -> str:
    """Writes a count with commas between thousands; a mark below 1 with as many decimals as it needs."""
    if count == int(count):
        return f"{int(count):,}"
    return f"{count:,.{max(0, -floor(log10(count)))}f}"


def short(count: float) -> str:
    """Writes a count in at most five characters and never more than it is, as `1.2k`, `34k` or `5.6M`."""
    count = int(count)
    size = 1
    for unit in ("", "k", "M", "G", "T", "P"):
        if count < 1_000 * size or unit == "P":
            break
        size *= 1_000
    if size == 1:
        return str(count)
    tenths = count * 10 // size
    return f"{tenths // 10}.{tenths % 10}{unit}" if tenths < 100 and tenths % 10 else f"{tenths // 10:,}{unit}"


# --- times ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Pace:
    """Marks so many units apart: minutes, days or months, as the unit says."""

    unit: str
    n: int
    roughly_s: int


_PACES = (
    *(_Pace("minute", n, 60 * n) for n in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)),
    *(_Pace("day", n, 86_400 * n) for n in (1, 2, 7, 14)),
    *(_Pace("month", n, 2_629_800 * n) for n in (1, 2, 3, 6, *(12 * 10**p * f for p in range(4) for f in (1, 2, 5)))),
)


def wall(t: int, zone: ZoneInfo) -> datetime:
    """Returns the wall clock of a zone at t, without its offset; within the calendar's ends."""
    return datetime.fromtimestamp(min(max(t, _EARLIEST), _LATEST), zone).replace(tzinfo=None)


def time_marks(start: int, end: int, zone: ZoneInfo, most: int) -> Iterator[tuple[int, str]]:
    """Yields the round times inside [start, end], each with its label; at most about `most`."""
    pace = next((each for each in _PACES if (end - start) <= each.roughly_s * max(1, most)), _PACES[-1])
    at = _floor(wall(start, zone), pace)
    last, before = wall(end, zone), None
    while at <= last:
        t = int(at.replace(tzinfo=zone).timestamp())
        if start <= t <= end and (before is None or t > before):
            yield t, _mark_label(at, pace)
            before = t
        following = _next(at, pace)
        if following is None:
            return
        at = following


def _floor(at: datetime, pace: _Pace) -> datetime:
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if pace.unit == "minute":
        minutes = (at.hour * 60 + at.minute) // pace.n * pace.n
        return day + timedelta(minutes=minutes)
    if pace.unit == "day":
        if pace.n >= 7:
            return day - timedelta(days=day.weekday())
        return day - timedelta(days=(day.day - 1) % pace.n)
    months = (day.year * 12 + day.month - 1) // pace.n * pace.n
    return day.replace(year=max(1, months // 12), month=months % 12 + 1, day=1)


def _next(at: datetime, pace: _Pace) -> datetime | None:
    """Returns the mark after this one, None after the last year. Days of two start anew with each month."""
    try:
        if pace.unit == "minute":
            return at + timedelta(minutes=pace.n)
        if pace.unit == "day":
            following = at + timedelta(days=pace.n)
            return following.replace(day=1) if pace.n == 2 and following.month != at.month else following
        months = at.year * 12 + at.month - 1 + pace.n
        return at.replace(year=months // 12, month=months % 12 + 1)
    except (OverflowError, ValueError):
        return None


def _mark_label(at: datetime, pace: _Pace) -> str:
    if pace.unit == "minute" and (at.hour or at.minute):
        return f"{at:%H:%M}"
    if pace.unit != "month":
        return f"{at.day} {MONTHS[at.month - 1]}"
    return str(at.year) if at.month == 1 or pace.n >= 12 else MONTHS[at.month - 1]


def day_and_time(t: int, zone: ZoneInfo) -> str:
    """Writes a moment for people: `3 Mar 2026`, with ` 14:05` unless it is midnight."""
    at = wall(t, zone)
    return f"{_day(at)} {at:%H:%M}" if at.hour or at.minute else _day(at)


def range_words(start: int, end: int, zone: ZoneInfo) -> str:
    """Writes a range for people, with its last day: `25 Oct - 23 Nov 2026`, `3 Mar 2026 14:00 - 15:00`."""
    first, after = wall(start, zone), wall(end, zone)
    if is_midnight(first) and is_midnight(after) and first < after:
        last = after - timedelta(days=1)
        if first == last:
            return _day(first)
        return f"{_day(first).removesuffix(f' {last.year}')}{TO}{_day(last)}"
    if first.date() == after.date():
        return f"{_day(first)} {first:%H:%M}{TO}{after:%H:%M}"
    if is_midnight(after) and after - first < timedelta(days=1):
        return f"{_day(first)} {first:%H:%M}{TO}24:00"
    return f"{_day(first)} {first:%H:%M}{TO}{_day(after)} {after:%H:%M}"


def end_of_day(t: int, zone: ZoneInfo) -> int:
    """Returns the end of the zone's day that holds the last second before t."""
    day = wall(t - 1, zone).replace(hour=0, minute=0, second=0)
    return int((day + timedelta(days=1)).replace(tzinfo=zone).timestamp())


def is_midnight(at: datetime) -> bool:
    """Returns whether a day begins."""
    return not (at.hour or at.minute or at.second)


def _day(at: datetime) -> str:
    return f"{at.day} {MONTHS[at.month - 1]} {at.year}"
