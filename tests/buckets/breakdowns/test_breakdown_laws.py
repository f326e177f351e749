"""The laws of a breakdown, as properties, against a plain list of raw hits; and that each law notices its mutant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns.breakdown import (
    BREAKDOWN,
    BoundedLadder,
    Breakdown,
    BreakdownDelta,
    ValueCounts,
    apply_breakdown,
    fold_breakdown,
    land,
    merge_breakdowns,
    trim,
)
from tests.buckets.breakdowns import laws
from tests.buckets.breakdowns.given_breakdowns import NARROW, Said, any_bounded, owners_saids, saids
from tests.buckets.breakdowns.laws import Engine
from tests.buckets.given import law
from tests.power import one_in

History = tuple[list[Said], list[int]]
OURS = Engine()
owners = owners_saids()
steps = st.lists(st.integers(1, 200), max_size=6)
randoms = st.randoms(use_true_random=False)


@law
@given(saids(), any_bounded)
def test_values_and_other_are_the_hits_recorded(history: History, bounded: BoundedLadder) -> None:
    laws.parts_are_the_total(OURS, *history, bounded)


@law
@given(saids(), any_bounded)
def test_each_value_lies_in_its_bounds(history: History, bounded: BoundedLadder) -> None:
    laws.bounds_are_true(OURS, *history, bounded)


@law
@given(saids(), any_bounded, steps)
def test_any_steps_of_folding_give_the_same_breakdown(
    history: History, bounded: BoundedLadder, days: list[int]
) -> None:
    laws.any_steps_of_folding_are_the_same(OURS, *history, bounded, days)


@law
@given(saids(), any_bounded, randoms)
def test_the_order_of_hits_does_not_matter_below_the_caps(
    history: History, bounded: BoundedLadder, random: Random
) -> None:
    laws.order_does_not_matter_below_the_caps(OURS, *history, bounded, random)


@law
@given(saids(), any_bounded)
def test_a_flush_that_is_repeated_adds_nothing(history: History, bounded: BoundedLadder) -> None:
    laws.repeats_add_nothing(OURS, *history, bounded)


@law
@given(owners, any_bounded, randoms)
def test_a_merge_of_owners_is_a_sum_whenever_they_folded(
    parts: list[tuple[list[Said], list[int], int]], bounded: BoundedLadder, random: Random
) -> None:
    laws.merge_is_a_sum_whenever_owners_folded(OURS, parts, bounded, random)


@law
@given(saids(), any_bounded)
def test_next_due_is_the_first_fold_day_that_changes_a_bucket(history: History, bounded: BoundedLadder) -> None:
    laws.due_is_the_first_day_that_changes(OURS, *history, bounded)


@law
@given(saids(), any_bounded)
def test_visitors_of_a_day_are_a_set_then_a_number(history: History, bounded: BoundedLadder) -> None:
    laws.visitors_are_sets_then_numbers(OURS, *history, bounded)


# --- each law notices a program without one of the rules ------------------------------------------------------------
def per_bucket(row: Breakdown, change: Callable[[ValueCounts], ValueCounts]) -> Breakdown:
    return row._replace(
        dimensions={
            name: tuple({start: change(counts) for start, counts in tier.items()} for tier in tiers)
            for name, tiers in row.dimensions.items()
        }
    )


def apply_then(change: Callable[[ValueCounts], ValueCounts]) -> Engine:
    """The program with each bucket changed after each flush."""

    def apply(
        row: Breakdown, delta: BreakdownDelta, mark: int, day: int, erased_at: int, bounded: BoundedLadder
    ) -> Breakdown:
        return per_bucket(apply_breakdown(row, delta, mark, day, erased_at, bounded), change)

    return Engine(apply=apply)


def without_mark(
    row: Breakdown, delta: BreakdownDelta, mark: int, day: int, erased_at: int, bounded: BoundedLadder
) -> Breakdown:
    return land(row, [delta], day, bounded)._replace(mark=mark)


def landed_in_the_finest_tier(
    row: Breakdown, delta: BreakdownDelta, mark: int, day: int, erased_at: int, bounded: BoundedLadder
) -> Breakdown:
    if mark <= row.mark:
        return row
    folded = fold_breakdown(row, day, bounded)
    return land(folded._replace(fold_day=0), [delta], 0, bounded)._replace(mark=mark, fold_day=folded.fold_day)


def fold_without_trim(row: Breakdown, day: int, bounded: BoundedLadder) -> Breakdown:
    return fold_breakdown(row, day, BoundedLadder(bounded.ladder, (1_000,) * len(bounded.caps)))


def fold_that_trims_all(row: Breakdown, day: int, bounded: BoundedLadder) -> Breakdown:
    """Trims the last tier's bucket again at each step, as if the parts came one by one."""
    if day <= row.fold_day:
        return row
    return per_bucket(fold_breakdown(row, day, bounded), lambda counts: trim(counts, max(0, len(counts.values) - 2)))


