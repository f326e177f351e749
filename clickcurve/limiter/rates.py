"""Rates: how many hits in how long, and the one grammar in which they are written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from clickcurve.buckets.errors import RuleInvalid

UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
# A month is 30 days: windows have one length, months of the calendar have several.
_WORDS_S = {"second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_WORDS_S["month"] = 30 * UNITS_S["d"]
MAX_LIMIT = 1_000_000_000
MAX_WINDOW_S = 366 * UNITS_S["d"]
RATES_RULE = "limits per time such as 2/s, 5/minute, 10/30s, 10 per hour, 100/d or 1000/month, with commas between them"

_RATE = re.compile(r"([0-9]{1,12})(?: ?/ ?| +per +)([0-9]{0,9}) ?([A-Za-z]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `limit` hits in a window of `window_s` seconds."""

    limit: int
    window_s: int

    def __post_init__(self) -> None:
        _check_rate(str(self), self.limit, self.window_s)

    def __str__(self) -> str:
        unit, unit_s = next(
            ((unit, unit_s) for unit, unit_s in reversed(UNITS_S.items()) if self.window_s % unit_s == 0), ("s", 1)
        )
        many = self.window_s // unit_s
        return f"{self.limit}/{many if many != 1 else ''}{unit}"


def parse_rates(text: str) -> tuple[Rate, ...]:
    """Parses rates such as `2/s, 5/m, 10/h, 100/d`; shortest window first. RuleInvalid names the wrong one and why."""
    return in_order(_parse_rate(part.strip()) for part in re.split("[,;]", text))


def in_order(rates: Iterable[Rate]) -> tuple[Rate, ...]:
    """Returns the rates, shortest window first.

    RuleInvalid if there is none, or one that can never refuse anything because a longer window allows no more.
    """
    ordered = tuple(sorted(rates, key=lambda rate: rate.window_s))
    if not ordered:
        raise RuleInvalid("a rule needs a rate", field="rates", value="", rule=RATES_RULE)
    for short, long in pairwise(ordered):
        if short.window_s == long.window_s:
            raise _rate_error(str(long), f"has the same window as {short}: only one of them can count")
        if short.limit >= long.limit:
            raise _rate_error(str(short), f"can never refuse anything, since {long} allows no more in a longer time")
    return ordered


def _parse_rate(text: str) -> Rate:
    match = _RATE.fullmatch(text)
    if match is None:
        raise _rate_error(text, "is not a limit per time")
    limit, many, unit = match.groups()
    unit_s = _unit_s(unit)
    if unit_s is None:
        raise _rate_error(text, f"has the unit {unit!r}, and the units are {', '.join((*UNITS_S, *_WORDS_S))}")
    window_s = int(many or "1") * unit_s
    _check_rate(text, int(limit), window_s)
    return Rate(int(limit), window_s)


def _unit_s(unit: str) -> int | None:
    """Returns a unit's seconds; a word may have capitals and an s, a letter may not: M is a minute or a month."""
    if len(unit) == 1:
        return UNITS_S.get(unit)
    return _WORDS_S.get(unit.lower().removesuffix("s"))


def _check_rate(text: str, limit: int, window_s: int) -> None:
    if not 1 <= limit <= MAX_LIMIT:
        raise _rate_error(text, f"has the limit {limit}, and it must be from 1 to {MAX_LIMIT}")
    if not 1 <= window_s <= MAX_WINDOW_S:
        raise _rate_error(text, f"has a window of {window_s} s, and it must be from 1 s to 366 days")


def _rate_error(text: str, why: str) -> RuleInvalid:
    return RuleInvalid(f"the rate {text!r} {why}", field="rates", value=text, rule=RATES_RULE)
