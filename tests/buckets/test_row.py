from __future__ import annotations

import pytest

from clickcurve.buckets.cells import NO_CELLS
from clickcurve.buckets.errors import CountTooLarge, RowCorrupt
from clickcurve.buckets.ladder import CLICKS, DAY_S, Ladder, fold_day
from clickcurve.buckets.row import EMPTY, MAX_COUNT, Delta, Row, add, apply, check, fold, merge, next_due
from clickcurve.pending import Pending
from tests.buckets.given import at, buckets_of

NOON = at("2024-03-15T12:00")
TODAY = fold_day(NOON)
FOLDED = fold(EMPTY, TODAY, CLICKS)
NOTHING = Delta({}, {})


def people(minutes: dict[str, int]) -> Delta:
    return Delta({at(text): count for text, count in minutes.items()}, {})


def test_hits_land_in_the_bucket_that_holds_their_minute() -> None:
    row = add(
        FOLDED,
        people(
            {
                "2024-03-15T11:59": 1,
                "2024-03-14T23:59": 2,
                "2024-03-13T00:00": 64,
                "2024-02-11T00:00": 4,
                "2024-02-10T23:59": 8,
                "2023-11-06T00:00": 128,
                "2023-11-05T23:59": 256,
                "2022-11-01T00:00": 16,
                "2022-10-31T23:59": 32,
            }
        ),
        CLICKS,
    )
    assert buckets_of(row, CLICKS) == {
        (at("2024-03-15T11:59"), at("2024-03-15T12:00"), False): 1,
        (at("2024-03-14T23:55"), at("2024-03-15T00:00"), False): 2,
        (at("2024-03-13T00:00"), at("2024-03-13T00:05"), False): 64,
        (at("2024-02-11T00:00"), at("2024-02-11T01:00"), False): 4,
        (at("2024-02-10"), at("2024-02-11"), False): 8,
        (at("2023-11-06"), at("2023-11-07"), False): 128,
        (at("2023-11-01"), at("2023-11-06"), False): 256,
        (at("2022-11-01"), at("2022-11-07"), False): 16,
        (at("2022-10-01"), at("2022-11-01"), False): 32,
    }
    assert (row.lifetime, row.first, row.last) == (511, at("2022-10-31T23:59"), at("2024-03-15T11:59"))
    assert check(row, CLICKS) == []


def test_bots_are_a_series_of_their_own() -> None:
    row = add(FOLDED, Delta({NOON: 3}, {NOON: 5, NOON - 60: 7}), CLICKS)
    assert (row.lifetime, row.bots, row.first, row.last) == (3, 12, NOON - 60, NOON)
    assert row.people_cells[0] == ((NOON,), (3,))
    assert row.bot_cells[0] == ((NOON - 60, NOON), (7, 5))


def test_an_opening_is_part_of_lifetime_and_of_no_bucket() -> None:
    row = add(FOLDED, Delta({}, {}, opening=1_000), CLICKS)
    assert (row.lifetime, row.opening, row.first) == (1_000, 1_000, None)
    assert buckets_of(row, CLICKS) == {}
    assert check(row, CLICKS) == []


def test_what_was_erased_is_summed_next_to_the_totals() -> None:
    row = add(FOLDED, Delta({NOON: 9}, {NOON: 9}), CLICKS)
    row = add(row, Delta({}, {}, erased=4, erased_bots=5), CLICKS)
    assert (row.lifetime, row.erased, row.bots, row.erased_bots) == (9, 4, 9, 5)
    assert check(row, CLICKS) == []


def test_a_row_that_was_never_folded_takes_hits_too() -> None:
    row = add(EMPTY, Delta({NOON: 1}, {}), CLICKS)
    assert row.fold_day == 0
    assert fold(row, TODAY, CLICKS) == add(FOLDED, Delta({NOON: 1}, {}), CLICKS)


def test_huge_counts_stay_exact() -> None:
    row = add(FOLDED, Delta({NOON: 2**126}, {}), CLICKS)
    row = add(row, Delta({NOON: 2**126}, {NOON: MAX_COUNT}), CLICKS)
    assert row.people_cells[0] == ((NOON,), (MAX_COUNT,))
    assert row.bots == MAX_COUNT


@pytest.mark.parametrize(
    "delta",
    [
        Delta({NOON: MAX_COUNT}, {}),
        Delta({NOON + 60: MAX_COUNT}, {}),
        Delta({}, {NOON: MAX_COUNT, NOON + 60: 1}),
        Delta({}, {}, opening=MAX_COUNT),
        Delta({}, {}, erased=MAX_COUNT + 1),
        Delta({}, {}, erased_bots=MAX_COUNT + 1),
    ],
)
def test_a_sum_that_no_row_can_hold_is_refused(delta: Delta) -> None:
    with pytest.raises(CountTooLarge, match=r"2\*\*127"):
        add(add(FOLDED, Delta({NOON: 1}, {}), CLICKS), delta, CLICKS)


