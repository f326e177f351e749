"""The range that the one which is shown is compared with: by the rule of the API, or from a day that the view names.

A range that is under way is compared with the same part of the one before: today until noon with yesterday until noon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from zoneinfo import ZoneInfo

from clickcurve.answers.counts import CurveAnswer
from clickcurve.buckets.errors import ParameterInvalid
from dashboard.page.periods import day_written, length_of
from dashboard.page.view import PageView, TimeSpan
from dashboard.pictures.axes import until_words

BEFORE, NOTHING = "before", "none"
# As an address has them, and in words. What is empty is BEFORE.
COMPARISONS = {"": "Period before", "before_exact": "Exact dates", "year": "Year before", NOTHING: "None"}
_BY_RULE = ("before", "before_exact", "year")
# A question with `compare`, and its range: where the one before begins and ends, and up to when it is compared.
AskBefore: TypeAlias = Callable[[bytes, TimeSpan], tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Compared:
    """The range that another one is compared with: [start, end), and until when of it while that one goes on."""

    start: int
    end: int
    until: int

    @property
    def span(self) -> TimeSpan:
        """What is counted of it."""
        return self.start, self.until

    def words(self, zone: ZoneInfo) -> str:
        """Writes what is compared with: `compared with 25 Sep - 24 Oct 2026`, with the time up to which it is."""
        return f"compared with {until_words(self.start, self.until, zone)}"


def compared_of(ask: AskBefore, curve: CurveAnswer, view: PageView, now: int) -> Compared | None:
    """Returns what a curve is compared with: as the view says, or else the range before on the same weekdays.

    None of all time, before 1970, and where the view compares with nothing. Raises ParameterInvalid for a comparison
    that is not known.
    """
    zone = ZoneInfo(curve.tz)
    day, rule = day_written(view.compare, zone), view.compare or BEFORE
    if day is None and rule not in (*_BY_RULE, NOTHING):
        said = "before, before_exact, year, none, or the first day of a range, such as 2026-01-01"
        raise ParameterInvalid(f"compare {rule!r} is not known", field="compare", value=rule, rule=said)
    if view.is_ever or rule == NOTHING or not curve.points:
        return None
    if day is None:
        start, end, until = ask(view.compared_query(rule), (curve.start, curve.end))
        return Compared(start, end, until) if start < until else None
    length = length_of(curve.start, curve.end, zone, view.span)
    end = until = length.forward(day, zone)
    if length.forward(curve.start, zone) > now:
        until = min(end, day + now - curve.start)
    return Compared(day, end, until) if 0 <= day < until else None
