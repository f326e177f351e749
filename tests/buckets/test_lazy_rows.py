"""A row that is read when it is asked for: what a flush makes of it is what it makes of one that was read at once."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clickcurve.buckets.codec import StoredCells, decode, decode_lazily, encode
from clickcurve.buckets.errors import CountTooLarge, RowCorrupt
from clickcurve.buckets.ladder import CLICKS, DAY_S, Ladder, fold_day
from clickcurve.buckets.row import Delta, Row, apply, forget, merge, next_due
from clickcurve.buckets.upper_bounds import upper_bounds_of
from tests.buckets.given import Hit, at, delta_of, hits, law, moments, row_of, rows

NOON = at("2024-03-15T12:00")
TODAY = fold_day(NOON)
OLDER = {NOON - days * DAY_S: 1 + days for days in (1, 2, 5, 6, 40, 41, 200, 201, 700)}


def plain(row: Row) -> bytes:
    return encode(row, deflate=False)


def row_until_today(people: dict[int, int], bots: dict[int, int] | None = None) -> bytes:
    row = row_of([], TODAY, CLICKS)
    return encode(apply(row, Delta(people, bots or {}), 1, TODAY, 0, CLICKS))


@law
@given(rows(), hits(moments), st.integers(-3, 40) | st.integers(0, 800), st.sampled_from([0, 1_800_000_000_000_000]))
def test_a_flush_makes_the_same_row_of_it(made: tuple[Row, Ladder], more: list[Hit], days: int, erased_at: int) -> None:
    row, ladder = made
    assume(row.mark < 2**63)
    data, delta, day = encode(row), delta_of(more), max(0, row.fold_day + days)
    try:
        expected = apply(decode(data), delta, row.mark + 1, day, erased_at, ladder)
    except CountTooLarge:
        with pytest.raises(CountTooLarge):
            apply(decode_lazily(data), delta, row.mark + 1, day, erased_at, ladder)
        return
    made_lazily = apply(decode_lazily(data), delta, row.mark + 1, day, erased_at, ladder)
    assert plain(made_lazily) == plain(expected)
    assert decode(encode(made_lazily)) == expected
    assert next_due(made_lazily, ladder) == next_due(expected, ladder)
    assert next_due(made_lazily, ladder, 30) == next_due(expected, ladder, 30)
    assert plain(forget(made_lazily, day, 30)) == plain(forget(expected, day, 30))
    assert upper_bounds_of(made_lazily, ladder) == upper_bounds_of(expected, ladder)


@law
@given(rows(), st.integers(0, 800))
def test_it_is_merged_and_written_like_any_other(made: tuple[Row, Ladder], days: int) -> None:
    row, ladder = made
    data = encode(row)
    assert plain(decode_lazily(data)) == plain(row)
    assert upper_bounds_of(decode_lazily(data), ladder) == upper_bounds_of(row, ladder)
    assert decode_lazily(data)._replace(people_cells=(), bot_cells=()) == row._replace(people_cells=(), bot_cells=())
    later = apply(row, Delta({}, {}), row.mark + 1, row.fold_day + days, 0, ladder)._replace(opening=0, lifetime=0)
    assert merge((decode_lazily(data), later), ladder) == merge((row, later), ladder)


@law
@given(hits(moments), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3), st.integers(0, 2))
def test_it_finds_the_damage_that_reading_all_of_it_finds(
    found: list[Hit], damage: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(encode(row_of(found, TODAY, CLICKS)))
    for where, byte in damage:
        data[where % len(data)] = byte
    finds_the_same(bytes(data[: max(0, len(data) - cut)]))


def finds_the_same(data: bytes) -> None:
    try:
        row = decode(data)
    except RowCorrupt as error:
        with pytest.raises(RowCorrupt) as lazily:
            decode_lazily(data)
        assert lazily.value.detail == error.detail
    else:
        read = decode_lazily(data)
        assert [tuple(cells) for cells in (*read.people_cells, *read.bot_cells)] == [*row.people_cells, *row.bot_cells]


@pytest.mark.parametrize("gap", [1, 2, 255, 256, 65_536, 2_000_000])
def test_it_finds_each_byte_that_damages_gaps_of_any_width(gap: int) -> None:
    hits_ = {0: 1, gap * 60: 2, (gap + 1) * 60: 1, (2 * gap + 1) * 60: 1}
    data = encode(apply(row_of([], 0, CLICKS), Delta(hits_, {}), 1, 0, 0, CLICKS))
    for where in range(len(data)):
        for byte in (0, 1, 127, 255):
            finds_the_same(data[:where] + bytes((byte,)) + data[where + 1 :])


def test_a_hit_now_reads_the_minutes_only() -> None:
    data = row_until_today({NOON - 60: 1, **OLDER}, {NOON - 60: 1, **OLDER})
    after = apply(decode_lazily(data), Delta({NOON: 1}, {}), 2, TODAY, 0, CLICKS)
    unread = [isinstance(cells, StoredCells) for cells in after.people_cells]
    assert unread == [False, True, True, True, True, True]
    assert all(isinstance(cells, StoredCells) for cells in after.bot_cells)
    assert next_due(after, CLICKS) == TODAY + 1


def test_a_new_day_reads_what_moves_and_where_it_goes() -> None:
    data = row_until_today({NOON: 1, **OLDER})
    after = apply(decode_lazily(data), Delta({}, {}), 2, TODAY + 1, 0, CLICKS)
    assert [isinstance(cells, StoredCells) for cells in after.people_cells] == [False, False, False, True, True, True]


def test_a_hit_before_the_first_one_writes_all_starts_anew() -> None:
    data = row_until_today({NOON: 1, **OLDER})
    delta = Delta({NOON - 900 * DAY_S: 1}, {})
    expected = apply(decode(data), delta, 2, TODAY, 0, CLICKS)
    assert plain(apply(decode_lazily(data), delta, 2, TODAY, 0, CLICKS)) == plain(expected)
