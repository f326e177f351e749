"""Values that are kept for a time: an answer depends on the hits and on now, never on the days on which a pass ran."""

from __future__ import annotations

from collections import Counter
from random import Random
from types import ModuleType
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns import breakdown as product
from clickcurve.buckets.breakdowns import kept_time
from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, NOT_GIVEN, BoundedLadder, Breakdown, ValueCounts
from clickcurve.buckets.breakdowns.check import check_breakdown
from clickcurve.buckets.breakdowns.kept_time import KeptTime
from clickcurve.buckets.breakdowns.parts import apply_parts, decode_parts, parts_due
from clickcurve.buckets.ladder import DAY_S, HOUR_S, Ladder, fold_day
from tests.buckets.breakdowns.planted import planted
from tests.power import one_in

DIMENSIONS = ("ref", "country")
VALUES = ("", "a", "b", "c", "d", "e", "f")
DAYS = (2, 3, 7, 31, 32, 33, 34, 39, 90, 398, 399, 400, 430, 700)
CAPS = ((3, 3, 2, 2), BREAKDOWN.caps)


class Raw(NamedTuple):
    hour: int
    said: tuple[str, str]
    hits: int


class World:
    """Raw hits, and rows of several owners in which they landed; each row twice, with passes and without."""

    def __init__(self, rng: Random, engine: ModuleType) -> None:
        self.rng, self.engine = rng, engine
        self.kept = KeptTime("ref", rng.choice(DAYS))
        self.bounded = engine.BoundedLadder(BREAKDOWN.ladder, rng.choice(CAPS), (self.kept,))
        self.now = 1_700_000_000 + rng.randrange(900 * DAY_S)
        self.hits: list[Raw] = []
        self.visited = [self.bounded.empty for _ in range(rng.randrange(1, 4))]
        self.left = list(self.visited)  # nothing but flushes folds these
        self.dead = 0
        self.mark = 0

    def flush(self) -> None:
        values: dict[str, dict[int, Counter[str]]] = {name: {} for name in DIMENSIONS}
        for _ in range(self.rng.randrange(1, 9)):
            ago = self.rng.choice((0, 3 * HOUR_S, 2 * DAY_S, 500 * DAY_S))
            t = self.now - self.rng.randrange(ago + HOUR_S)
            if self.rng.random() < 0.5:
                t = self.now - self.rng.randrange(max(0, self.kept.days - 9), self.kept.days + 40) * DAY_S
            hit = Raw(t - t % HOUR_S, (self.rng.choice(VALUES), self.rng.choice(VALUES)), self.rng.choice((1, 1, 2, 9)))
            self.hits.append(hit)
            for name, value in zip(DIMENSIONS, hit.said, strict=True):
                values[name].setdefault(hit.hour, Counter())[value] += hit.hits
        self.mark += 1
        owner = self.rng.randrange(self.dead, len(self.visited))
        delta = self.engine.BreakdownDelta(values)
        for rows in (self.visited, self.left):
            for _ in range(self.rng.choice((1, 1, 2))):  # now and then a flush is written twice
                rows[owner] = self.engine.apply_breakdown(
                    rows[owner], delta, self.mark, fold_day(self.now), 0, self.bounded
                )

    def live(self) -> None:
        """Lets hours or years pass, with a pass on some days on the way."""
        for _ in range(self.rng.randrange(1, 12)):
            days = self.rng.choice((0, 1, 1, 1, 1, 2, 3, 6, 20, 120, 500))
            self.now += self.rng.choice((HOUR_S, days * DAY_S))
            owner = self.rng.randrange(self.dead, len(self.visited))
            self.visited[owner] = self.engine.fold_breakdown(self.visited[owner], fold_day(self.now), self.bounded)
        if self.rng.random() < 0.2:
            self.dead = min(self.dead + 1, len(self.visited) - 1)

    def read(self, rows: list[Breakdown]) -> Breakdown:
        merged: Breakdown = self.engine.merge_breakdowns(rows, fold_day(self.now), self.bounded)
        return merged


def buckets_of(row: Breakdown, name: str) -> dict[int, ValueCounts]:
    return {at: counts for tier in row.dimensions.get(name, ()) for at, counts in tier.items()}