@pytest.mark.parametrize(
    "delta",
    [
        Delta({NOON + 1: 1}, {}),
        Delta({}, {NOON: 0}),
        Delta({NOON: -1}, {}),
        Delta({-60: 1}, {}),
        Delta({at("9999-12-31") + DAY_S: 1}, {}),
        Delta({}, {}, opening=-1),
    ],
)
def test_what_is_not_a_minute_or_a_count_is_a_mistake_of_ours(delta: Delta) -> None:
    with pytest.raises(ValueError, match=r"hits at|a sum of"):
        add(FOLDED, delta, CLICKS)


def test_fold_replaces_fine_buckets_by_the_coarse_one() -> None:
    row = add(FOLDED, Delta({NOON: 1, NOON + 60: 2, NOON + 300: 4}, {NOON: 8}), CLICKS)
    day_after = fold(row, TODAY + 1, CLICKS)
    assert buckets_of(day_after, CLICKS) == {
        (NOON, NOON + 300, False): 3,
        (NOON + 300, NOON + 600, False): 4,
        (NOON, NOON + 300, True): 8,
    }
    years_after = fold(row, TODAY + 1_000, CLICKS)
    march = at("2024-03-01"), at("2024-04-01")
    assert buckets_of(years_after, CLICKS) == {(*march, False): 7, (*march, True): 8}
    assert (years_after.lifetime, years_after.bots, years_after.first) == (7, 8, NOON)


def test_fold_never_lowers_the_fold_day() -> None:
    assert fold(FOLDED, TODAY - 1, CLICKS) is FOLDED
    assert fold(EMPTY, -1, CLICKS).fold_day == 0


def test_apply_counts_a_flush_once_however_often_it_is_tried() -> None:
    once = apply(EMPTY, Delta({NOON: 1}, {}), 7, TODAY, 0, CLICKS)
    assert (once.mark, once.lifetime, once.fold_day) == (7, 1, TODAY)
    assert apply(once, Delta({NOON: 1}, {}), 7, TODAY, 0, CLICKS) is once
    assert apply(once, Delta({NOON: 1}, {}), 6, TODAY + 1, 0, CLICKS) is once
    twice = apply(once, Delta({NOON: 1}, {}), 8, TODAY, 0, CLICKS)
    assert (twice.mark, twice.lifetime) == (8, 2)


def test_apply_without_hits_folds_and_sets_the_mark() -> None:
    row = apply(EMPTY, Delta({NOON: 1}, {}), 7, TODAY, 0, CLICKS)
    later = apply(row, NOTHING, 8, TODAY + 1, 0, CLICKS)
    assert later == fold(row, TODAY + 1, CLICKS)._replace(mark=8)


def test_apply_starts_again_empty_after_an_erasure_that_the_row_does_not_know() -> None:
    row = apply(EMPTY, Delta({NOON: 5}, {NOON: 5}, opening=5), 7, TODAY, 0, CLICKS)
    fresh = apply(row, Delta({NOON + 60: 1}, {}), 8, TODAY, 1_700_000_000_000_000, CLICKS)
    assert (fresh.lifetime, fresh.bots, fresh.opening, fresh.first, fresh.mark) == (1, 0, 0, NOON + 60, 8)
    assert (fresh.erased_at, fresh.erased, fresh.erased_bots) == (1_700_000_000_000_000, 10, 5)
    assert check(fresh, CLICKS) == []
    again = apply(fresh, Delta({NOON + 60: 1}, {}), 8, TODAY, 1_700_000_000_000_000, CLICKS)
    assert again is fresh
    assert apply(fresh, NOTHING, 9, TODAY, 1_600_000_000_000_000, CLICKS).erased_at == 1_700_000_000_000_000


def test_an_erasure_waits_for_a_flush_that_the_row_does_not_have() -> None:
    row = apply(EMPTY, Delta({NOON: 5}, {}), 7, TODAY, 0, CLICKS)
    assert apply(row, NOTHING, 7, TODAY, 1_700_000_000_000_000, CLICKS) is row


@pytest.mark.parametrize(("flush", "missing"), [(None, True), (8, True), (7, False), (6, False)])
def test_pending_hits_are_missing_in_rows_with_an_earlier_mark(flush: int | None, missing: bool) -> None:
    assert Pending(lambda: 1, lambda: flush, NOTHING).is_missing({1: 7, 2: 9}) is missing


@pytest.mark.parametrize(
    ("delta", "anything"),
    [(NOTHING, False), (Delta({NOON: 1}, {}), True), (Delta({}, {NOON: 1}), True), (Delta({}, {}, opening=1), True)],
)
def test_a_delta_knows_whether_it_adds_anything(delta: Delta, anything: bool) -> None:
    assert delta.adds_anything() is anything
    assert (add(FOLDED, delta, CLICKS) != FOLDED) is anything


