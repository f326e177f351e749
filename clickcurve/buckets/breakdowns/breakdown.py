"""The breakdown: how a link's hits of one owner divide by what they say (referrer, country ...), and what can happen.

A breakdown has, for each dimension and each tier of its ladder, buckets that count values. Only hits that say
something are recorded; in a dimension that such a hit does not give, it counts for the value `""`. A bucket keeps a
bounded number of values, the cap of its tier: the rest is in `other`, and `slack` is the most that any value may lack.

    sum(values) + other == the hits recorded in the bucket
    count(v) <= true(v) <= count(v) + slack, and slack <= other; `""` is never trimmed, so it is exact

What happens to it, always by making a new one, as for a row of counts (`clickcurve.buckets.row`): `land`, then `trim`
of what has more values than the cap; `fold_breakdown`; `apply_breakdown`, once however often; `merge_breakdowns`.

The laws, each with a property test:

1. Values + other = the hits recorded, in each bucket and dimension. No fold and no merge changes a sum.
2. Any steps of folding give the same breakdown: a coarse bucket is made at once of all its parts, and trimmed once.
3. The order of hits matters only to the values of a bucket that has seen more than its cap; never to a sum or a bound.
4. A merge of owners never trims: a plain sum of rows folded to one day, each with its own trims. So an answer does not
   depend on whether an owner's rows were folded before.
5. Values that are kept for a time go to `other` by the fold day alone, whichever steps of folding led to it.
6. Visitors of a day are a set while its hours are kept, then a number. Days add up to `visitor_days`, never to a set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import NamedTuple

from clickcurve.buckets.breakdowns.kept_time import KeptTime
from clickcurve.buckets.breakdowns.visitors import NO_DAY, OpenDay, VisitorDays
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME, HOUR_S, Ladder

NOT_GIVEN = ""
CUT_OFF, CUT_SLACK = "\0other", "\0slack"  # no value has a zero byte


class ValueCounts(NamedTuple):
    """What a bucket knows of one dimension. values: value -> count (> 0), not to be changed in place."""

    values: Mapping[str, int]
    other: int = 0
    slack: int = 0

    def recorded(self) -> int:
        """Returns the hits in the bucket."""
        return sum(self.values.values()) + self.other


Tiers = tuple[Mapping[int, ValueCounts], ...]  # one {bucket start: counts} per tier, finest first


class Breakdown(NamedTuple):
    """What one owner recorded of one link's hits.

    fold_day, mark, erased_at  as in a row of counts.
    first  the start of the hour of the earliest recorded hit, None = none.
    shift  how often the caps were halved because the bytes became too many.
    dimensions  name -> its tiers. days: start of a UTC day -> its visitors, as long as the finest tier holds it.
    visitor_days  one {bucket start: number} per tier after the finest.
    """

    fold_day: int
    mark: int
    erased_at: int
    first: int | None
    shift: int
    dimensions: Mapping[str, Tiers]
    days: Mapping[int, OpenDay]
    visitor_days: tuple[Mapping[int, VisitorDays], ...]


@dataclass(frozen=True, slots=True)
class BoundedLadder:
    """A breakdown's ladder, and how many values a bucket of each tier keeps. Raises ValueError for one without hours.

    The finest tier is whole hours of one day, the others whole days: a day's visitors become a number all at once.
    times: of the dimensions whose values are kept for a time only, at least as long as the finest tier holds them.
    """

    ladder: Ladder
    caps: tuple[int, ...]
    times: tuple[KeptTime, ...] = ()
    empty: Breakdown = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        finest, *others = self.ladder.tiers
        if not others or finest.width_s is None or finest.width_s % HOUR_S or DAY_S % finest.width_s:
            raise ValueError(
                f"ladder {self.ladder}: a breakdown's finest tier must be hours that divide a day, and not the last"
            )
        if any(tier.width_s is not None and tier.width_s % DAY_S for tier in others):
            raise ValueError(f"ladder {self.ladder}: the other tiers of a breakdown must be whole days")
        if len(self.caps) != len(self.ladder.tiers) or min(self.caps) < 1:
            raise ValueError(f"caps {self.caps}: one of 1 or more for each of {len(self.ladder.tiers)} tiers")
        for time in self.times:
            if time.days < (finest.kept_days or 0):
                raise ValueError(f"{time}: values are kept for {finest.kept_days} days or more")
        object.__setattr__(self, "empty", Breakdown(0, 0, 0, None, 0, {}, {}, ({},) * len(others)))

    def caps_of(self, shift: int) -> tuple[int, ...]:
        """Returns the caps of a breakdown whose caps were halved so often."""
        return tuple(cap >> shift for cap in self.caps) if shift else self.caps

    def kept_since(self, dimension: str, fold_day: int) -> int | None:
        """Returns the first moment whose values of a dimension are kept on a fold day; None: all are."""
        for time in self.times:
            if time.dimension == dimension:
                return time.kept_since(fold_day, self.ladder)
        return None


BREAKDOWN = BoundedLadder(Ladder.parse("3600:2,86400:31,week:366,month"), (300, 150, 100, 100))

CAP_MOST = 1_000  # that a setting may ask for: an hour of so many values is 20 kB
WIDEST = BoundedLadder(BREAKDOWN.ladder, (CAP_MOST,) * len(BREAKDOWN.caps))  # whatever was asked for, rows keep to it


@dataclass(frozen=True, slots=True)
class BreakdownDelta:
    """What a flush adds to one breakdown.

    values  dimension -> start of an hour -> value -> count (> 0). Each recorded hit is in each dimension. CUT_OFF and
    CUT_SLACK in place of a value: `other` and `slack` of a bucket that was cut elsewhere, as an export has it.
    visitors  start of a UTC day -> hashes of its visitors. known: start of a UTC day -> the hits of these.
    """

    values: Mapping[str, Mapping[int, Mapping[str, int]]]
    visitors: Mapping[int, Set[int]] = field(default_factory=dict)
    known: Mapping[int, int] = field(default_factory=dict)

    def oldest(self) -> int | None:
        """Returns the earliest time that it speaks of; None = it adds nothing."""
        times = [min(hours) for hours in self.values.values() if hours]
        times += [min(days) for days in (self.visitors, self.known) if days]
        return min(times, default=None)

    def days(self) -> Iterator[tuple[int, Set[int], int]]:
        """Yields the start of each day of which it has visitors, these, and their hits."""
        for day in self.visitors.keys() | self.known.keys():
            members, known = self.visitors.get(day, frozenset()), self.known.get(day, 0)
            if members or known:
                yield day, members, known


def landing(values: Mapping[str, int]) -> ValueCounts:
    """Returns what lands in a bucket, from the counts of a delta."""
    if CUT_OFF not in values:
        return ValueCounts(dict(values))
    rest = {value: count for value, count in values.items() if value not in (CUT_OFF, CUT_SLACK)}
    return ValueCounts(rest, values[CUT_OFF], values.get(CUT_SLACK, 0))


def trim(counts: ValueCounts, cap: int) -> ValueCounts:
    """Keeps the `cap` greatest values, of equals those first by name, and `""`; the rest goes to `other`."""
    values, other, slack = counts
    if len(values) <= cap:
        return counts
    ranked = sorted([count for value, count in values.items() if value != NOT_GIVEN], reverse=True)
    if len(ranked) <= cap:
        return counts
    gone = ranked[cap]
    kept = {value: count for value, count in values.items() if count > gone or value == NOT_GIVEN}
    room = cap - (len(kept) - (NOT_GIVEN in kept))
    if room:
        equals = sorted([value for value, count in values.items() if count == gone and value != NOT_GIVEN])
        kept.update(dict.fromkeys(equals[:room], gone))
    return ValueCounts(kept, other + sum(ranked[cap:]), slack + gone)


def greatest_values(values: Mapping[str, int], most: int) -> list[str]:
    """Returns the `most` values with the greatest counts, greatest first, those of equal counts by name."""
    least = min(values.values(), default=0) if len(values) <= most else sorted(values.values(), reverse=True)[most - 1]
    ranked = [(-count, value) for value, count in values.items() if count >= least]
    above = sorted([each for each in ranked if each[0] < -least])
    equals = [value for count, value in ranked if count == -least]
    return [value for _, value in above] + nsmallest(most - len(above), equals)


def sum_of_counts(ours: ValueCounts, theirs: ValueCounts) -> ValueCounts:
    """Returns the sum of two buckets, untrimmed."""
    values = dict(ours.values)
    for value, count in theirs.values.items():
        values[value] = values.get(value, 0) + count
    return ValueCounts(values, ours.other + theirs.other, ours.slack + theirs.slack)


def land(row: Breakdown, deltas: Sequence[BreakdownDelta], fold_day: int, bounded: BoundedLadder) -> Breakdown:
    """Returns the breakdown as of fold_day with the hits of some deltas, in the buckets that hold them then.

    Visitors join their day as the row has it, before it is folded. They come while their day is kept as a set, but may
    be flushed when it no longer is: after a crash, or when the store was away. Those of a day that is a number in the
    row already cannot be told from the ones that it counts: they and their hits are left out, as if they were unknown.
    Raises ValueError if a time is not the start of an hour or day, or a count is below 1.
    """
    days = row.days
    for delta in deltas:
        require_delta(delta)
        days = _with_visitors(days, delta, row.fold_day, bounded.ladder)
    row = fold_breakdown(row._replace(days=days), fold_day, bounded)
    caps = bounded.caps_of(row.shift)
    dimensions, first = dict(row.dimensions), row.first
    for delta in deltas:
        for name, hours in delta.values.items():
            if hours:
                dimensions[name] = _with_values(dimensions.get(name), hours, row.fold_day, caps, bounded.ladder)
                first = min(hours) if first is None else min(first, *hours)
    row = row._replace(first=first, dimensions=dimensions)
    return expire(row, bounded) if bounded.times else row


def require_delta(delta: BreakdownDelta) -> None:
    """Raises ValueError unless the delta's times are starts, and its counts 1 or more."""
    for name, hours in delta.values.items():
        for t, values in hours.items():
            if t % HOUR_S or not 0 <= t < END_OF_TIME or min(values.values(), default=0) < 1:
                raise ValueError(f"{name}, {t}: not counts of 1 or more at the start of an hour")
    for t in (*delta.visitors, *delta.known):
        if t % DAY_S or not 0 <= t < END_OF_TIME or delta.known.get(t, 1) < 1:
            raise ValueError(f"visitors of {t}: not the start of a UTC day, or fewer than 1 hit of theirs")


