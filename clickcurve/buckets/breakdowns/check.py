"""Checks a breakdown: its own laws, and that it records no more hits than its row of counts has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clickcurve.buckets.breakdowns.breakdown import NOT_GIVEN, BoundedLadder, Breakdown, ValueCounts, fold_breakdown
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME, Ladder
from clickcurve.buckets.ranges import Bots, between
from clickcurve.buckets.row import Row, fold

BOT, BOT_KIND = "bot", "bot_kind"
OF_BOTS = frozenset((BOT, BOT_KIND))  # the dimensions that divide the hits of bots; the others divide those of people
BACK = "-"  # before a dimension of a correction: hits that were called back, which its row counts as bots


def check_breakdown(row: Breakdown, bounded: BoundedLadder) -> list[str]:
    """Returns the laws that this breakdown of one owner breaks, one sentence each with the numbers; [] = none."""
    if not 0 <= row.fold_day < END_OF_TIME // DAY_S:
        return [f"fold_day is {row.fold_day}"]
    sums = {"mark": row.mark, "erased_at": row.erased_at, "shift": row.shift}
    broken = [f"{name} is {value}, below 0" for name, value in sums.items() if value < 0]
    starts: list[int] = []
    for name, tiers in row.dimensions.items():
        if len(tiers) != len(bounded.caps):
            return [*broken, f"{name} has {len(tiers)} tiers, the ladder {len(bounded.caps)}"]
        for tier, buckets in enumerate(tiers):
            broken += _broken_buckets(name, tier, buckets, row, bounded)
            starts += buckets
    return broken + _broken_visitors(row, bounded) + _broken_first(row, starts, bounded)


def _broken_buckets(
    name: str, tier: int, buckets: Mapping[int, ValueCounts], row: Breakdown, bounded: BoundedLadder
) -> list[str]:
    broken = _misplaced(name, tier, buckets, row, bounded)
    cap = bounded.caps_of(row.shift)[tier]
    for start, (values, other, slack) in buckets.items():
        where = f"{name}, {bounded.ladder.tiers[tier].name}, {start}"
        if min(values.values(), default=1) < 1:
            broken.append(f"{where}: a count of {min(values.values())}")
        if len(values.keys() - {NOT_GIVEN}) > cap:
            broken.append(f"{where}: {len(values.keys() - {NOT_GIVEN})} values, {cap} at most")
        if not 0 <= slack <= other or (other and not slack) or not (values or other):
            broken.append(f"{where}: {len(values)} values, other {other}, slack {slack}")
    return broken


def _misplaced(name: str, tier: int, starts: Iterable[int], row: Breakdown, bounded: BoundedLadder) -> list[str]:
    broken = []
    for start in starts:
        if not 0 <= start < END_OF_TIME or bounded.ladder.tier_of(start, row.fold_day) != tier:
            broken.append(f"{name}, {bounded.ladder.tiers[tier].name}: {start} is not held by this tier")
        elif bounded.ladder.tiers[tier].start(start) != start:
            broken.append(f"{name}, {bounded.ladder.tiers[tier].name}: {start} is not the start of a bucket")
    return broken


def _broken_visitors(row: Breakdown, bounded: BoundedLadder) -> list[str]:
    broken = _misplaced("visitors", 0, row.days, row, bounded)
    broken += [f"visitors of {day}: not the start of a UTC day" for day in row.days if day % DAY_S]
    for tier, numbers in enumerate(row.visitor_days, 1):
        broken += _misplaced("visitors", tier, numbers, row, bounded)
        broken += [
            f"visitors, {start}: {'several owners' if number.size is None else number.size}, {number.known} hits"
            for start, number in numbers.items()
            if number.size is None or number.size < 0 or number.known < 0
        ]
    return broken


def _broken_first(row: Breakdown, starts: list[int], bounded: BoundedLadder) -> list[str]:
    if row.first is None or not starts:
        return [] if row.first is None and not starts else [f"first hit {row.first}, but {len(starts)} buckets"]
    if bounded.ladder.kept(row.first, row.fold_day)[0] != min(starts):
        return [f"first hit {row.first} is not in the first bucket, {min(starts)}"]
    return []


def check_against_counts(breakdown: Breakdown, row: Row, bounded: BoundedLadder, ladder: Ladder) -> list[str]:
    """Returns where a breakdown records more hits than its row of counts has, at equal marks; [] = nowhere.

    Both are folded to the later of their days. Where a bucket of counts reaches over an edge between two buckets of the
    breakdown, because the ladder of counts is the coarser there, those two are compared together.
    """
    day = max(breakdown.fold_day, row.fold_day)
    breakdown, row = fold_breakdown(breakdown, day, bounded), fold(row, day, ladder)
    broken = []
    for name, tiers in breakdown.dimensions.items():
        series = Bots.only if name in OF_BOTS or name.startswith(BACK) else Bots.exclude
        for (start, end), recorded in _recorded_between_edges(tiers, day, bounded, ladder).items():
            counted = sum(between(row, (start, end), series))
            if recorded > counted:
                broken.append(f"{name} records {recorded} hits in [{start}, {end}), the row of counts has {counted}")
    return broken


def _recorded_between_edges(
    tiers: tuple[Mapping[int, ValueCounts], ...], day: int, bounded: BoundedLadder, ladder: Ladder
) -> dict[tuple[int, int], int]:
    """Sums what is recorded between edges of both ladders: [start, end) -> hits."""
    recorded: dict[tuple[int, int], int] = {}
    for tier, buckets in enumerate(tiers):
        for start, counts in buckets.items():
            span = common_span(*bounded.ladder.bucket(tier, start), day, bounded.ladder, ladder)
            recorded[span] = recorded.get(span, 0) + counts.recorded()
    return recorded


def common_span(start: int, end: int, day: int, *ladders: Ladder) -> tuple[int, int]:
    """Returns the shortest span around [start, end) that begins and ends on edges of all ladders' kept buckets."""
    while True:
        first = min(ladder.kept(start, day)[0] for ladder in ladders)
        last = max(ladder.kept(end - 1, day)[1] for ladder in ladders)
        if (first, last) == (start, end):
            return start, end
        start, end = first, last
