"""Times and lengths of time as clients of Graphite write them: `-6h`, `now-1d`, epoch seconds, `10:30_20260131`."""

from __future__ import annotations

import re

from clickcurve.buckets.errors import ParameterInvalid
from query.parameters import moment
from query.zones import Zone

MOMENT_RULE = "epoch seconds, now, -6h, now-6h, 20260131, 10:30_20260131, or ISO 8601"
LENGTH_RULE = "a whole number and s, min, h, d, w, mon or y, such as 1h or 7d"
_DAY_S = 86_400
# As Graphite has them: a month is 30 days, a year 365.
_UNITS = (
    ("s", 1, "s|sec|secs|second|seconds"),
    ("min", 60, "m|min|mins|minute|minutes"),
    ("h", 3_600, "h|hour|hours"),
    ("d", _DAY_S, "d|day|days"),
    ("w", 7 * _DAY_S, "w|week|weeks"),
    ("mon", 30 * _DAY_S, "mon|month|months"),
    ("y", 365 * _DAY_S, "y|year|years"),
)
_SECONDS = {name: seconds for _, seconds, names in _UNITS for name in names.split("|")}
_LENGTH = re.compile(r"([+-]?)([0-9]{1,9})([a-z]+)")
_CLOCK_DATE = re.compile(r"([0-9]{1,2}):([0-9]{2})_([0-9]{8})")


def length_s(field: str, text: str) -> int:
    """Returns the seconds of a length such as `1h`, negative for `-1h`."""
    found = _LENGTH.fullmatch(text.strip())
    if found is None or found[3] not in _SECONDS:
        raise ParameterInvalid(f"{field} {text!r} is no length of time", field=field, value=text, rule=LENGTH_RULE)
    return int(found[2]) * _SECONDS[found[3]] * (-1 if found[1] == "-" else 1)


def moment_of(field: str, text: str, now: int, zone: Zone) -> int:
    """Returns the epoch seconds that a time means; never below 0."""
    said = text.strip()
    if said == "now":
        return now
    if said[:1] in "+-" or said.startswith(("now-", "now+")):
        return max(0, now + length_s(field, said.removeprefix("now")))
    if clock := _CLOCK_DATE.fullmatch(said):
        said = f"{clock[3]}T{clock[1]:0>2}{clock[2]}"
    try:
        return moment(field, said, zone)
    except ParameterInvalid as error:
        raise ParameterInvalid(error.detail, field=field, value=text, rule=MOMENT_RULE) from None