def hold_laws(world: World) -> None:
    day = fold_day(world.now)
    row, other = world.read(world.visited), world.read(world.left)
    since = world.bounded.kept_since("ref", day)
    assert BREAKDOWN.ladder.kept(since, day)[0] == since, "a bucket lies on both sides"
    oldest = (day + 1 - world.kept.days) * DAY_S
    earliest = oldest if world.kept.days <= 33 else oldest - (6 if world.kept.days <= 399 else 30) * DAY_S
    assert earliest <= since <= oldest, "kept for another time"
    for rows in (world.visited, world.left):
        for each in rows:
            assert not check_breakdown(each, world.bounded)
            kept = world.bounded.kept_since("ref", each.fold_day)
            old = [counts for at, counts in buckets_of(each, "ref").items() if at < kept]
            assert not any(counts.values.keys() - {NOT_GIVEN} for counts in old), "the row has old values still"
    truth: dict[tuple[str, int], Counter[str]] = {}
    for hit in world.hits:
        for name, value in zip(DIMENSIONS, hit.said, strict=True):
            truth.setdefault((name, BREAKDOWN.ladder.kept(hit.hour, day)[0]), Counter())[value] += hit.hits
    for read in (row, other):
        held = {(name, at): counts for name in DIMENSIONS for at, counts in buckets_of(read, name).items()}
        assert {at: counts.recorded() for at, counts in held.items()} == {at: c.total() for at, c in truth.items()}
        for (name, at), true in truth.items():
            counts = held[name, at]
            if name == "ref" and at < since:
                not_given = true[NOT_GIVEN]
                rest = true.total() - not_given
                assert counts == ValueCounts({NOT_GIVEN: not_given} if not_given else {}, rest, rest), "raw hits"
            for value in {*true, *counts.values}:
                at_least = counts.values.get(value, 0)
                assert at_least <= true[value] <= at_least + (0 if value == NOT_GIVEN else counts.slack), "bounds"
            if world.bounded.caps == BREAKDOWN.caps and (name != "ref" or at >= since):
                assert counts == ValueCounts(dict(true)), "nothing is trimmed, and all is kept"


def history(seed: int, engine: ModuleType = product) -> None:
    rng = Random(seed)
    world = World(rng, engine)
    for _ in range(rng.randrange(2, 9)):
        world.flush()
        hold_laws(world)
        world.live()
        hold_laws(world)


@given(st.integers(0, 2**64 - 1))
def test_an_answer_depends_on_hits_and_now_and_not_on_passes(seed: int) -> None:
    history(seed)


PLANTED = {
    "the slack as it was": ("return ValueCounts({NOT_GIVEN: not_given} if not_given else {}, other, other)",
                            "return ValueCounts({NOT_GIVEN: not_given} if not_given else {}, other, counts.slack)"),
    "buckets are dropped": ("{start: _summed(counts) if start < until else counts for start, counts in tier.items()}",
                            "{start: counts for start, counts in tier.items() if start >= until}"),
    "hits without a value are other": ("not_given = counts.values.get(NOT_GIVEN, 0)", "not_given = 0"),
    "hits that land late are kept": ("    return expire(row, bounded) if bounded.times else row\n\n\ndef require_delta",
                                     "    return row\n\n\ndef require_delta"),
    "a read expires nothing": ("    return expire(row, bounded) if bounded.times else row\n\n\ndef expire",
                               "    return row\n\n\ndef expire"),
    "other dimensions too": (
        "        if time.dimension in dimensions:\n            since",
        "        for name in dimensions:\n            time = time._replace(dimension=name)\n            since",
    ),
    "one bucket too many": ("_summed(counts) if start < until", "_summed(counts) if start <= until"),
}  # fmt: skip
PLANTED_TIMES = {
    "the edge of today's bucket": (
        "return ladder.tier_of_age(self.days).start(max(0, fold_day + 1 - self.days) * DAY_S)",
        "return ladder.kept(max(0, fold_day + 1 - self.days) * DAY_S, fold_day)[0]",
    ),
    "to the day": (
        "ladder.tier_of_age(self.days).start(max(0, fold_day + 1 - self.days) * DAY_S)",
        "max(0, fold_day + 1 - self.days) * DAY_S",
    ),
    "a day too long": ("fold_day + 1 - self.days", "fold_day - self.days"),
}