def fold_to_yesterday(row: Breakdown, day: int, bounded: BoundedLadder) -> Breakdown:
    return fold_breakdown(row, day - 1, bounded)._replace(fold_day=max(day, row.fold_day))


def merge_then_fold(rows: Iterable[Breakdown], day: int, bounded: BoundedLadder) -> Breakdown:
    several = list(rows)
    met = max((row.fold_day for row in several), default=0)
    return fold_breakdown(merge_breakdowns(several, met, bounded), day, bounded)


def merge_that_trims(rows: Iterable[Breakdown], day: int, bounded: BoundedLadder) -> Breakdown:
    return per_bucket(merge_breakdowns(rows, day, bounded), lambda counts: trim(counts, 2))


def merge_of_the_first(rows: Iterable[Breakdown], day: int, bounded: BoundedLadder) -> Breakdown:
    return merge_breakdowns(list(rows)[:1], day, bounded)


def forgets_other(counts: ValueCounts) -> ValueCounts:
    return counts._replace(other=0, slack=0)


def forgets_slack(counts: ValueCounts) -> ValueCounts:
    return counts._replace(slack=min(1, counts.slack))


def trims_not_given(counts: ValueCounts) -> ValueCounts:
    if "" not in counts.values:
        return counts
    gone = counts.values[""]
    rest = {value: count for value, count in counts.values.items() if value}
    return ValueCounts(rest, counts.other + gone, counts.slack + gone)


def visitors_again(row: Breakdown, day: int, bounded: BoundedLadder) -> Breakdown:
    """Folds, but adds each closing day's set twice."""
    folded = fold_breakdown(row, day, bounded)
    if folded.days == row.days:
        return folded
    twice = tuple({start: n.with_days(n) for start, n in tier.items()} for tier in folded.visitor_days)
    return folded._replace(visitor_days=twice)


def visitors_twice(
    row: Breakdown, delta: BreakdownDelta, mark: int, day: int, erased_at: int, bounded: BoundedLadder
) -> Breakdown:
    return visitors_again(apply_breakdown(row, delta, mark, row.fold_day, erased_at, bounded), day, bounded)


def first_four_values(counts: ValueCounts) -> ValueCounts:
    """Keeps those that came first, whatever their counts, and takes the others for none."""
    return counts._replace(values=dict(list(counts.values.items())[:4]))


one = saids().map(lambda history: (*history, NARROW))
one_and_steps = st.tuples(one, steps).map(lambda drawn: (*drawn[0], drawn[1]))
one_and_random = st.tuples(saids().map(lambda history: (*history, BREAKDOWN)), randoms).map(
    lambda drawn: (*drawn[0], drawn[1])
)
several = st.tuples(owners, st.just(NARROW), randoms)
MUTANTS: list[tuple[Callable[..., None], Engine, st.SearchStrategy[tuple[object, ...]]]] = [
    (laws.parts_are_the_total, apply_then(forgets_other), one),
    (laws.parts_are_the_total, Engine(apply=landed_in_the_finest_tier), one),
    (laws.bounds_are_true, apply_then(forgets_slack), one),
    (laws.bounds_are_true, apply_then(trims_not_given), one),
    (laws.bounds_are_true, Engine(fold=fold_without_trim), one),
    (laws.any_steps_of_folding_are_the_same, Engine(fold=fold_that_trims_all), one_and_steps),
    (laws.order_does_not_matter_below_the_caps, apply_then(first_four_values), one_and_random),
    (laws.repeats_add_nothing, Engine(apply=without_mark), one),
    (laws.merge_is_a_sum_whenever_owners_folded, Engine(merge=merge_then_fold), several),
    (laws.merge_is_a_sum_whenever_owners_folded, Engine(merge=merge_that_trims), several),
    (laws.merge_is_a_sum_whenever_owners_folded, Engine(merge=merge_of_the_first), several),
    (laws.due_is_the_first_day_that_changes, Engine(fold=fold_to_yesterday), one),
    (laws.visitors_are_sets_then_numbers, Engine(apply=visitors_twice), one),
]


@pytest.mark.parametrize("mutant", one_in(3, range(len(MUTANTS))))
def test_the_law_notices_its_mutant(mutant: int) -> None:
    broken, engine, drawn = MUTANTS[mutant]
    assert laws.noticed(lambda *arguments: broken(engine, *arguments), drawn)
