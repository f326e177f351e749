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


def parts_are_the_total(engine: Engine, found: list[Said], days: list[int], capped: BoundedLadder) -> None:
    row = lived_breakdown(flushes_of(found, days), capped, engine.apply)
    for later in (0, 40):
        row = engine.fold(row, row.fold_day + later, capped)
        recorded = {key: counts.recorded() for key, counts in buckets_in(row).items()}
        truth = truth_of(found, row.fold_day, capped)
        assert recorded == {key: counts.total() for key, counts in truth.items()}
        assert check_breakdown(row, capped) == []
    assert row.first == min((hit.t for hit in found), default=None)


def bounds_are_true(engine: Engine, found: list[Said], days: list[int], capped: BoundedLadder) -> None:
    row = engine.fold(lived_breakdown(flushes_of(found, days), capped, engine.apply), max(days) + 1, capped)
    held = buckets_in(row)
    for key, counts in truth_of(found, row.fold_day, capped).items():
        values, other, slack = held[key]
        assert slack <= other
        assert values.get("", 0) == counts[""]
        for value in values.keys() | counts.keys():
            assert values.get(value, 0) <= counts[value] <= values.get(value, 0) + slack
        assert len(values.keys() - {""}) <= capped.caps[key[1]]


def any_steps_of_folding_are_the_same(
    engine: Engine, found: list[Said], days: list[int], capped: BoundedLadder, steps: list[int]
) -> None:
    row = start = lived_breakdown(flushes_of(found, days), capped, engine.apply)
    for step in steps:
        row = engine.fold(row, row.fold_day + step, capped)
    assert engine.fold(start, row.fold_day, capped) == row
    assert engine.fold(row, row.fold_day - 1, capped) == row


def order_does_not_matter_below_the_caps(
    engine: Engine, found: list[Said], days: list[int], capped: BoundedLadder, random: Random
) -> None:
    shuffled = found[:]
    random.shuffle(shuffled)
    day = max(days)
    rows = [
        engine.fold(lived_breakdown(flushes_of(hits, days), capped, engine.apply), day, capped)
        for hits in (found, shuffled)
    ]
    if all(not counts.other for row in rows for counts in buckets_in(row).values()):
        assert rows[0].dimensions == rows[1].dimensions
        assert rows[0].first == rows[1].first


def repeats_add_nothing(engine: Engine, found: list[Said], days: list[int], capped: BoundedLadder) -> None:
    row = once = capped.empty
    for mark, (hits, day) in enumerate(flushes_of(found, days), 1):
        delta = delta_of_said(hits)
        once = engine.apply(once, delta, mark, day, 0, capped)
        for repeat in range(3):
            row = engine.apply(row, delta, mark, day + repeat, 0, capped)
    assert row == once


def merge_is_a_sum_whenever_owners_folded(
    engine: Engine, owners: list[tuple[list[Said], list[int], int]], capped: BoundedLadder, random: Random
) -> None:
    rows = [lived_breakdown(flushes_of(found, days), capped, engine.apply) for found, days, _ in owners]
    day = max((row.fold_day for row in rows), default=0) + 20
    merged = engine.merge(rows, day, capped)
    shuffled = rows[:]
    random.shuffle(shuffled)
    assert engine.merge(shuffled, day, capped) == merged
    in_steps = engine.merge([engine.merge(rows[:2], day, capped), engine.merge(rows[2:], day, capped)], day, capped)
    assert in_steps == merged
    before = [
        fold_breakdown(row, row.fold_day + ahead, capped) for row, (_, _, ahead) in zip(rows, owners, strict=True)
    ]
    assert engine.merge(before, day, capped) == merged
    everything = [hit for found, _, _ in owners for hit in found]
    held = buckets_in(merged)
    truth = truth_of(everything, day, capped)
    assert {key: counts.recorded() for key, counts in held.items()} == {key: c.total() for key, c in truth.items()}
    for key, counts in truth.items():
        values, _, slack = held[key]
        for value in values.keys() | counts.keys():
            assert values.get(value, 0) <= counts[value] <= values.get(value, 0) + slack


def breakdown_due(row: Breakdown, capped: BoundedLadder) -> int | None:
    """The first fold day on which folding changes one of its buckets; None = never."""
    found = [due for tier in range(len(capped.caps)) if (due := tier_due(row, tier, capped)) is not None]
    return min(found, default=None)


def due_is_the_first_day_that_changes(
    engine: Engine, found: list[Said], days: list[int], capped: BoundedLadder
) -> None:
    row = lived_breakdown(flushes_of(found, days), capped, engine.apply)
    due = breakdown_due(row, capped)
    if due is None:
        later = engine.fold(row, row.fold_day + 2_000, capped)
        assert later._replace(fold_day=row.fold_day) == row
        return
    assert due > row.fold_day
    day_before, then = engine.fold(row, due - 1, capped), engine.fold(row, due, capped)
    assert day_before._replace(fold_day=row.fold_day) == row
    assert then._replace(fold_day=row.fold_day) != row


def visitors_are_sets_then_numbers(engine: Engine, found: list[Said], days: list[int], capped: BoundedLadder) -> None:
    """Compares with sets of Python: of hits in time, and of those whose day was closed when they came."""
    row = lived_breakdown(flushes_of(found, days), capped, engine.apply)
    open_days: dict[int, set[int]] = {}
    numbers: dict[int, int] = {}
    known = 0
    today = 0
    for hits, day_of_flush in flushes_of(found, days):
        today = max(today, day_of_flush)
        cut = capped.ladder.cuts(today)[0]
        numbers |= {day: len(open_days.pop(day)) for day in [*open_days] if day < cut}
        for hit in hits:
            day = hit.t // 86_400 * 86_400
            if hit.visitor is not None and day >= cut:
                open_days.setdefault(day, set()).add(hit.visitor)
                known += hit.count
    assert {day: len(members) for day, members in open_days.items()} == {
        day: visitors.size() for day, (visitors, _) in row.days.items() if visitors.size()
    }
    closed = [number for tier in row.visitor_days for number in tier.values()]
    assert sum(number.at_most for number in closed) == sum(numbers.values())
    assert all(number.at_least == number.at_most and number.exact for number in closed)
    assert sum(number.known for number in closed) + sum(day.known for day in row.days.values()) == known


def the_short_way_is_the_long_one(
    engine: Engine, found: list[Said], days: list[int], capped: BoundedLadder, erasures: list[int]
) -> None:
    """A flush of parts gives the bytes of the whole breakdown, whichever way it takes; repeated, the same object."""
    parts: Parts | None = None
    row = capped.empty
    for mark, (hits, day) in enumerate(flushes_of(found, days, size=2), 1):
        erased_at = erasures[mark % len(erasures)]
        delta = delta_of_said(hits)
        row = engine.apply(row, delta, mark, day, erased_at, capped)
        parts = apply_parts(parts, delta, mark, day, erased_at, capped)
        assert parts == encode_parts(row, capped)
        assert apply_parts(parts, delta, mark, day + 1, erased_at + 1, capped) is parts