def _with_values(
    kept: Tiers | None,
    hours: Mapping[int, Mapping[str, int]],
    fold_day: int,
    caps: tuple[int, ...],
    ladder: Ladder,
) -> Tiers:
    tiers = [dict(tier) for tier in kept] if kept else [{} for _ in ladder.tiers]
    touched = set()
    for t, values in hours.items():
        index = ladder.tier_of(t, fold_day)
        start = ladder.tiers[index].start(t)
        before = tiers[index].get(start)
        more = landing(values)
        tiers[index][start] = more if before is None else sum_of_counts(before, more)
        touched.add((index, start))
    for index, start in touched:
        tiers[index][start] = trim(tiers[index][start], caps[index])
    return tuple(tiers)


def _with_visitors(
    days: Mapping[int, OpenDay], delta: BreakdownDelta, fold_day: int, ladder: Ladder
) -> Mapping[int, OpenDay]:
    joined = dict(days)
    for day, members, known in delta.days():
        if not ladder.tier_of(day, fold_day):
            joined[day] = joined.get(day, NO_DAY).with_hits(members, known)
    return joined


def _add_days(tier: dict[int, VisitorDays], start: int, more: VisitorDays) -> None:
    before = tier.get(start)
    tier[start] = more if before is None else before.with_days(more)


