"""The laws of a breakdown as plain functions, so that a test can show that each notices a program that breaks it.

Each takes the program's functions (`Engine`) and what hypothesis drew, and fails by an assertion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns.breakdown import (
    BoundedLadder,
    Breakdown,
    apply_breakdown,
    fold_breakdown,
    merge_breakdowns,
    tier_due,
)
from clickcurve.buckets.breakdowns.check import check_breakdown
from clickcurve.buckets.breakdowns.parts import Parts, apply_parts, encode_parts
from tests.buckets.breakdowns.given_breakdowns import (
    Apply,
    Said,
    buckets_in,
    delta_of_said,
    flushes_of,
    lived_breakdown,
    truth_of,
)

Fold = Callable[[Breakdown, int, BoundedLadder], Breakdown]
Merge = Callable[[Iterable[Breakdown], int, BoundedLadder], Breakdown]


@dataclass(frozen=True, slots=True)
class Engine:
    """The functions under test; a mutant replaces one."""

    apply: Apply = apply_breakdown
    fold: Fold = fold_breakdown
    merge: Merge = merge_breakdowns


def noticed(broken: Callable[..., None], drawn: st.SearchStrategy[tuple[Any, ...]]) -> bool:
    """Whether hypothesis finds something for which the law fails."""

    @settings(
        max_examples=2_000,  # what is drawn depends on which modules are loaded, too: 400 missed a mutant once
        phases=[Phase.generate],
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn)
    def test(arguments: tuple[Any, ...]) -> None:
        broken(*arguments)

    try:
        test()
    except AssertionError:
        return True
    return False


def parts_are_the_total(engine: Engine, found: list[Said], days: list[int], bounded: BoundedLadder) -> None:
    row = lived_breakdown(flushes_of(found, days), bounded, engine.apply)
    for later in (0, 40):
        row = engine.fold(row, row.fold_day + later, bounded)
        recorded = {key: counts.recorded() for key, counts in buckets_in(row).items()}
        truth = truth_of(found, row.fold_day, bounded)
        assert recorded == {key: counts.total() for key, counts in truth.items()}
        assert check_breakdown(row, bounded) == []
    assert row.first == min((hit.t for hit in found), default=None)


def bounds_are_true(engine: Engine, found: list[Said], days: list[int], bounded: BoundedLadder) -> None:
    row = engine.fold(lived_breakdown(flushes_of(found, days), bounded, engine.apply), max(days) + 1, bounded)
    held = buckets_in(row)
    for key, counts in truth_of(found, row.fold_day, bounded).items():
        values, other, slack = held[key]
        assert slack <= other
        assert values.get("", 0) == counts[""]
        for value in values.keys() | counts.keys():
            assert values.get(value, 0) <= counts[value] <= values.get(value, 0) + slack
        assert len(values.keys() - {""}) <= bounded.caps[key[1]]


def any_steps_of_folding_are_the_same(
    engine: Engine, found: list[Said], days: list[int], bounded: BoundedLadder, steps: list[int]
) -> None:
    row = start = lived_breakdown(flushes_of(found, days), bounded, engine.apply)
    for step in steps:
        row = engine.fold(row, row.fold_day + step, bounded)
    assert engine.fold(start, row.fold_day, bounded) == row
    assert engine.fold(row, row.fold_day - 1, bounded) == row


def order_does_not_matter_below_the_caps(
    engine: Engine, found: list[Said], days: list[int], bounded: BoundedLadder, random: Random
) -> None:
    shuffled = found[:]
    random.shuffle(shuffled)
    day = max(days)
    rows = [
        engine.fold(lived_breakdown(flushes_of(hits, days), bounded, engine.apply), day, bounded)
        for hits in (found, shuffled)
    ]
    if all(not counts.other for row in rows for counts in buckets_in(row).values()):
        assert rows[0].dimensions == rows[1].dimensions
        assert rows[0].first == rows[1].first


def repeats_add_nothing(engine: Engine, found: list[Said], days: list[int], bounded: BoundedLadder) -> None:
    row = once = bounded.empty
    for mark, (hits, day) in enumerate(flushes_of(found, days), 1):
        delta = delta_of_said(hits)
        once = engine.apply(once, delta, mark, day, 0, bounded)
        for repeat in range(3):
            row = engine.apply(row, delta, mark, day + repeat, 0, bounded)
    assert row == once


def merge_is_a_sum_whenever_owners_folded(
    engine: Engine, owners: list[tuple[list[Said], list[int], int]], bounded: BoundedLadder, random: Random
) -> None:
    rows = [lived_breakdown(flushes_of(found, days), bounded, engine.apply) for found, days, _ in owners]
    day = max((row.fold_day for row in rows), default=0) + 20
    merged = engine.merge(rows, day, bounded)
    shuffled = rows[:]
    random.shuffle(shuffled)
    assert engine.merge(shuffled, day, bounded) == merged
    in_steps = engine.merge([engine.merge(rows[:2], day, bounded), engine.merge(rows[2:], day, bounded)], day, bounded)
    assert in_steps == merged
    before = [
        fold_breakdown(row, row.fold_day + ahead, bounded) for row, (_, _, ahead) in zip(rows, owners, strict=True)
    ]
    assert engine.merge(before, day, bounded) == merged
    everything = [hit for found, _, _ in owners for hit in found]
    held = buckets_in(merged)
    truth = truth_of(everything, day, bounded)
    assert {key: counts.recorded() for key, counts in held.items()} == {key: c.total() for key, c in truth.items()}
    for key, counts in truth.items():
        values, _, slack = held[key]
        for value in values.keys() | counts.keys():
            assert values.get(value, 0) <= counts[value] <= values.get(value, 0) + slack


def breakdown_due(row: Breakdown, bounded: BoundedLadder) -> int | None:
    """The first fold day on which folding changes one of its buckets; None = never."""
    found = [due for tier in range(len(bounded.caps)) if (due := tier_due(row, tier, bounded)) is not None]
    return min(found, default=None)


def due_is_the_first_day_that_changes(
    engine: Engine, found: list[Said], days: list[int], bounded: BoundedLadder
) -> None:
    row = lived_breakdown(flushes_of(found, days), bounded, engine.apply)
    due = breakdown_due(row, bounded)
    if due is None:
        later = engine.fold(row, row.fold_day + 2_000, bounded)
        assert later._replace(fold_day=row.fold_day) == row
        return
    assert due > row.fold_day
    day_before, then = engine.fold(row, due - 1, bounded), engine.fold(row, due, bounded)
    assert day_before._replace(fold_day=row.fold_day) == row
    assert then._replace(fold_day=row.fold_day) != row


def visitors_are_sets_then_numbers(engine: Engine, found: list[Said], days: list[int], bounded: BoundedLadder) -> None:
    """Compares with sets of Python: a visitor counts while its day is open in the row that its flush finds."""
    row = lived_breakdown(flushes_of(found, days), bounded, engine.apply)
    open_days: dict[int, set[int]] = {}
    numbers: dict[int, int] = {}
    known = 0
    today = 0
    for hits, day_of_flush in flushes_of(found, days):
        for hit in hits:
            day = hit.t // 86_400 * 86_400
            if hit.visitor is not None and day >= bounded.ladder.cuts(today)[0]:
                open_days.setdefault(day, set()).add(hit.visitor)
                known += hit.count
        today = max(today, day_of_flush)
        cut = bounded.ladder.cuts(today)[0]
        numbers |= {day: len(open_days.pop(day)) for day in [*open_days] if day < cut}
    assert {day: len(members) for day, members in open_days.items()} == {
        day: visitors.size() for day, (visitors, _) in row.days.items() if visitors.size()
    }
    closed = [number for tier in row.visitor_days for number in tier.values()]
    assert sum(number.size or 0 for number in closed) == sum(numbers.values())
    assert all(number.at_least == number.at_most == number.size and number.exact for number in closed)
    assert sum(number.known for number in closed) + sum(day.known for day in row.days.values()) == known


def the_short_way_is_the_long_one(
    engine: Engine, found: list[Said], days: list[int], bounded: BoundedLadder, erasures: list[int]
) -> None:
    """A flush of parts gives the bytes of the whole breakdown, whichever way it takes; repeated, the same object."""
    parts: Parts | None = None
    row = bounded.empty
    for mark, (hits, day) in enumerate(flushes_of(found, days, size=2), 1):
        erased_at = erasures[mark % len(erasures)]
        delta = delta_of_said(hits)
        row = engine.apply(row, delta, mark, day, erased_at, bounded)
        parts = apply_parts(parts, delta, mark, day, erased_at, bounded)
        assert parts == encode_parts(row, bounded)
        assert apply_parts(parts, delta, mark, day + 1, erased_at + 1, bounded) is parts
