"""A row's upper bounds hold for any range from now on, and follow from those before."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, MINUTE_S, Ladder, fold_day
from clickcurve.buckets.ranges import Bots, between
from clickcurve.buckets.row import EMPTY, Delta, apply, fold
from clickcurve.buckets.upper_bounds import (
    BOTS,
    MOST,
    PEOPLE,
    UNREADABLE,
    WINDOWS,
    most_since,
    upper_bounds_after,
    upper_bounds_in,
    upper_bounds_of,
)
from tests.buckets.given import Hit, delta_of, hits, ladders, law, moments, row_of

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
TODAY = NOW // DAY_S * DAY_S

any_ladder = st.just(CLICKS) | ladders()
ages = st.integers(0, 3 * HOUR_S) | st.integers(0, 40 * DAY_S) | st.integers(0, 800 * DAY_S)


@law
@given(moments, st.data(), any_ladder, ages, ages, st.integers(0, 500), st.sampled_from(list(Bots)))
def test_no_row_counts_more_in_a_range_than_its_bound(
    moment: int, data: st.DataObject, ladder: Ladder, age: int, length: int, later_days: int, bots: Bots
) -> None:
    """Whenever the range is asked for, whenever it ends, and however the row was folded before and after."""
    found = data.draw(hits(st.just(moment)))
    row = fold(row_of(found, fold_day(moment), ladder), fold_day(moment + later_days // 20 * DAY_S), ladder)
    bounds = upper_bounds_of(row, ladder)
    day = max(row.fold_day, fold_day(moment + later_days * DAY_S))
    since = ladder.kept(max(0, moment - age), day)[0]
    until = ladder.kept(since + length, day)[1]
    people, robots = bots is not Bots.only, bots is not Bots.exclude
    counted = between(fold(row, day, ladder), (since, until), bots)[0]
    assert counted <= most_since(bounds, since, people, robots)
    life = (row.lifetime if people else 0) + (row.bots if robots else 0)
    assert most_since(bounds, None, people, robots) == life


def test_the_bound_of_whole_days_until_now_is_what_the_row_counts() -> None:
    drawn = random.Random(1)
    moments = [NOW - 60 * drawn.randrange(90 * 1_440) for _ in range(200)]
    row = row_of([Hit(t - t % MINUTE_S, 7, False) for t in (NOW, *moments)], 0, CLICKS)
    row = fold(row, fold_day(NOW), CLICKS)
    bounds = upper_bounds_of(row, CLICKS)
    for days in (1, 2, 8, 31):
        since = TODAY - (days - 1) * DAY_S
        assert most_since(bounds, since, True, False) == between(row, (since, NOW + 60), Bots.exclude)[0]


@law
@given(moments, st.data(), any_ladder)
def test_what_a_flush_adds_to_a_weight_is_what_the_buckets_say(
    moment: int, data: st.DataObject, ladder: Ladder
) -> None:
    """Flush by flush, also across hours, days, late hits and an erasure."""
    row, bounds, now = EMPTY, None, moment
    for mark in range(1, data.draw(st.integers(2, 6))):
        now += data.draw(st.sampled_from([0, 15, 60, HOUR_S, DAY_S]))
        near = st.just(now) if data.draw(st.booleans()) else st.integers(max(0, now - 2 * HOUR_S), now)
        found = [
            Hit(t - t % MINUTE_S, data.draw(st.integers(1, 9)), data.draw(st.booleans()))
            for t in data.draw(st.lists(near, max_size=3))
        ] or data.draw(hits(st.just(now)))
        erased_at = max(row.erased_at, data.draw(st.sampled_from([0, 0, 0, mark])))
        opening = data.draw(st.sampled_from([0, 0, 5]))
        delta = delta_of(found)
        delta = Delta(delta.people, delta.bots, opening)
        after = apply(row, delta, mark, fold_day(now), erased_at, ladder)
        before = None if row is EMPTY else row
        bounds = (
            upper_bounds_of(after, ladder)
            if bounds is None
            else upper_bounds_after(bounds, before, after, delta, ladder)
        )
        assert bounds == upper_bounds_of(after, ladder) == upper_bounds_in(encode(after), ladder)
        assert upper_bounds_after(bounds, after, after, delta, ladder) == bounds  # it has the flush already
        row = after


def test_a_late_hit_of_the_last_day_finds_buckets_that_were_folded_into_wider_ones() -> None:
    """A week counts whole in a window that it reaches into, where its days did not."""
    days = [Hit(TODAY - n * DAY_S, 1, False) for n in range(140)]
    before = fold(row_of(days, 0, CLICKS), TODAY // DAY_S, CLICKS)
    delta, widened = Delta({TODAY + HOUR_S: 1}, {}), 0
    for later in range(1, 60):
        after = apply(before, delta, before.mark + 1, TODAY // DAY_S + later, 0, CLICKS)
        bounds = upper_bounds_after(upper_bounds_of(before, CLICKS), before, after, delta, CLICKS)
        assert bounds == upper_bounds_of(after, CLICKS)
        widened += bounds[PEOPLE + WINDOWS.index(100)] > 101
    assert widened


def test_a_weight_that_is_not_of_this_row_is_made_anew() -> None:
    before = row_of([Hit(NOW // 60 * 60, 2, False)], fold_day(NOW), CLICKS)
    delta = Delta({NOW // 60 * 60: 1}, {})
    after = apply(before, delta, before.mark + 1, fold_day(NOW), 0, CLICKS)
    assert upper_bounds_after(UNREADABLE, before, after, delta, CLICKS)[PEOPLE] == 3
    assert upper_bounds_after(upper_bounds_of(after, CLICKS), None, after, delta, CLICKS)[PEOPLE] == 3


def test_a_row_with_fewer_tiers_than_the_ladder_is_weighed_by_those_it_has() -> None:
    """Damage of one byte may leave such a row readable; `verify` and the candidates of an older file look at it."""
    row = row_of([Hit((NOW - 40 * DAY_S) // 60 * 60, 2, False), Hit(TODAY, 1, False)], 0, CLICKS)
    data = bytearray(encode(row._replace(fold_day=fold_day(NOW))))
    data[0] = data[0] & 15 | 1 << 4
    assert upper_bounds_in(bytes(data), CLICKS)[BOTS - 1] == 3


def test_a_damaged_row_may_count_anything_and_huge_counts_are_cut() -> None:
    assert upper_bounds_in(b"?", CLICKS) == UNREADABLE
    assert most_since(UNREADABLE, NOW, True, False) == MOST
    huge = row_of([Hit(NOW // 60 * 60, 2**100, False), Hit(NOW // 60 * 60, 1, True)], fold_day(NOW), CLICKS)
    bounds = upper_bounds_of(huge, CLICKS)
    assert (bounds[PEOPLE], bounds[BOTS]) == (MOST, 1)
