"""What the property tests of breakdowns are given: hits that say something, bounded ladders; and the truth of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hypothesis import strategies as st

from clickcurve.buckets.breakdowns.breakdown import (
    BREAKDOWN,
    BoundedLadder,
    Breakdown,
    BreakdownDelta,
    ValueCounts,
    apply_breakdown,
)
from clickcurve.buckets.breakdowns.kept_time import KeptTime
from clickcurve.buckets.ladder import DAY_S, HOUR_S, Ladder, fold_day
from tests.buckets.given import moments

DIMENSIONS = ("country", "ref", "tag.shop")
NARROW = BoundedLadder(BREAKDOWN.ladder, (3, 3, 2, 2))
LADDERS = [
    NARROW,
    BoundedLadder(BREAKDOWN.ladder, (2, 4, 1, 3)),
    BoundedLadder(Ladder.parse("7200:1,86400:9,week:40,month"), (3, 2, 2, 1)),
    BoundedLadder(Ladder.parse("3600:3,month"), (2, 2)),
    BoundedLadder(Ladder.parse("86400:4,604800:20,6048000"), (2, 3, 2)),
    BoundedLadder(BREAKDOWN.ladder, (3, 3, 2, 2), (KeptTime("ref", 2), KeptTime("country", 90))),
    BoundedLadder(BREAKDOWN.ladder, BREAKDOWN.caps, (KeptTime("ref", 33), KeptTime("tag.shop", 400))),
    BoundedLadder(Ladder.parse("3600:3,month"), (2, 2), (KeptTime("ref", 3), KeptTime("country", 4))),
]
any_bounded = st.sampled_from([BREAKDOWN, *LADDERS])


@dataclass(frozen=True, slots=True)
class Said:
    """A recorded hit: the start of its hour, what it says, its visitor if it says one."""

    t: int
    values: tuple[tuple[str, str], ...]
    count: int
    visitor: int | None


values = st.sampled_from(["", "", "DE", "US", "a.example", "b.example", "ä", "zz", "x" * 99])


def said(around: st.SearchStrategy[int]) -> st.SearchStrategy[list[Said]]:
    """Hits at `around` and up to two years before: several in one bucket, most not."""
    ago = st.one_of(st.integers(0, 3), st.integers(0, 60), st.integers(0, 800 * 24))
    one = st.builds(
        lambda t, hours, said_, count, visitor: Said(
            max(0, t // HOUR_S - hours) * HOUR_S, tuple(zip(DIMENSIONS, said_, strict=True)), count, visitor
        ),
        around,
        ago,
        st.tuples(*[values for _ in DIMENSIONS]),
        st.one_of(st.just(1), st.integers(1, 300), st.integers(1, 10**12)),
        st.one_of(st.none(), st.integers(0, 5), st.integers(0, 2**40 - 1)),
    )
    return st.lists(one, max_size=40)


@st.composite
def saids(draw: st.DrawFn) -> tuple[list[Said], list[int]]:
    """Hits around one moment, and the fold days at which flushes find them: forwards, backwards, a year's jump."""
    moment = draw(moments)
    found = draw(said(st.just(moment)))
    steps = st.one_of(st.integers(-2, 2), st.integers(-2, 40), st.integers(-400, 800))
    today = fold_day(moment)
    return found, [max(0, today + step) for step in draw(st.lists(steps, min_size=1, max_size=6))]


@st.composite
def owners_saids(draw: st.DrawFn) -> list[tuple[list[Said], list[int], int]]:
    """One link's hits as several owners took them; each with its fold days, and how far its row is folded ahead."""
    found, days = draw(saids())
    count = draw(st.integers(1, 4))
    ahead = st.integers(0, 15)
    return [(found[owner::count], days[owner % len(days) :], draw(ahead)) for owner in range(count)]


def delta_of_said(found: Iterable[Said]) -> BreakdownDelta:
    """The hits as a flush hands them over."""
    counts: dict[str, dict[int, dict[str, int]]] = {}
    visitors: dict[int, set[int]] = {}
    known: dict[int, int] = {}
    for hit in found:
        for name, value in hit.values:
            of_hour = counts.setdefault(name, {}).setdefault(hit.t, {})
            of_hour[value] = of_hour.get(value, 0) + hit.count
        day = hit.t // DAY_S * DAY_S
        if hit.visitor is not None:
            visitors.setdefault(day, set()).add(hit.visitor)
            known[day] = known.get(day, 0) + hit.count
    return BreakdownDelta(counts, visitors, known)


Apply = Callable[[Breakdown, BreakdownDelta, int, int, int, BoundedLadder], Breakdown]


def flushes_of(found: list[Said], days: list[int], size: int = 3) -> list[tuple[list[Said], int]]:
    """The hits in flushes of `size`, each with the fold day at which it is written."""
    return [(found[i : i + size], days[i // size % len(days)]) for i in range(0, len(found), size)]


def lived_breakdown(
    flushes: list[tuple[list[Said], int]], bounded: BoundedLadder, apply: Apply = apply_breakdown
) -> Breakdown:
    """The flushes one after the other, each written once."""
    row = bounded.empty
    for mark, (found, day) in enumerate(flushes, 1):
        row = apply(row, delta_of_said(found), mark, day, 0, bounded)
    return row


def truth_of(found: Iterable[Said], day: int, bounded: BoundedLadder) -> dict[tuple[str, int, int], Counter[str]]:
    """(dimension, tier, bucket start) -> value -> count: what a list of raw hits says on a fold day."""
    truth: dict[tuple[str, int, int], Counter[str]] = {}
    for hit in found:
        tier = bounded.ladder.tier_of(hit.t, day)
        start = bounded.ladder.tiers[tier].start(hit.t)
        for name, value in hit.values:
            truth.setdefault((name, tier, start), Counter())[value] += hit.count
    return truth


def buckets_in(row: Breakdown) -> dict[tuple[str, int, int], ValueCounts]:
    """(dimension, tier, bucket start) -> its counts."""
    return {
        (name, tier, start): counts
        for name, tiers in row.dimensions.items()
        for tier, of_tier in enumerate(tiers)
        for start, counts in of_tier.items()
    }
