"""Cutoffs: what passes them, what they say of the rest, and how they rise."""

from __future__ import annotations

import random

import pytest

from clickcurve.buckets.candidates import BEFORE, DAYS, NOBODY, Cutoffs, ranks_before, together
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.row import EMPTY
from clickcurve.buckets.upper_bounds import MOST, PEOPLE, WINDOWS, UpperBounds, most_since, upper_bounds_of
from tests.buckets.given import Hit, row_of

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
TODAY = NOW // DAY_S


def some_upper_bounds(drawn: random.Random) -> UpperBounds:
    """Of a row that was last hit some days ago; wider windows count more."""
    last = (TODAY - drawn.choice([0, 0, 1, 6, 20, 90, 380, 500])) * DAY_S
    counts = sorted(drawn.randrange(20) for _ in range(len(WINDOWS) + 1))
    return (last, *counts, *sorted(drawn.randrange(4) for _ in range(2)))


def thinned(rows: dict[str, UpperBounds], cutoffs: Cutoffs, kept: int) -> tuple[dict[str, UpperBounds], Cutoffs]:
    """What a store does, written plainly."""
    newest = max([cutoffs.newest, *(bounds[0] // DAY_S for bounds in rows.values())])
    stays: set[str] = set()
    floors = []
    for at, days in enumerate(DAYS):
        reached = {key: row for key, row in rows.items() if row[0] // DAY_S > newest - days and row[PEOPLE + at]}
        order = sorted(reached, key=lambda key: (-reached[key][PEOPLE + at], key))
        stays.update(order[:kept])
        floors.append(NOBODY if len(order) <= kept else (reached[order[kept]][PEOPLE + at], order[kept]))
    going = {rows[key][0] // DAY_S for key in rows.keys() - stays}
    return {key: rows[key] for key in stays}, cutoffs.raised(going, floors, newest)


@pytest.mark.parametrize("seed", range(8))
def test_no_row_but_a_leader_comes_before_the_rest_in_any_range(seed: int) -> None:
    drawn = random.Random(seed)
    rows: dict[str, UpperBounds] = {}
    candidates: dict[str, UpperBounds] = {}
    cutoffs = Cutoffs()
    for _ in range(30):
        for _ in range(10):
            key, bounds = f"k{drawn.randrange(80)}", some_upper_bounds(drawn)
            rows[key] = bounds
            candidates.pop(key, None)
            if cutoffs.passed_by(bounds, key):
                candidates[key] = bounds
        if drawn.random() < 0.5:
            candidates, cutoffs = thinned(candidates, cutoffs, kept=4)
            cutoffs = Cutoffs.of_bytes(cutoffs.to_bytes())
        newest = max([cutoffs.newest, *(bounds[0] // DAY_S for bounds in candidates.values())])
        for days in (None, 0, 1, 5, 25, 80, 390, 450):
            since = None if days is None else (TODAY - days) * DAY_S
            for people, bots in ((True, False), (False, True), (True, True)):
                rest = cutoffs.rest(since, newest, people, bots)
                for key in rows.keys() - candidates.keys():
                    most = most_since(rows[key], since, people, bots)
                    assert not ranks_before((most, key), rest), (key, rows[key], since)


def test_a_row_leads_as_its_weight_does() -> None:
    drawn = random.Random(1)
    cutoffs = Cutoffs()
    passed = []
    for _ in range(300):
        found = [Hit((NOW - drawn.randrange(drawn.choice([1, 30, 500]) * DAY_S)) // 60 * 60, 1, drawn.random() < 0.2)]
        row = row_of(found * drawn.randrange(1, 12), fold_day(NOW), CLICKS)
        if drawn.random() < 0.2:
            row = row._replace(lifetime=row.lifetime + 5, opening=5)
        key, bounds = f"k{drawn.randrange(80)}", upper_bounds_of(row, CLICKS)
        passed.append(cutoffs.passed_by(bounds, key))
        assert cutoffs.bounds_if_candidate(key, row, CLICKS) == (bounds if passed[-1] else None)
        if drawn.random() < 0.2:
            floors = [(drawn.randrange(4) * at, "k4") for at, _ in enumerate(DAYS)]
            cutoffs = cutoffs.raised([row.last // DAY_S] if row.last else [BEFORE], floors, TODAY)
    assert 20 < sum(passed) < 280
    assert Cutoffs().bounds_if_candidate("k", EMPTY, CLICKS) is None


def test_days_that_no_window_reaches_become_one() -> None:
    floors = [(3, "c")] * len(DAYS)
    cutoffs = Cutoffs().raised([TODAY - 500, TODAY - 450, TODAY], floors, TODAY)
    old = (TODAY - 500) * DAY_S
    assert not cutoffs.passed_by((old, *[3] * len(DAYS)), "d")
    assert cutoffs.passed_by((old, *[3] * len(DAYS)), "b")
    assert cutoffs.rest(None, TODAY, True, False) == (3, "c")
    assert cutoffs.rest((TODAY - 450) * DAY_S, TODAY, True, False) == (3, "c")
    assert cutoffs.rest((TODAY + 1) * DAY_S, TODAY, True, False) == NOBODY
    assert len(cutoffs.to_bytes()) < 100


def test_places_together_are_as_high_as_their_sum() -> None:
    assert together([]) == together([NOBODY, NOBODY]) == NOBODY
    assert together([(3, "c"), NOBODY]) == (3, "c")
    assert together([(3, "c"), (2, "a")]) == (5, "")
    assert not ranks_before((3, "c"), (3, "c"))
    assert ranks_before((3, "b"), (3, "c"))
    assert ranks_before((MOST, "z"), (3, "c"))