def fold_breakdown(row: Breakdown, fold_day: int, bounded: BoundedLadder) -> Breakdown:
    """Returns the breakdown as of fold_day, or of its own day if that is later, every sum unchanged.

    Not for a merged one: owners' rows are folded each by itself, with their own trims, and merged then.
    """
    if fold_day > row.fold_day:
        cuts = bounded.ladder.cuts(fold_day)
        caps = bounded.caps_of(row.shift)
        dimensions = {name: _folded_tiers(tiers, cuts, caps, bounded.ladder) for name, tiers in row.dimensions.items()}
        days, closed = _folded_days(row, cuts, bounded.ladder)
        row = row._replace(fold_day=fold_day, dimensions=dimensions, days=days, visitor_days=closed)
    return expire(row, bounded) if bounded.times else row


def expire(row: Breakdown, bounded: BoundedLadder) -> Breakdown:
    """Returns the breakdown without the values that are not kept on its fold day: they are `other`. Sums stay."""
    dimensions = dict(row.dimensions)
    for time in bounded.times:
        if time.dimension in dimensions:
            since = time.kept_since(row.fold_day, bounded.ladder)
            dimensions[time.dimension] = tuple([_without_values(tier, since) for tier in dimensions[time.dimension]])
    return row._replace(dimensions=dimensions)