def test_merge_sums_rows_folded_to_different_days() -> None:
    old = apply(EMPTY, Delta({NOON: 1}, {}, opening=10), 3, TODAY, 5, CLICKS)
    new = apply(EMPTY, Delta({NOON + 60: 2}, {NOON: 4}), 9, TODAY + 1, 0, CLICKS)
    row = merge([old, new], CLICKS)
    assert buckets_of(row, CLICKS) == {(NOON, NOON + 300, False): 3, (NOON, NOON + 300, True): 4}
    assert (row.lifetime, row.bots, row.opening, row.mark, row.fold_day) == (13, 4, 10, 0, TODAY + 1)
    assert (row.first, row.last, row.erased_at) == (NOON, NOON + 60, 5)


def test_merge_of_no_rows_is_an_empty_row() -> None:
    assert merge([], CLICKS) == fold(EMPTY, 0, CLICKS)


def test_a_row_of_another_ladder_is_refused() -> None:
    with pytest.raises(RowCorrupt, match="a row of 6 tiers does not fit a ladder of 1"):
        fold(FOLDED, TODAY + 1, Ladder.parse("86400"))


def test_a_row_without_buckets_is_never_due() -> None:
    assert next_due(EMPTY, CLICKS) is None
    assert next_due(add(FOLDED, Delta({}, {}, opening=3), CLICKS), CLICKS) is None


@pytest.mark.parametrize(
    ("hit", "due"),
    [
        ("2024-03-15T11:59", "2024-03-16"),
        ("2024-03-16T00:01", "2024-03-17"),  # in the hour of grace: a minute of tomorrow
        ("2024-03-14T11:59", "2024-03-17"),  # five minutes of the two days before
        ("2024-02-11T05:00", "2024-03-16"),  # an hour, until its day is older than 31 days more
        ("2023-11-06T05:00", "2024-03-17"),  # a day, until the piece up to the 13th is older than 92 more
        ("2022-11-01T05:00", "2024-04-05"),  # a week piece, until November is older than 366 more
    ],
)
def test_next_due_by_tier(hit: str, due: str) -> None:
    assert next_due(add(FOLDED, people({hit: 1}), CLICKS), CLICKS) == at(due) // DAY_S


def test_months_are_never_due() -> None:
    assert next_due(add(FOLDED, people({"2020-02-01T05:00": 1}), CLICKS), CLICKS) is None


GOOD = add(FOLDED, Delta({NOON: 3, NOON + 60: 4, NOON - DAY_S: 2}, {NOON: 5}, opening=6), CLICKS)


def with_minutes(starts: tuple[int, ...], counts: tuple[int, ...]) -> Row:
    return GOOD._replace(people_cells=((starts, counts), *GOOD.people_cells[1:]))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (GOOD._replace(lifetime=16), "lifetime is 16, but opening 6 + buckets 9"),
        (GOOD._replace(opening=5), "lifetime is 15, but opening 5 + buckets 9"),
        (GOOD._replace(bots=4), "bots is 4, but the buckets of bots hold 5"),
        (GOOD._replace(mark=-1), "mark is -1, below 0"),
        (GOOD._replace(erased=-1), "erased is -1, below 0"),
        (GOOD._replace(fold_day=TODAY + 1), "people, minute: 1710504000 is not held by this tier"),
        (GOOD._replace(fold_day=-1), "fold_day is -1"),
        (GOOD._replace(fold_day=10**9), "fold_day is 1000000000"),
        (GOOD._replace(first=None), "no first or last hit"),
        (EMPTY._replace(last=0), "no first or last hit"),
        (EMPTY._replace(first=0, last=0), "a first and a last hit, but no bucket"),
        (GOOD._replace(first=NOON), "first hit 1710504000 is not in the first bucket, 1710417600"),
        (GOOD._replace(last=NOON), "last hit 1710504000 is not in the last bucket, 1710504060"),
        (GOOD._replace(last=NOON + 61), "last hit 1710504061 is not the start of a minute"),
        (GOOD._replace(last=0), "first hit 1710417600, last hit 0"),
        (with_minutes((NOON + 60, NOON), (4, 3)), "people, minute: 1710504000 comes after 1710504060"),
        (with_minutes((NOON, NOON), (4, 3)), "people, minute: 1710504000 comes after 1710504000"),
        (with_minutes((NOON, NOON + 60), (7, 0)), "people, minute: a count of 0"),
        (with_minutes((NOON, NOON + 60), (7,)), "people, minute: 2 starts, 1 counts"),
        (with_minutes((NOON, NOON + 61), (3, 4)), "people, minute: 1710504061 is not the start of a bucket"),
        (with_minutes((-60, NOON), (3, 4)), "people, minute: -60 is not held by this tier"),
        (GOOD._replace(people_cells=GOOD.people_cells[1:]), "people have 5 tiers, the ladder 6"),
        (GOOD._replace(bot_cells=(NO_CELLS,) * 7), "bots have 7 tiers, the ladder 6"),
    ],
)
def test_check_names_what_a_tampered_row_breaks(row: Row, said: str) -> None:
    assert said in "\n".join(check(row, CLICKS))


def test_check_finds_nothing_in_good_rows() -> None:
    assert check(GOOD, CLICKS) == []
    assert check(EMPTY, CLICKS) == []
    assert check(fold(GOOD, TODAY + 500, CLICKS), CLICKS) == []
