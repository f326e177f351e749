"""Times as people and programs write them, and the units that they are counted in.

One parser reads a hit's `ts` in quotes, `from` and `to` of a query or a command, a line of a trace and the JSON lines
of access logs, so that the same text means the same everywhere:

    2026-01-31  20260131                    a date: its midnight. Eight digits are always a date
    2026-01                                 a month: its beginning
    2026-01-31T10:30:05.25                  T, t or a space, then 10, 10:30, 1030, 10:30:05 or 103005, perhaps a
    20260131 103005,25                      fraction after . or ,
    2026-01-31T10:30+05:30  ...+0530 ...+05 an offset, or Z or z; without one the caller says what is meant

24:00 is the next midnight and the leap second :60 the next minute, as the standard says. Weeks and ordinal days are not
read. In queries, commands and traces a number is epoch seconds; in JSON that is a number without quotes. A number from
1 to 9999 is refused, for it may be a year; 0 is the beginning, and has no minus.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import NamedTuple, TypeVar

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import DAY_S, HOUR_S, MINUTE_S

SECOND_US = 1_000_000

# One year before the calendar of `datetime` ends, so that the next edge after any allowed time can still be named.
LATEST = 253_370_764_800  # 9999-01-01

TIME_RULE = "epoch seconds, or ISO 8601 such as 2026-03-01, 2026-03-01T10:30 or 2026-03-01T10:30:00+05:30"

_ISO = re.compile(
    r"(\d{4})(-?)(\d\d)\2(\d\d)"
    r"(?:[Tt ](\d\d)(?:(:?)(\d\d)(?:\6(\d\d)(?:[.,](\d+))?)?)? ?(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)
_MONTH = re.compile(r"\d{4}-\d\d", re.ASCII)
_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]*))?")
_LENGTH = re.compile(r"([0-9]{1,9})([a-z]*)")
_LONGEST = 64
YEARS = range(1, 10_000)  # numbers that may be meant as years
YEAR_RULE = "0, or 10000 and more, as epoch seconds; a date has a month and a day"
_MILLISECONDS_DIGITS = 13
_EPOCH_DAY = date(1970, 1, 1).toordinal()

# Lengths of time, by the letters that most programs use for them. A year is 365 days.
UNITS_S: Mapping[str, int] = {
    "s": 1,
    "m": MINUTE_S,
    "h": HOUR_S,
    "d": DAY_S,
    "w": 7 * DAY_S,
    "y": 365 * DAY_S,
}
_Unit = TypeVar("_Unit")


class WrittenTime(NamedTuple):
    """What a text says: the reading of a clock, and how far that clock is ahead of UTC.

    wall_s: seconds from 1970-01-01T00:00 to the reading, on that clock; below 0 before 1970. fraction: of the next
    second. offset_s: None where the text has no offset, so that the caller decides which clock is meant.
    """

    wall_s: int
    fraction: float
    offset_s: int | None

    @property
    def utc_s(self) -> int:
        """Epoch seconds, floored; without an offset the reading is one of UTC."""
        return self.wall_s - (self.offset_s or 0)


def parse_iso(text: str) -> WrittenTime | None:
    """Returns what a text in one of the forms above says, or None if it is in none of them."""
    if _MONTH.fullmatch(text):
        text += "-01"
    shape = _ISO.fullmatch(text) if len(text) <= _LONGEST else None
    if shape is None:
        return None
    year, _, month, day, hour, _, minute, second, fraction, sign, offset_hour, offset_minute = shape.groups("0")
    h, m, s, oh, om = int(hour), int(minute), int(second), int(offset_hour), int(offset_minute)
    if h > 24 or m > 59 or s > 60 or oh > 23 or om > 59 or (h == 24 and (m or s)):
        return None
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    offset_s = None
    if sign != "0":
        offset_s = (oh * HOUR_S + om * MINUTE_S) * (-1 if sign == "-" else 1)
    elif text[-1] in "Zz":
        offset_s = 0
    wall_s = days * DAY_S + h * HOUR_S + m * MINUTE_S + s
    return WrittenTime(wall_s, float(f"0.{fraction}"), offset_s)


@lru_cache(maxsize=4096)
def iso_seconds(text: str) -> int | None:
    """Returns epoch seconds, UTC where the text has no offset; negative before 1970; None as `parse_iso`."""
    written = parse_iso(text)
    return None if written is None else written.utc_s


def parse_time(field: str, text: str) -> WrittenTime:
    """Reads epoch seconds or one of the forms above.

    Raises ParameterInvalid with the field, the value and the rule. Whether the time is in range is another question:
    see `require_in_range`, once the caller has applied its zone.
    """
    is_date = len(text) == 8 and text.isdecimal()
    number = None if is_date else _NUMBER.fullmatch(text)
    written = _epoch(field, text, number) if number else parse_iso(text)
    if written is None:
        hint = ": eight digits are a date" if is_date else ""
        raise ParameterInvalid(f"{field} {text!r} is not a time{hint}", field=field, value=text, rule=TIME_RULE)
    return written


def _epoch(field: str, text: str, number: re.Match[str]) -> WrittenTime:
    minus, padded, fraction = number.groups("")
    digits = padded.lstrip("0")
    if len(digits) >= _MILLISECONDS_DIGITS:
        raise ParameterInvalid(
            f"{field} {text!r} has {len(digits)} digits: milliseconds?",
            field=field,
            value=text,
            rule="seconds since 1970, not milliseconds",
        )
    seconds, part = int(digits or "0"), float(f"0.{fraction or 0}")
    if seconds in YEARS and not minus:
        raise ParameterInvalid(f"{field} {text!r}: {year_hint(seconds)}", field=field, value=text, rule=YEAR_RULE)
    if minus and not seconds and not part:
        raise ParameterInvalid(f"{field} {text!r} has a minus: 0 has none", field=field, value=text, rule=TIME_RULE)
    if minus and part:
        return WrittenTime(-seconds - 1, 1 - part, 0)
    return WrittenTime(-seconds if minus else seconds, part, 0)


def year_hint(number: int) -> str:
    """Returns what to write instead of a number that may be a year."""
    return f"a year? write {number if 1970 <= number < 9999 else 2026}-01-01"


def require_in_range(field: str, text: str, t: int) -> int:
    """Returns t, epoch seconds; raises ParameterInvalid if it is before 1970 or after the year 9998."""
    if t < 0:
        raise ParameterInvalid(
            f"{field} {text!r} is before 1970", field=field, value=text, rule="not before 1970-01-01T00:00:00Z"
        )
    if t > LATEST:
        raise ParameterInvalid(
            f"{field} {text!r} is after the year 9998", field=field, value=text, rule="not after the year 9998"
        )
    return t


def parse_length(text: str, units: Mapping[str, _Unit]) -> tuple[int, _Unit] | None:
    """Reads `7d`: returns the number and what its unit is in `units`. None if it is written in no such way.

    Units are lower case letters; "" among them allows a number alone. A number has at most nine digits.
    """
    match = _LENGTH.fullmatch(text)
    return (int(match[1]), units[match[2]]) if match is not None and match[2] in units else None