def _without_values(tier: Mapping[int, ValueCounts], until: int) -> Mapping[int, ValueCounts]:
    if not tier or min(tier) >= until:
        return tier
    return {start: _summed(counts) if start < until else counts for start, counts in tier.items()}


def _is_summed(counts: ValueCounts) -> bool:
    return counts.slack == counts.other and not counts.values.keys() - {NOT_GIVEN}


def _summed(counts: ValueCounts) -> ValueCounts:
    """Returns the bucket with `""` as its only value.

    The slack is all of `other`: that does not depend on what was trimmed before.
    """
    not_given = counts.values.get(NOT_GIVEN, 0)
    other = counts.recorded() - not_given
    return ValueCounts({NOT_GIVEN: not_given} if not_given else {}, other, other)


def _folded_tiers(tiers: Tiers, cuts: tuple[int, ...], caps: tuple[int, ...], ladder: Ladder) -> Tiers:
    """Carries what each tier no longer holds into the next, finest first; each bucket made so is trimmed once."""
    folded: list[Mapping[int, ValueCounts]] = []
    carried: dict[int, ValueCounts] = {}
    for tier, cut, cap, counts in zip(ladder.tiers, cuts, caps, tiers, strict=True):
        if carried:
            made: dict[int, list[ValueCounts]] = {}
            for start, fine in carried.items():
                made.setdefault(tier.start(start), []).append(fine)
            counts = dict(counts)
            for start, parts in made.items():
                if start in counts:
                    parts.append(counts[start])
                counts[start] = trim(sum_of_all(parts), cap)
        carried = {start: counts[start] for start in counts if start < cut}
        folded.append({start: bucket for start, bucket in counts.items() if start >= cut} if carried else counts)
    return tuple(folded)


def sum_of_all(parts: Sequence[ValueCounts]) -> ValueCounts:
    """Returns the sum of any number of buckets, untrimmed."""
    values: dict[str, int] = dict(parts[0].values) if parts else {}
    get = values.get
    for part in parts[1:]:
        for value, count in part.values.items():
            values[value] = get(value, 0) + count
    return ValueCounts(values, sum([part.other for part in parts]), sum([part.slack for part in parts]))


def _folded_days(
    row: Breakdown, cuts: tuple[int, ...], ladder: Ladder
) -> tuple[Mapping[int, OpenDay], tuple[Mapping[int, VisitorDays], ...]]:
    carried: dict[int, VisitorDays] = {}
    for day, (visitors, known) in row.days.items():
        if day < cuts[0]:
            carried[day] = VisitorDays.of_owner(visitors.size(), visitors.exact, known)
    days = {day: visitors for day, visitors in row.days.items() if day >= cuts[0]} if carried else row.days
    folded: list[Mapping[int, VisitorDays]] = []
    for tier, cut, numbers in zip(ladder.tiers[1:], cuts[1:], row.visitor_days, strict=True):
        merged = dict(numbers)
        for start, number in carried.items():
            _add_days(merged, tier.start(start), number)
        carried = {start: number for start, number in merged.items() if start < cut}
        folded.append({start: number for start, number in merged.items() if start >= cut})
    return days, tuple(folded)


