"""When an alert fires: `over 1000 in 1h`, `under 10 in 24h`, `3x of before in 24h`, `silent for 48h`.

Judged on bounds, so never by guess: where a span cuts a kept bucket and its count could lie on either side of the
limit, nothing is decided, and the alert stays as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from clickcurve.buckets.errors import SettingInvalid
from clickcurve.buckets.ranges import Span

WHEN_RULE = '"over 1000 in 1h", "under 10 in 24h", "3x of before in 24h" or "silent for 48h"; lengths in m, h, d or w'
_LONGEST_S = 366 * 86_400
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LENGTH = r"([0-9]{1,6})(m|h|d|w)"
_LIMIT = re.compile(rf"(over|under) ([0-9]{{1,15}}) in {_LENGTH}")
_TIMES = re.compile(rf"([0-9]{{1,6}}(?:\.[0-9]{{1,3}})?)x of before in {_LENGTH}")
_SILENT = re.compile(rf"silent for {_LENGTH}")


class ConditionKind(StrEnum):
    over = "over"
    under = "under"
    times = "times"
    silent = "silent"


@dataclass(frozen=True, slots=True)
class Condition:
    """A limit on the hits of the last `length_s` seconds: a number, or a multiple of those before."""

    kind: ConditionKind
    length_s: int
    limit: int = 0
    factor: Fraction = Fraction(0)

    @property
    def compares(self) -> bool:
        """Whether it needs the span before."""
        return self.kind is ConditionKind.times


@dataclass(frozen=True, slots=True)
class Counted:
    """What is known when a condition is judged: the hits of its span, of the span before, and the first hit ever."""

    last: Span
    before: Span
    first_hit: int | None


def parse_condition(text: str) -> Condition:
    """Reads a condition; raises SettingInvalid."""
    said = " ".join(text.split())
    if found := _LIMIT.fullmatch(said):
        return Condition(ConditionKind(found[1]), _asked_length_s(text, found[3], found[4]), limit=int(found[2]))
    if found := _TIMES.fullmatch(said):
        factor = Fraction(found[1])
        if factor in (0, 1):
            raise SettingInvalid(f"when {text!r}: {found[1]}x is no change", field="when", value=text, rule=WHEN_RULE)
        return Condition(ConditionKind.times, _asked_length_s(text, found[2], found[3]), factor=factor)
    if found := _SILENT.fullmatch(said):
        return Condition(ConditionKind.silent, _asked_length_s(text, found[1], found[2]))
    raise SettingInvalid(f"when {text!r} is no condition", field="when", value=text, rule=WHEN_RULE)


def _asked_length_s(text: str, number: str, unit: str) -> int:
    length_s = int(number) * _SECONDS[unit]
    if not 60 <= length_s <= _LONGEST_S:
        raise SettingInvalid(f"when {text!r}: a length of 1m to 366d", field="when", value=text, rule=WHEN_RULE)
    return length_s


def is_met(condition: Condition, counted: Counted, now: int) -> bool | None:
    """Returns whether a condition is met; None where the bounds do not tell.

    A link that was never hit is not silent, and one that is younger than the span is neither silent nor under a limit:
    there is nothing to compare yet.
    """
    last = counted.last
    is_young = counted.first_hit is None or counted.first_hit > now - condition.length_s
    if condition.kind is ConditionKind.over:
        return _decided(last.at_least > condition.limit, last.at_most <= condition.limit)
    if condition.kind is ConditionKind.times:
        return _is_changed(condition.factor, last, counted.before)
    if is_young:
        return False
    limit = condition.limit if condition.kind is ConditionKind.under else 1
    return _decided(last.at_most < limit, last.at_least >= limit)


def _is_changed(factor: Fraction, last: Span, before: Span) -> bool | None:
    """Compares two spans; after a span without a hit nothing is a multiple."""
    if before.at_most == 0:
        return False
    if factor > 1:
        certainly = before.at_least > 0 and last.at_least >= factor * before.at_most
        return _decided(certainly, last.at_most < factor * before.at_least)
    certainly = before.at_least > 0 and last.at_most <= factor * before.at_least
    return _decided(certainly, last.at_least > factor * before.at_most)


def _decided(certainly: bool, certainly_not: bool) -> bool | None:
    return True if certainly else False if certainly_not else None
