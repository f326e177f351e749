from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.ladder import CLICKS, Ladder, fold_day
from clickcurve.buckets.row import EMPTY, Delta, Row, add, fold
from retention.plan import Fold, TierSummary, plan, summarize
from tests.buckets.given import Hit, at, hits, ladders, law, moments, row_of

NOON = at("2024-03-15T12:00")
TODAY = fold_day(NOON)
FOLDED = fold(EMPTY, TODAY, CLICKS)


def sizes(row: Row) -> Counter[tuple[int, str]]:
    """How many buckets, and how many hits, each tier holds, both series."""
    found: Counter[tuple[int, str]] = Counter()
    for name, cells in (("people", row.people_cells), ("bots", row.bot_cells)):
        for tier, (starts, counts) in enumerate(cells):
            found[tier, "buckets"] += len(starts)
            found[tier, name] += sum(counts)
    return found


def test_nothing_is_planned_for_a_row_that_is_folded_already() -> None:
    row = add(FOLDED, Delta({NOON: 1}, {}), CLICKS)
    assert plan(row, TODAY, CLICKS) == []
    assert plan(row, TODAY - 5, CLICKS) == []
    assert plan(EMPTY, TODAY, CLICKS) == []


def test_a_day_later_minutes_become_five_minutes() -> None:
    row = add(FOLDED, Delta({NOON: 1, NOON + 60: 2, NOON + 300: 4}, {NOON: 8}), CLICKS)
    assert plan(row, TODAY + 1, CLICKS) == [
        Fold("minute", "five_minute", NOON, NOON + 300, 2, 3, 1, 8),
        Fold("minute", "five_minute", NOON + 300, NOON + 600, 1, 4, 0, 0),
    ]


def test_after_a_pause_buckets_go_straight_to_the_tier_that_will_hold_them() -> None:
    row = add(FOLDED, Delta({NOON: 1, NOON - 86_400: 2, at("2024-03-01T05:00"): 4}, {}), CLICKS)
    month = at("2024-03-01"), at("2024-04-01")
    folds = plan(row, TODAY + 1_000, CLICKS)
    assert folds == [
        Fold("minute", "month", *month, 1, 1, 0, 0),
        Fold("five_minute", "month", *month, 1, 2, 0, 0),
        Fold("hour", "month", *month, 1, 4, 0, 0),
    ]
    assert summarize([folds], CLICKS) == [
        TierSummary("minute", 1, 1, 0, 0, 0, 0),
        TierSummary("five_minute", 1, 2, 0, 0, 0, 0),
        TierSummary("hour", 1, 4, 0, 0, 0, 0),
        TierSummary("day", 0, 0, 0, 0, 0, 0),
        TierSummary("week", 0, 0, 0, 0, 0, 0),
        TierSummary("month", 0, 0, 0, 1, 7, 0),
    ]


def test_a_summary_adds_the_plans_of_many_rows() -> None:
    row = add(FOLDED, Delta({NOON: 1, NOON + 60: 2}, {NOON: 8}), CLICKS)
    folds = plan(row, TODAY + 1, CLICKS)
    assert summarize([folds, [], folds], CLICKS)[:2] == [
        TierSummary("minute", 6, 6, 16, 0, 0, 0),
        TierSummary("five_minute", 0, 0, 0, 4, 6, 16),
    ]


@law
@given(hits(moments), st.just(CLICKS) | ladders(), moments, st.integers(0, 1_000))
def test_folding_does_just_what_was_planned(found: list[Hit], ladder: Ladder, now: int, days: int) -> None:
    row = row_of(found, fold_day(now), ladder)
    folds = plan(row, row.fold_day + days, ladder)
    before, after = sizes(row), sizes(fold(row, row.fold_day + days, ladder))
    for tier, tally in enumerate(summarize([folds], ladder)):
        assert after[tier, "buckets"] == before[tier, "buckets"] - tally.buckets_out + tally.buckets_in
        assert after[tier, "people"] == before[tier, "people"] - tally.people_out + tally.people_in
        assert after[tier, "bots"] == before[tier, "bots"] - tally.bots_out + tally.bots_in
    assert all(one.buckets > 0 for one in folds)
    assert bool(folds) == (before != after)


@law
@given(hits(moments), moments, st.integers(0, 1_000))
def test_a_plan_conserves_every_total(found: list[Hit], now: int, days: int) -> None:
    row = row_of(found, fold_day(now), CLICKS)
    tallies = summarize([plan(row, row.fold_day + days, CLICKS)], CLICKS)
    assert sum(tally.people_out for tally in tallies) == sum(tally.people_in for tally in tallies)
    assert sum(tally.bots_out for tally in tallies) == sum(tally.bots_in for tally in tallies)
