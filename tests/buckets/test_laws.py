"""The laws of a row, as properties, against a plain list of raw hits."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.codec import decode, encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, Ladder, fold_day
from clickcurve.buckets.row import (
    EMPTY,
    MAX_COUNT,
    Delta,
    Row,
    add,
    apply,
    check,
    fold,
    forget,
    merge,
    merge_again,
    next_due,
)
from tests.buckets.given import (
    Hit,
    buckets_of,
    cells_at,
    delta_of,
    histories,
    hits,
    kept_bucket,
    ladders,
    law,
    moments,
    row_of,
)

History = tuple[list[Hit], list[int]]
any_ladder = st.just(CLICKS) | ladders()


def raw_bytes(row: Row) -> bytes:
    return encode(row, deflate=False)


def lived(found: list[Hit], clocks: list[int], ladder: Ladder) -> Row:
    """The hits one by one, the row folded to some clock reading between any two of them, and to all in the end."""
    row = fold(EMPTY, 0, ladder)
    for i, hit in enumerate(found):
        if clocks:
            row = fold(row, fold_day(clocks[i % len(clocks)]), ladder)
        row = add(row, delta_of([hit]), ladder)
    for now in clocks:
        row = fold(row, fold_day(now), ladder)
    return row


@law
@given(histories())
def test_a_row_holds_just_what_a_list_of_raw_hits_would(history: History) -> None:
    found, clocks = history
    row = lived(found, clocks, CLICKS)
    today = max(map(fold_day, clocks), default=0)
    expected: Counter[tuple[int, int, bool]] = Counter()
    for hit in found:
        expected[(*kept_bucket(hit.t, today), hit.bot)] += hit.count
    assert buckets_of(row, CLICKS) == expected
    assert row.lifetime == sum(hit.count for hit in found if not hit.bot)
    assert row.bots == sum(hit.count for hit in found if hit.bot)
    assert row.first == min((hit.t for hit in found), default=None)
    assert row.last == max((hit.t for hit in found), default=None)
    assert row.fold_day == today


@law
@given(histories(), any_ladder, st.randoms(use_true_random=False))
def test_neither_the_order_of_hits_nor_of_folds_matters(history: History, ladder: Ladder, random: Random) -> None:
    found, clocks = history
    shuffled, readings = found[:], clocks[:]
    random.shuffle(shuffled)
    random.shuffle(readings)
    row = lived(found, clocks, ladder)
    assert raw_bytes(lived(shuffled, readings, ladder)) == raw_bytes(row)
    at_once = row_of(found, row.fold_day, ladder)
    assert at_once == fold(row, row.fold_day, ladder)
    assert raw_bytes(at_once) == raw_bytes(row)


@law
@given(histories(), any_ladder)
def test_folding_conserves_every_total_and_keeps_every_law(history: History, ladder: Ladder) -> None:
    found, clocks = history
    row = add(EMPTY, delta_of(found), ladder)
    totals = row.lifetime, row.bots, row.first, row.last
    for now in clocks:
        row = fold(row, fold_day(now), ladder)
        assert (row.lifetime, row.bots, row.first, row.last) == totals
        assert check(row, ladder) == []
        assert sum(buckets_of(row, ladder).values()) == row.lifetime + row.bots


@law
@given(histories(), any_ladder)
def test_folding_again_gives_the_same_bytes(history: History, ladder: Ladder) -> None:
    found, clocks = history
    row = lived(found, clocks, ladder)
    for now in clocks:
        assert raw_bytes(fold(row, fold_day(now), ladder)) == raw_bytes(row)


@law
@given(hits(moments), any_ladder, moments, st.lists(st.integers(1, 200), max_size=8))
def test_fine_to_coarse_at_once_equals_step_by_step(
    found: list[Hit], ladder: Ladder, now: int, days: list[int]
) -> None:
    start = row_of(found, fold_day(now), ladder)
    row = start
    for step in days:
        row = fold(row, row.fold_day + step, ladder)
    assert raw_bytes(fold(start, row.fold_day, ladder)) == raw_bytes(row)


@law
@given(hits(moments), any_ladder, moments)
def test_buckets_are_only_ever_replaced_by_the_bucket_that_holds_them(
    found: list[Hit], ladder: Ladder, now: int
) -> None:
    row = row_of(found, fold_day(now), ladder)
    later = fold(row, row.fold_day + 40, ladder)
    into: Counter[tuple[int, int, bool]] = Counter()
    for (start, end, bot), count in buckets_of(row, ladder).items():
        kept = ladder.kept(start, later.fold_day)
        assert kept[0] <= start < end <= kept[1]
        into[(*kept, bot)] += count
    assert into == buckets_of(later, ladder)


owners_rows = st.lists(st.tuples(hits(moments), moments), min_size=1, max_size=4)


@law
@given(owners_rows, any_ladder, st.randoms(use_true_random=False))
def test_merge_is_commutative_and_associative(
    parts: list[tuple[list[Hit], int]], ladder: Ladder, random: Random
) -> None:
    rows = [row_of(found, fold_day(now), ladder) for found, now in parts]
    rows = [
        add(row, Delta({}, {}, opening=now % 7), ladder)._replace(erased_at=now % 5)
        for row, (_, now) in zip(rows, parts, strict=True)
    ]
    merged = merge(rows, ladder)
    assert merged.lifetime == sum(row.lifetime for row in rows)
    assert merged.bots == sum(row.bots for row in rows)
    assert merged.erased_at == max(row.erased_at for row in rows)
    shuffled = rows[:]
    random.shuffle(shuffled)
    assert merge(shuffled, ladder) == merged
    one_by_one = merge([], ladder)
    for row in rows:
        one_by_one = merge([one_by_one, row], ladder)
    assert one_by_one == merged
    assert merge([merge(rows[:2], ladder), merge(rows[2:], ladder)], ladder) == merged


@law
@given(owners_rows, any_ladder, st.integers(1, 4))
def test_merge_is_the_row_that_one_owner_would_have(
    parts: list[tuple[list[Hit], int]], ladder: Ladder, times: int
) -> None:
    """Also where many owners have the same buckets, some of them or all."""
    rows = [row_of(found, fold_day(now), ladder) for found, now in parts]
    merged = merge(rows * times, ladder)
    hits_of_all = [Hit(hit.t, hit.count * times, hit.bot) for found, _ in parts for hit in found]
    together = row_of(hits_of_all, merged.fold_day, ladder)
    assert merged == together
    assert check(merged, ladder) == []
    one_by_one = rows[0]
    for row in (rows * times)[1:]:
        one_by_one = merge([one_by_one, row], ladder)
    assert one_by_one.people_cells == merged.people_cells and one_by_one.bot_cells == merged.bot_cells


@law
@given(owners_rows, hits(moments), any_ladder, st.integers(0, 3), st.booleans())
def test_a_sum_that_is_changed_by_what_is_new_in_a_row_is_the_sum_made_anew(
    parts: list[tuple[list[Hit], int]], found: list[Hit], ladder: Ladder, which: int, grows: bool
) -> None:
    """Also where buckets are gone from the row, as after an erasure, and from the sum where no other row has them."""
    day = max(fold_day(now) for _, now in parts)
    rows = [fold(row_of(found, fold_day(now), ladder), day, ladder) for found, now in parts]
    rows += rows[:1] * 2
    at = which % len(rows)
    other = fold(row_of(found + (parts[0][0] if grows else []), day, ladder), day, ladder)
    changed = [*rows[:at], other, *rows[at + 1 :]]
    for before, after in ((rows, changed), (changed, rows)):
        assert merge_again(merge(before, ladder), after, [(before[at], after[at])]) == merge(after, ladder)


@law
@given(hits(moments), any_ladder, moments)
def test_next_due_is_the_first_fold_day_that_changes_a_bucket(found: list[Hit], ladder: Ladder, now: int) -> None:
    row = row_of(found, fold_day(now), ladder)
    due = next_due(row, ladder)
    if due is None:
        assert buckets_of(fold(row, row.fold_day + 2_000, ladder), ladder) == buckets_of(row, ladder)
        return
    assert due > row.fold_day
    assert cells_of(fold(row, due - 1, ladder)) == cells_of(row)
    assert cells_of(fold(row, due, ladder)) != cells_of(row)


@law
@given(hits(moments), any_ladder, moments, st.integers(1, 400))
def test_what_is_forgotten_is_gone_and_the_rest_is_as_it_was(
    found: list[Hit], ladder: Ladder, now: int, days: int
) -> None:
    row = row_of(found, fold_day(now), ladder)
    cut = (row.fold_day - days + 1) * DAY_S
    kept = {bucket: count for bucket, count in buckets_of(row, ladder).items() if bucket[0] >= cut}
    left = forget(row, row.fold_day, days)
    assert buckets_of(left, ladder) == kept
    assert check(left, ladder) == []
    assert (left.fold_day, left.mark, left.opening) == (row.fold_day, row.mark, row.opening)
    assert left.first is None or left.first >= cut
    assert forget(left, row.fold_day, days) == left


@law
@given(hits(moments), any_ladder, moments, st.integers(1, 400))
def test_next_due_of_a_row_that_is_not_kept_for_ever(found: list[Hit], ladder: Ladder, now: int, days: int) -> None:
    row = forget(row_of(found, fold_day(now), ladder), fold_day(now), days)
    due = next_due(row, ladder, days)
    if due is None:
        assert buckets_of(row, ladder) == Counter()
        return
    assert due > row.fold_day
    for day, changes in ((due - 1, False), (due, True)):
        later = forget(fold(row, day, ladder), day, days)
        assert (cells_of(later) != cells_of(row)) == changes


def cells_of(row: Row) -> tuple[object, object]:
    # Tier by tier: a day that is a week piece by itself (Sunday, 1 September) folds without a change of its ends.
    return row.people_cells, row.bot_cells


@law
@given(histories(), any_ladder, st.data())
def test_flushes_count_once_however_they_are_repeated(history: History, ladder: Ladder, data: st.DataObject) -> None:
    found, clocks = history
    row = once = EMPTY
    for flush, hit in enumerate(found, 1):
        day = fold_day(clocks[flush % len(clocks)]) if clocks else 0
        once = apply(once, delta_of([hit]), flush, day, 0, ladder)
        for _ in range(data.draw(st.integers(1, 3))):
            row = decode(encode(apply(row, delta_of([hit]), flush, day, 0, ladder)))
    assert row == once
    assert row.lifetime + row.bots == sum(hit.count for hit in found)


@law
@given(st.lists(st.integers(1, MAX_COUNT), min_size=1, max_size=5), moments)
def test_huge_counts_are_exact_or_refused(counts: list[int], now: int) -> None:
    row = EMPTY
    t = now // 60 * 60
    for count in counts:
        if row.lifetime + count <= MAX_COUNT:
            row = decode(encode(add(row, delta_of([Hit(t, count, False)]), CLICKS)))
    assert row.lifetime == sum(row.people_cells[CLICKS.tier_of(t, 0)][1])
    assert row.lifetime >= counts[0]


def test_a_year_and_more_of_daily_folds_never_changes_a_total_and_stays_bounded() -> None:
    day = fold_day(1_672_531_200 + 7_200)  # 2023-01-01
    row, found = EMPTY, Counter[int]()
    for today in range(day, day + 800):
        minutes = [today * DAY_S + minute * 60 for minute in range(0, 1_440, 13)]
        late = [t - 40 * DAY_S for t in minutes[:2]]
        row = apply(row, delta_of(Hit(t, 1 + t % 7, False) for t in minutes + late), today, today, 0, CLICKS)
        for t in minutes + late:
            found[t] += 1 + t % 7
        assert row.lifetime == found.total()
        assert cells_at(row.people_cells) < 1_500
        assert next_due(row, CLICKS) == today + 1
    assert check(row, CLICKS) == []
    months = buckets_of(row, CLICKS)
    for (start, _, _), (after, _, _) in pairwise(sorted(months)):
        assert start < after
    for (start, end, _), count in months.items():
        assert count == sum(n for t, n in found.items() if start <= t < end)
