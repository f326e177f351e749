"""A made-up year as rows of a store: counts, and what hits said, of each link, each group and all links together.

Rows, not hits: visitors of a day that is over can be kept as a number, but never be sent again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BreakdownDelta, apply_breakdown
from clickcurve.buckets.breakdowns.parts import encode_parts, parts_due
from clickcurve.buckets.breakdowns.visitors import EXACT, HASH_BITS, VisitorDays
from clickcurve.buckets.candidates import open_cutoffs
from clickcurve.buckets.ladder import DAY_S, Ladder, fold_day
from clickcurve.buckets.row import Delta
from clickcurve.keys import ALL_LINKS, breakdown_of, group_key, link_key
from ingest.flushed_rows import FlushedCounts
from server.demo.audience import AUDIENCES, hits_by_value
from server.demo.traffic import YearBucket, made_up_years
from storage.contract import SavedRow

VISITORS = 4_000  # people who may come on a day, each with the same chance
_SEED = 20_260_302

Values = dict[str, dict[int, dict[str, int]]]  # dimension -> bucket start -> value -> count


@dataclass(slots=True)
class YearSums:
    """What one row counts in a year, by the starts of buckets.

    visitors: of the days that are kept as sets. known: the hits of these; all hits tell whose they are.
    """

    people: dict[int, int] = field(default_factory=dict)
    bots: dict[int, int] = field(default_factory=dict)
    values: Values = field(default_factory=dict)
    visitors: dict[int, set[int]] = field(default_factory=dict)
    known: dict[int, int] = field(default_factory=dict)

    def add(
        self,
        buckets: Sequence[YearBucket],
        values: Values,
        visitors: Mapping[int, set[int]],
        hits_of_visitors: Mapping[int, int],
    ) -> None:
        for start, people, bots in buckets:
            for counts, count in ((self.people, people), (self.bots, bots)):
                if count:
                    counts[start] = counts.get(start, 0) + count
        for name, by_start in values.items():
            mine = self.values.setdefault(name, {})
            for start, counted in by_start.items():
                sums = mine.setdefault(start, {})
                for value, count in counted.items():
                    sums[value] = sums.get(value, 0) + count
        for day, members in visitors.items():
            self.visitors.setdefault(day, set()).update(members)
            self.known[day] = self.known.get(day, 0) + hits_of_visitors[day]


def made_up_rows(now: int, ladder: Ladder, dimensions: Sequence[str], flush: int) -> dict[str, SavedRow]:
    """Returns the rows of a year by stored key, as that flush of an owner without any others leaves them."""
    day, chance = fold_day(now), Random(_SEED + now // 60)
    pool = [chance.getrandbits(HASH_BITS) for _ in range(VISITORS)]
    years: dict[str, YearSums] = {ALL_LINKS: YearSums()}
    for link, buckets in made_up_years(now, ladder):
        spoken = _people_by_bucket(buckets, day)
        shares = AUDIENCES[link.audience]
        values = {
            name: {start: hits_by_value(chance, people, shares[name]) for start, people in spoken.items()}
            for name in dimensions
            if name in shares
        }
        open_days = _open_days(spoken, day)
        visitors = {start: set(chance.choices(pool, k=people)) for start, people in open_days.items()}
        for stored in (link_key(link.key), ALL_LINKS, *([group_key(link.group)] if link.group else [])):
            years.setdefault(stored, YearSums()).add(buckets, values, visitors, open_days)
    return {key: row for stored, year in years.items() for key, row in _rows_of(stored, year, day, ladder, flush)}


def _people_by_bucket(buckets: Sequence[YearBucket], day: int) -> dict[int, int]:
    """Adds up the people of the buckets that a breakdown keeps, which are coarser."""
    people_by_bucket: dict[int, int] = {}
    for start, people, _ in buckets:
        kept = BREAKDOWN.ladder.kept(start, day)[0]
        if people:
            people_by_bucket[kept] = people_by_bucket.get(kept, 0) + people
    return people_by_bucket


def _open_days(spoken: Mapping[int, int], day: int) -> dict[int, int]:
    """Returns the people of the days whose hours are kept."""
    people_by_day: dict[int, int] = {}
    for start, people in spoken.items():
        if BREAKDOWN.ladder.tier_of(start, day) == 0:
            people_by_day[start - start % DAY_S] = people_by_day.get(start - start % DAY_S, 0) + people
    return people_by_day


def _rows_of(stored: str, year: YearSums, day: int, ladder: Ladder, flush: int) -> list[tuple[str, SavedRow]]:
    """Returns the row of counts, and the breakdown where hits say anything."""
    counts, delta = FlushedCounts(flush, day, False, ladder, open_cutoffs()), Delta(year.people, year.bots)
    row = counts.saved(stored, None, counts.applied(None, delta, 0), delta)
    assert row is not None
    if not year.values:
        return [(stored, row)]
    attributes = BreakdownDelta(year.values, year.visitors, year.known)
    breakdown = apply_breakdown(BREAKDOWN.empty, attributes, flush, day, 0, BREAKDOWN)
    first_dimension = next(iter(breakdown.dimensions.values()))
    closed = [
        {start: _visitor_days(start, bucket.recorded(), day) for start, bucket in buckets.items()}
        for buckets in first_dimension[1:]
    ]
    parts = encode_parts(breakdown._replace(visitor_days=tuple(closed)), BREAKDOWN)
    return [
        (stored, row),
        (breakdown_of(stored), SavedRow(parts.open, parts_due(parts, BREAKDOWN), None, parts.closed)),
    ]


def _visitor_days(start: int, people: int, day: int) -> VisitorDays:
    """Returns how many different visitors so many hits are, day by day, if each is by any of VISITORS."""
    days = (BREAKDOWN.ladder.kept(start, day)[1] - start) / DAY_S
    each = VISITORS * -math.expm1(-people / days / VISITORS)
    number = min(people, max(1, round(each * days)))
    return VisitorDays.of_owner(number, each <= EXACT, people)