def found(engine: ModuleType) -> bool:
    for seed in range(3_000):
        try:
            history(seed, engine)
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize(("right", "wrong"), one_in(3, PLANTED.values()), ids=PLANTED)
def test_the_laws_find_a_planted_fault(right: str, wrong: str) -> None:
    assert found(planted(product, right, wrong))


@pytest.mark.parametrize(("right", "wrong"), one_in(3, PLANTED_TIMES.values()), ids=PLANTED_TIMES)
def test_the_laws_find_a_fault_in_the_time(monkeypatch: pytest.MonkeyPatch, right: str, wrong: str) -> None:
    faulty = planted(kept_time, right, wrong)
    monkeypatch.setattr(KeptTime, "kept_since", faulty.KeptTime.kept_since)
    assert found(product)


def test_a_breakdown_is_due_on_the_day_on_which_values_expire() -> None:
    kept = KeptTime("ref", 40)
    bounded = BoundedLadder(BREAKDOWN.ladder, BREAKDOWN.caps, (kept,))
    day = 20_000
    hour = (day - 20) * DAY_S
    delta = product.BreakdownDelta({"ref": {hour: {"a": 3, "": 1}}})
    parts = apply_parts(None, delta, 1, day, 0, bounded)
    nothing = product.BreakdownDelta({})
    mark = 1
    while "a" in {value for counts in buckets_of(decode_parts(parts), "ref").values() for value in counts.values}:
        due = parts_due(parts, bounded)
        assert due is not None
        day, mark = due, mark + 1
        parts = apply_parts(parts, nothing, mark, day, 0, bounded)
    (bucket,) = buckets_of(decode_parts(parts), "ref").values()
    assert bucket == ValueCounts({"": 1}, 3, 3)
    assert kept.kept_since(day - 1, bounded.ladder) <= hour < kept.kept_since(day, bounded.ladder)


def test_a_shorter_time_takes_effect_where_a_row_is_made_anew() -> None:
    day, shorter = 20_000, BoundedLadder(BREAKDOWN.ladder, BREAKDOWN.caps, (KeptTime("ref", 10),))
    old, new = (day - 25) * DAY_S, day * DAY_S
    nothing = product.BreakdownDelta({})
    parts = apply_parts(None, product.BreakdownDelta({"ref": {old: {"a": 3}, new: {"b": 1}}}), 1, day, 0, BREAKDOWN)
    named = apply_parts(parts, nothing, 2, day, 0, shorter)
    assert named.closed is parts.closed, "the closed part is not read"
    anew = apply_parts(parts, nothing, 2, day, 0, shorter, whole=True)
    assert buckets_of(decode_parts(anew), "ref") == {
        BREAKDOWN.ladder.kept(old, day)[0]: ValueCounts({}, 3, 3),
        new: ValueCounts({"b": 1}),
    }


def test_a_longer_time_keeps_what_is_left() -> None:
    day = 20_000
    row = product.land(
        BREAKDOWN.empty, [product.BreakdownDelta({"ref": {(day - 50) * DAY_S: {"a": 3}}})], day, BREAKDOWN
    )
    times = [BoundedLadder(BREAKDOWN.ladder, BREAKDOWN.caps, (KeptTime("ref", days),)) for days in (10, 400)]
    for bounded in times:
        row = product.fold_breakdown(row, day, bounded)
    assert [*buckets_of(row, "ref").values()] == [ValueCounts({}, 3, 3)]


def test_hours_are_kept() -> None:
    with pytest.raises(ValueError, match="ref=1d: values are kept for 2 days or more"):
        BoundedLadder(BREAKDOWN.ladder, BREAKDOWN.caps, (KeptTime("ref", 1),))
    with pytest.raises(ValueError, match="3 days or more"):
        BoundedLadder(Ladder.parse("3600:3,month"), (1, 1), (KeptTime("ref", 2),))
