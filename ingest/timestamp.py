"""ISO 8601 as people and programs write it, to epoch seconds.

Taken: `2026-01-31`, `20260131`, either one followed by `T`, `t` or a space and `10`, `10:00`, `1000`, `10:00:00`,
`100000`, with a fraction after `.` or `,` (floored), then nothing (UTC), `Z` or an offset `+05`, `+0530`, `+05:30`.
`24:00` is the next midnight and a leap second `:60` the next minute, as the standard says. Weeks and ordinal days are
not taken.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

_SHAPE = re.compile(
    r"(\d{4})(-?)(\d\d)\2(\d\d)"
    r"(?:[Tt ](\d\d)(?:(:?)(\d\d)(?:\6(\d\d)(?:[.,]\d+)?)?)? ?(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)
_LONGEST = 64
_EPOCH_DAY = date(1970, 1, 1).toordinal()


@lru_cache(maxsize=4096)
def iso_seconds(text: str) -> int | None:
    """Epoch seconds (negative before 1970), or None if the text is not a time in one of the forms above."""
    shape = _SHAPE.fullmatch(text) if len(text) <= _LONGEST else None
    if shape is None:
        return None
    year, _, month, day, hour, _, minute, second, sign, offset_hour, offset_minute = shape.groups("0")
    h, m, s, oh, om = int(hour), int(minute), int(second), int(offset_hour), int(offset_minute)
    if h > 24 or m > 59 or s > 60 or oh > 23 or om > 59 or (h == 24 and (m or s)):
        return None
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    offset = (oh * 60 + om) * 60
    return days * 86_400 + h * 3600 + m * 60 + s - (-offset if sign == "-" else offset)
