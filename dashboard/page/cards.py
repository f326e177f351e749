"""The cards of a page: the hits of the range that is shown beside those of the period before, visitors, bots.

A period that is not over is compared with the same part of the one before: today until noon with yesterday until noon.
"""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from clickcurve.answers.counts import CurveAnswer, TotalAnswer
from clickcurve.buckets.errors import ParameterInvalid
from dashboard.page.audience.values import ValueTable, share_text
from dashboard.page.audience.visits import Visits
from dashboard.page.changes import NO_CHANGE, Change, Count, about, change_of
from dashboard.page.periods import YEAR, day_written, length_of
from dashboard.page.view import PageView
from dashboard.pictures.axes import until_words

COMPARISONS = ("", "before", "year")


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

    @property
    def span(self) -> tuple[int, int]:
        """What is counted of it."""
        return self.start, self.until

    def words(self, zone: ZoneInfo) -> str:
        """Writes the period: `25 Sep - 24 Oct 2026`, with the time up to which it is counted."""
        return until_words(self.start, self.until, zone)


def period_before(curve: CurveAnswer, view: PageView, now: int) -> Compared | None:
    """Returns the period that a curve is compared with: as the view says, or else the one before.

    None of all time, or before 1970. Raises ParameterInvalid for a comparison that is not known.
    """
    zone = ZoneInfo(curve.tz)
    day = day_written(view.compare, zone)
    if day is None and view.compare not in COMPARISONS:
        rule = "before, year, or the first day of a range, such as 2026-01-01"
        why = f"compare {view.compare!r} is not known"
        raise ParameterInvalid(why, field="compare", value=view.compare, rule=rule)
    if view.is_ever or not curve.points:
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


def hits_card(curve: CurveAnswer, before: CurveAnswer | TotalAnswer | None, compared: Compared | None) -> Card:
    """Makes the card of the hits of the range. before: those of the period that it is compared with."""
    count = about(curve.at_least, curve.at_most)
    if before is None or compared is None:
        return Card("Hits", count, "in this range")
    change = change_of((before.at_least, before.at_most), (curve.at_least, curve.at_most))
    was = about(before.at_least, before.at_most)
    return Card("Hits", count, f"{was.text} before, {compared.words(ZoneInfo(curve.tz))}", change)


def filtered_cards(curve: CurveAnswer, everything: TotalAnswer) -> list[Card]:
    """Makes the card that says what part of all hits of people a filter's curve is."""
    if not everything.at_least:
        return []
    least, most = (share_text(count, everything.at_least) for count in (curve.at_least, curve.at_most))
    share = Count(least) if least == most else Count(f"{least} to {most}")
    return [Card("Share", share, f"of {about(everything.at_least, everything.at_most).text} hits of people")]


def other_cards(
    curve: CurveAnswer, bots: TotalAnswer | None, visits: Visits | None, tables: list[ValueTable]
) -> list[Card]:
    """Makes the cards of what else is known of the range. bots: None where they are counted among the hits."""
    cards = []
    if visits is not None and visits.count.text != "0":
        several = Card("Daily visitors", visits.count, "each day's, added up")
        cards.append(several if visits.several_days else Card("Visitors", visits.count, "of this day"))
    referrers = next((each for each in tables if each.dimension == "ref"), None)
    first = next((row for row in referrers.rows if row.value), None) if referrers else None
    if first is not None:
        cards.append(Card("Top referrer", Count(first.text), f"{first.count.text} hits"))
    if bots is not None:
        share = f"{share_text(bots.at_most, curve.at_most + bots.at_most)} of all, " if bots.at_most else ""
        cards.append(Card("Bots", about(bots.at_least, bots.at_most), f"{share}not counted as hits"))
    return cards
