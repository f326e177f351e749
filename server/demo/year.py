"""A made-up year as rows of a store: counts, and what hits said, of each link, each group and all links together.

Rows, not hits: visitors of a day that is over can be kept as a number, but never be sent again. They are put into the
store under an owner of their own that has ended.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BreakdownDelta, apply_breakdown
from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.breakdowns.parts import encode_parts, parts_due
from clickcurve.buckets.breakdowns.visitors import EXACT, HASH_BITS, VisitorDays
from clickcurve.buckets.candidates import open_cutoffs
from clickcurve.buckets.ladder import DAY_S, Ladder, fold_day
from clickcurve.buckets.measures import measured, measures_of
from clickcurve.buckets.row import Delta
from clickcurve.keys import ALL_LINKS, breakdown_of, group_key, link_key
from ingest.claim import first_flush
from ingest.flushed_rows import FlushedCounts
from server.attributes import SINCE
from server.demo.audience import JUDGED, hits_by_value
from server.demo.bots import bots_by_value
from server.demo.shop import Outcome, outcomes_of_year
from server.demo.traffic import YearBucket, made_up_years
from storage.contract import OPEN, Held, OwnerRecord, SavedRow, Source, Store

VISITORS = 4_000  # people who may come on a day, each with the same chance
DEMO = "demo"  # the source of the rows, and the holder of their owner
_SEED = 20_260_302

# Dimension -> bucket start -> value -> count.
Values = Mapping[str, Mapping[int, Counter[str]]]


def _no_values() -> defaultdict[str, defaultdict[int, Counter[str]]]:
    return defaultdict(lambda: defaultdict(Counter))


@dataclass(slots=True)
class YearSums:
    """What one row counts in a year, by the starts of buckets.

    visitors: of the days that are kept as sets. known: the hits of these; all hits tell whose they are.
    """

    people: Counter[int] = field(default_factory=Counter)
    bots: Counter[int] = field(default_factory=Counter)
    values: defaultdict[str, defaultdict[int, Counter[str]]] = field(default_factory=_no_values)
    visitors: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    known: Counter[int] = field(default_factory=Counter)

    def add_outcome(self, outcome: Outcome, number: int, start: int, dimensions: Sequence[str]) -> None:
        """Adds an event, or its amount, to the bucket that counts keep and to the one that breakdowns keep."""
        self.people[outcome.start] += number
        for name in dimensions:
            if name in outcome.attributes:
                self.values[name][start][outcome.attributes[name]] += number

    def add(
        self,
        buckets: Sequence[YearBucket],
        values: Values,
        visitors: Mapping[int, set[int]],
        hits_of_visitors: Mapping[int, int],
    ) -> None:
        self.people.update({start: people for start, people, _ in buckets if people})
        self.bots.update({start: bots for start, _, bots in buckets if bots})
        for name, by_start in values.items():
            for start, counted in by_start.items():
                self.values[name][start].update(counted)
        for day, members in visitors.items():
            self.visitors[day].update(members)
        self.known.update(hits_of_visitors)


def fill(store: Store, now: int, dimensions: Sequence[str], events: Collection[str] = ()) -> None:
    """Puts the year before now into a store, unless one is there. A fill that was killed is done again, whole.

    events: those that are counted.
    """
    if store.source(DEMO) is not None:
        return
    holder, begun = _held(store, now), first_flush(1)
    for name in dimensions:
        store.note(SINCE + name, "0")
    store.begin(holder, begun, begun + 1, now)
    rows = made_up_rows(now, store.ladder(), dimensions, begun + 1, events)
    store.save_own(holder, begun + 1, rows, {DEMO: Source(holder.owner, len(rows), "")})
    store.close_owner(holder)


def _held(store: Store, now: int) -> Held:
    """Returns the holder of the owner that a killed fill left behind, or of a new one."""
    owners = store.owners()
    owner = next((record for record in owners if record.holder == DEMO), None)
    if owner is None:
        number = max((record.owner for record in owners), default=0) + 1
        owner = OwnerRecord(number, 1, DEMO, DEMO, DEMO, OPEN, first_flush(1), now)
        store.create_owner(owner)
    return Held(owner.owner, owner.epoch, owner.holder)


def made_up_rows(
    now: int, ladder: Ladder, dimensions: Sequence[str], flush: int, events: Collection[str] = ()
) -> dict[str, SavedRow]:
    """Returns the rows of a year by stored key, as that flush of an owner without any others leaves them."""
    day, (chance, of_shop, of_bots) = fold_day(now), (Random(_SEED + number + now // 60) for number in range(3))
    pool = [chance.getrandbits(HASH_BITS) for _ in range(VISITORS)]
    years: dict[str, YearSums] = {ALL_LINKS: YearSums()}
    for link, buckets in made_up_years(now, ladder):
        spoken, bots = _hits_by_bucket(buckets, day)
        shares = JUDGED[link.audience]
        values = {
            name: {start: hits_by_value(chance, people, shares[name]) for start, people in spoken.items()}
            for name in dimensions
            if name in shares
        }
        open_days = _open_days(spoken, day) if values else Counter[int]()
        drawn = {start: bots_by_value(of_bots, hits) for start, hits in bots.items()}
        values |= {name: {start: said[name] for start, said in drawn.items()} for name in dimensions if name in OF_BOTS}
        visitors = {start: set(chance.choices(pool, k=people)) for start, people in open_days.items()}
        subjects = (link_key(link.key), ALL_LINKS, *([group_key(link.group)] if link.group else []))
        for stored in subjects:
            years.setdefault(stored, YearSums()).add(buckets, values, visitors, open_days)
        for outcome in outcomes_of_year(of_shop, link, buckets, events):
            start = BREAKDOWN.ladder.kept(outcome.start, day)[0]
            for measure, number in zip(measures_of(outcome.event), (1, outcome.amount), strict=True):
                for stored in subjects if number else ():
                    years.setdefault(measure.row(stored), YearSums()).add_outcome(outcome, number, start, dimensions)
    return {key: row for stored, year in years.items() for key, row in _rows_of(stored, year, day, ladder, flush)}


def _hits_by_bucket(buckets: Sequence[YearBucket], day: int) -> tuple[Counter[int], Counter[int]]:
    """Adds up the people and the bots of the buckets that a breakdown keeps, which are coarser."""
    of_people, of_bots = Counter[int](), Counter[int]()
    for start, people, bots in buckets:
        kept = BREAKDOWN.ladder.kept(start, day)[0]
        of_people[kept] += people
        of_bots[kept] += bots
    return +of_people, +of_bots


def _open_days(spoken: Mapping[int, int], day: int) -> Counter[int]:
    """Returns the people of the days whose hours are kept."""
    people_by_day: Counter[int] = Counter()
    for start, people in spoken.items():
        if BREAKDOWN.ladder.tier_of(start, day) == 0:
            people_by_day[start - start % DAY_S] += people
    return people_by_day


def _rows_of(stored: str, year: YearSums, day: int, ladder: Ladder, flush: int) -> list[tuple[str, SavedRow]]:
    """Returns the row of counts, and the breakdown where hits say anything."""
    counts, delta = FlushedCounts(flush, day, False, ladder, day, open_cutoffs()), Delta(year.people, year.bots)
    row = counts.saved(stored, None, counts.applied(None, delta, 0), delta)
    assert row is not None
    if not year.values:
        return [(stored, row)]
    attributes = BreakdownDelta(year.values, year.visitors, year.known)
    breakdown = apply_breakdown(BREAKDOWN.empty, attributes, flush, day, 0, BREAKDOWN)
    of_people = [tiers for name, tiers in breakdown.dimensions.items() if name not in OF_BOTS]
    if of_people and not measured(stored)[0].event:  # visitors are those of clicks
        closed = [
            {start: _visitor_days(start, bucket.recorded(), day) for start, bucket in buckets.items()}
            for buckets in of_people[0][1:]
        ]
        breakdown = breakdown._replace(visitor_days=tuple(closed))
    parts = encode_parts(breakdown, BREAKDOWN)
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
