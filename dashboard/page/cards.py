"""The cards of a page: the hits of the range that is shown beside those of the period before, visitors, bots.

A period that is not over is compared with the same part of the one before: today until noon with yesterday until noon.
"""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from clickcurve.answers import CurveAnswer, TotalAnswer
from dashboard.page.changes import Change, Count, about, change_of
from dashboard.page.periods import Length, length_of
from dashboard.page.values import ValueTable, Visits
from dashboard.page.view import PageView
from dashboard.pictures.axes import end_of_day, is_midnight, range_words, wall

NO_CHANGE = Change("")


@dataclass(frozen=True, slots=True)
class Card:
    """One number and what it means. change: since the period before."""

    name: str
    count: Count
    note: str
    change: Change = NO_CHANGE


@dataclass(frozen=True, slots=True)
class Compared:
    """The period that a range is compared with: [start, end), and until when of it while the range goes on."""

    start: int
    end: int
    until: int

    def words(self, zone: ZoneInfo) -> str:
        """Writes the period: `25 Sep - 24 Oct 2026`, with the time up to which it is counted."""
        if self.until == self.end or not is_midnight(wall(self.start, zone)):
            return range_words(self.start, self.until, zone)
        return f"{range_words(self.start, end_of_day(self.until, zone), zone)} until {wall(self.until, zone):%H:%M}"


def period_before(curve: CurveAnswer, view: PageView, now: int, back: Length | None = None) -> Compared | None:
    """Returns the period before that of a curve, or so far back; None of all time, or before 1970."""
    if view.is_ever or not curve.points:
        return None
    zone = ZoneInfo(curve.tz)
    length = length_of(curve.start, curve.end, zone, view.span)
    back = back or length
    start = back.back(curve.start, zone)
    end = min(length.forward(start, zone), curve.start)
    until = min(end, back.back(min(now, curve.end), zone))
    return Compared(start, end, until) if 0 <= start < until else None


def hits_card(curve: CurveAnswer, before: TotalAnswer | None, compared: Compared | None) -> Card:
    """Makes the card of the hits of the range."""
    count = about(curve.at_least, curve.at_most)
    if before is None or compared is None:
        return Card("Hits", count, "in this range")
    change = change_of((before.at_least, before.at_most), (curve.at_least, curve.at_most))
    was = about(before.at_least, before.at_most)
    return Card("Hits", count, f"{compared.words(ZoneInfo(curve.tz))}: {was.text}", change)


def other_cards(bots: TotalAnswer | None, visits: Visits | None, tables: list[ValueTable]) -> list[Card]:
    """Makes the cards of what else is known of the range. bots: None where they are counted among the hits."""
    cards = []
    if visits is not None and visits.count.text != "0":
        cards.append(Card("Daily visitors", visits.count, "each day's, added up"))
    referrers = next((each for each in tables if each.dimension == "ref"), None)
    first = next((row for row in referrers.rows if row.value), None) if referrers else None
    if first is not None:
        cards.append(Card("Top referrer", Count(first.text), f"{first.count.text} hits"))
    if bots is not None:
        cards.append(Card("Bots", about(bots.at_least, bots.at_most), "bot hits, not counted"))
    return cards
