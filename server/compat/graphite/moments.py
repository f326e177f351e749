"""Times and lengths of time as clients of Graphite write them: `-6h`, `now-1d`, epoch seconds, `10:30_20260131`."""

from __future__ import annotations

import re

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.times import UNITS_S, parse_length, require_in_range
from query.parameters import moment
from query.zones import Zone

MOMENT_RULE = "epoch seconds, now, -6h, now-6h, 20260131, 10:30_20260131, or ISO 8601"
LENGTH_RULE = "a whole number and s, min, h, d, w, mon or y, such as 1h or 7d"
# As Graphite has them: a month is 30 days, a year 365.
_NAMES = {
    "s": "s|sec|secs|second|seconds",
    "m": "m|min|mins|minute|minutes",
    "h": "h|hour|hours",
    "d": "d|day|days",
    "w": "w|week|weeks",
    "y": "y|year|years",
}
_UNITS_S = {name: UNITS_S[unit] for unit, names in _NAMES.items() for name in names.split("|")}
_UNITS_S |= dict.fromkeys(("mon", "month", "months"), 30 * UNITS_S["d"])
_CLOCK_DATE = re.compile(r"([0-9]{1,2}):([0-9]{2})_([0-9]{8})")


def length_s(field: str, text: str) -> int:
    """Returns the seconds of a length such as `1h`, negative for `-1h`."""
    written = text.strip()
    length = parse_length(written.removeprefix(written[:1] if written[:1] in ("+", "-") else ""), _UNITS_S)
    if length is None:
        raise ParameterInvalid(f"{field} {text!r} is not a length of time", field=field, value=text, rule=LENGTH_RULE)
    return length[0] * length[1] * (-1 if written[0] == "-" else 1)


def moment_of(field: str, text: str, now: int, zone: Zone) -> int:
    """Returns the epoch seconds that a time means, from 0 to the year 9998. Raises ParameterInvalid."""
    written = text.strip()
    if written == "now":
        return now
    if written[:1] in ("+", "-") or written.startswith(("now-", "now+")):
        return require_in_range(field, text, max(0, now + length_s(field, written.removeprefix("now"))))
    if clock := _CLOCK_DATE.fullmatch(written):
        written = f"{clock[3]}T{clock[1]:0>2}{clock[2]}"
    try:
        return moment(field, written, zone)
    except ParameterInvalid as error:
        raise ParameterInvalid(error.detail, field=field, value=text, rule=MOMENT_RULE) from None
