"""The cards of a page, and the period that the range which is shown stands beside.

A period that is not over is compared with the same part of the one before: today until noon with yesterday until noon.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from clickcurve.answers.counts import CurveAnswer
from clickcurve.buckets.errors import ParameterInvalid
from dashboard.page.changes import NO_CHANGE, Change, Count
from dashboard.page.periods import YEAR, day_written, length_of
from dashboard.page.view import PageView
from dashboard.pictures.axes import until_words
from dashboard.pictures.curve_picture import Unit

NOTHING = "none"
COMPARISONS = {"": "Period before", "year": "A year ago", NOTHING: "Nothing"}  # as an address has them, and in words
_KNOWN = (*COMPARISONS, "before")
AskEarlier = Callable[[], Awaitable[CurveAnswer | None]]


@dataclass(frozen=True, slots=True)
class Card:
    """One number and what it means. change: since the period before; spark: a small curve as safe markup.

    address: the view whose chart draws it, empty where it cannot be drawn; chosen: the chart does.
    """

    name: str
    count: Count
    note: str
    change: Change = NO_CHANGE
    spark: str = ""
    address: str = ""
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class CardCurve:
    """A card, and what the chart draws of it. curve: None where there is none; earlier: asks for the period before.

    noun: what the curve counts; note: what to know of it, as a sentence below the chart. unit: of a curve of amounts,
    that of what the noun says; kinds: what else the chart may draw of it, as addresses show it and in words.
    """

    show: str
    card: Card
    noun: str
    curve: CurveAnswer | None = None
    earlier: AskEarlier | None = None
    note: str = ""
    unit: Unit | None = None
    kinds: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """The period that a range is compared with: [start, end), and until when of it while the range goes on."""

    start: int
    end: int
    until: int

    @property
    def span(self) -> tuple[int, int]:
        """What is counted of it."""
        return self.start, self.until

    def words(self, zone: ZoneInfo) -> str:
        """Writes the period: `25 Sep - 24 Oct 2026`, with the time up to which it is counted."""
        return until_words(self.start, self.until, zone)


def period_before(curve: CurveAnswer, view: PageView, now: int) -> Compared | None:
    """Returns the period that a curve is compared with: as the view says, or else the one before.

    None of all time, before 1970, and where the view compares with nothing. Raises ParameterInvalid for a comparison
    that is not known.
    """
    zone = ZoneInfo(curve.tz)
    day = day_written(view.compare, zone)
    if day is None and view.compare not in _KNOWN:
        rule = "before, year, none, or the first day of a range, such as 2026-01-01"
        why = f"compare {view.compare!r} is not known"
        raise ParameterInvalid(why, field="compare", value=view.compare, rule=rule)
    if view.is_ever or view.compare == NOTHING or not curve.points:
        return None
    length = length_of(curve.start, curve.end, zone, view.span)
    back = YEAR if view.compare == "year" else length
    start = back.back(curve.start, zone) if day is None else day
    end = length.forward(start, zone)
    until = end
    if length.forward(curve.start, zone) > now:
        until = min(end, back.back(now, zone) if day is None else start + now - curve.start)
    if day is None:
        end, until = min(end, curve.start), min(until, curve.start)
    return Compared(start, end, until) if 0 <= start < until else None