def apply_breakdown(
    row: Breakdown, delta: BreakdownDelta, mark: int, fold_day: int, erased_at: int, bounded: BoundedLadder
) -> Breakdown:
    """Returns the breakdown with flush number `mark` in it; one that has it already is returned as it is.

    A breakdown that does not know of the link's latest erasure starts again empty.
    """
    if mark <= row.mark:
        return row
    if row.erased_at < erased_at:
        row = bounded.empty._replace(fold_day=row.fold_day, erased_at=erased_at)
    return land(row, [delta], fold_day, bounded)._replace(mark=mark)


def trim_all(row: Breakdown, shift: int, bounded: BoundedLadder) -> Breakdown:
    """Returns the breakdown with its caps halved so often, and every bucket trimmed to them."""
    caps = bounded.caps_of(shift)
    dimensions = {
        name: tuple(
            {start: trim(bucket, cap) for start, bucket in tier.items()} for tier, cap in zip(tiers, caps, strict=True)
        )
        for name, tiers in row.dimensions.items()
    }
    return row._replace(shift=shift, dimensions=dimensions)


def merge_breakdowns(rows: Iterable[Breakdown], fold_day: int, bounded: BoundedLadder) -> Breakdown:
    """Returns the sum of owners' breakdowns of one link, each folded to fold_day or the greatest of theirs first.

    Never trims. Its mark is 0, and it is for reading: not to be folded, nor stored.
    """
    several = list(rows)
    day = max([fold_day, *(row.fold_day for row in several)])
    folded = [fold_breakdown(row, day, bounded) for row in several]
    dimensions: dict[str, list[dict[int, ValueCounts]]] = {}
    days: dict[int, OpenDay] = {}
    closed: list[dict[int, VisitorDays]] = [{} for _ in bounded.empty.visitor_days]
    for row in folded:
        for name, tiers in row.dimensions.items():
            ours = dimensions.setdefault(name, [{} for _ in tiers])
            for mine, theirs in zip(ours, tiers, strict=True):
                for start, bucket in theirs.items():
                    mine[start] = sum_of_counts(mine[start], bucket) if start in mine else bucket
        for day_start, visitors in row.days.items():
            days[day_start] = days.get(day_start, NO_DAY).union(visitors)
        for sums, numbers in zip(closed, row.visitor_days, strict=True):
            for start, number in numbers.items():
                sums[start] = sums[start].with_owner(number) if start in sums else number
    return Breakdown(
        day,
        0,
        max((row.erased_at for row in folded), default=0),
        min((row.first for row in folded if row.first is not None), default=None),
        max((row.shift for row in folded), default=0),
        {name: tuple(tiers) for name, tiers in dimensions.items()},
        days,
        tuple(closed),
    )


def tier_due(row: Breakdown, tier: int, bounded: BoundedLadder) -> int | None:
    """Returns the first fold day on which a bucket of this tier leaves it or loses values; None = never."""
    starts = [min(tiers[tier]) for tiers in row.dimensions.values() if tiers[tier]]
    visitors: Mapping[int, object] = row.visitor_days[tier - 1] if tier else row.days
    if visitors:
        starts.append(min(visitors))
    dues = [bounded.ladder.folds_at(tier, min(starts))] if starts else []
    for time in bounded.times:
        since = time.kept_since(row.fold_day, bounded.ladder)
        tiers = row.dimensions.get(time.dimension)
        named = [at for at, counts in tiers[tier].items() if at >= since and not _is_summed(counts)] if tiers else []
        if named:
            dues.append(time.expires_at(min(named), bounded.ladder))
    return min([due for due in dues if due is not None], default=None)
