"""Whether an alert's condition is met, judged on bounds and never by guess.

Where a range cuts a kept bucket and its count could be on either side of the limit, nothing is decided, and the alert
stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from clickcurve.buckets.ranges import Span
from server.settings.alerts import Condition, ConditionKind


@dataclass(frozen=True, slots=True)
class Counted:
    """What is known when a condition is judged: the hits of its span, of the span before, and the first hit ever."""

    last: Span
    before: Span
    first_hit: int | None


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
