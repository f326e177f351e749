"""Sums over columns against the buckets that they stand for; and columns that are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns.answers import breakdown_total, recorded_between, values_between
from clickcurve.buckets.breakdowns.breakdown import (
    BREAKDOWN,
    BoundedLadder,
    Breakdown,
    ValueCounts,
    fold_breakdown,
    greatest_values,
)
from clickcurve.buckets.breakdowns.closed_part import read_closed
from clickcurve.buckets.breakdowns.columns import ColumnTier
from clickcurve.buckets.breakdowns.parts import decode_parts, encode_parts
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.integers import after_sized_column, put_sized_column, sized_column
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from clickcurve.buckets.row import MAX_COUNT
from tests.buckets.breakdowns import laws
from tests.buckets.breakdowns.given_breakdowns import (
    DIMENSIONS,
    NARROW,
    Said,
    any_bounded,
    flushes_of,
    lived_breakdown,
    saids,
)
from tests.buckets.given import law

History = tuple[list[Said], list[int]]


def columns_answer_as_buckets(history: History, bounded: BoundedLadder, later: int, hours: list[int]) -> None:
    """What was stored is read as columns, and `lived_breakdown` has dicts: they answer alike, folded on or not."""
    buckets = lived_breakdown(flushes_of(*history), bounded)
    columns = decode_parts(encode_parts(buckets, bounded))
    for ahead in (0, later):
        buckets, columns = (fold_breakdown(row, row.fold_day + ahead, bounded) for row in (buckets, columns))
        edges = sorted({0, *(hour * HOUR_S for hour in hours), *((buckets.fold_day - back) * DAY_S for back in hours)})
        edges = [edge for edge in edges if edge >= 0]
        for name in (*DIMENSIONS, "never said"):
            for start, end in [*pairwise(edges), (0, edges[-1] + 1)]:
                assert breakdown_total(columns, name, start, end, bounded) == breakdown_total(
                    buckets, name, start, end, bounded
                )
            assert recorded_between(columns, name, edges) == recorded_between(buckets, name, edges)
            for named in ([""], ["DE"], ["never said"], ["", "DE", "never said"]):
                assert values_between(columns, name, named, edges) == values_between(buckets, name, named, edges)


drawn_hours = st.lists(st.integers(0, 500), min_size=1, max_size=6)


@law
@given(saids(), any_bounded, st.sampled_from([1, 40, 400]), drawn_hours)
def test_columns_answer_as_the_buckets_that_they_are_of(
    history: History, bounded: BoundedLadder, later: int, hours: list[int]
) -> None:
    columns_answer_as_buckets(history, bounded, later, hours)


def first_tier_alone(tiers: Sequence[ColumnTier], first: int, last: int) -> ValueCounts:
    return SUM_BETWEEN(tiers[:1], first, last)


SUM_BETWEEN = ColumnTier.sum_between


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("recorded_between", lambda tier, edges: [sum(tier._counts)] * (len(edges) - 1)),
        ("sum_between", staticmethod(first_tier_alone)),
        ("_buckets", lambda tier: dict.fromkeys(tier._starts, ValueCounts({"": 1}))),
    ],
)
def test_the_law_of_columns_notices_its_mutant(monkeypatch: pytest.MonkeyPatch, name: str, mutant: object) -> None:
    monkeypatch.setattr(ColumnTier, name, mutant)
    drawn = st.tuples(saids(), st.just(NARROW), st.just(1), drawn_hours)
    assert laws.noticed(columns_answer_as_buckets, drawn)


def test_a_closed_part_is_read_as_columns() -> None:
    said = Said(0, (("ref", "a"),), 2, None)
    row = lived_breakdown([([said], 1), ([replace(said, t=DAY_S)], 9)], BREAKDOWN)
    read = decode_parts(encode_parts(row, BREAKDOWN))
    assert [type(tier) for tier in read.dimensions["ref"][1:] if tier] == [ColumnTier]
    assert sum_of_ref(read) == {"a": 4}


def sum_of_ref(row: Breakdown) -> dict[str, int]:
    return dict(breakdown_total(row, "ref", 0, 10 * DAY_S, BREAKDOWN).values)


def test_tiers_of_different_tables_have_no_sum() -> None:
    tiers = [ColumnTier([value], [0], [0, 1], b"\0", b"\1", {}) for value in "ab"]
    with pytest.raises(ValueError, match="different tables"):
        ColumnTier.sum_between(tiers, 0, 1)


# A closed part of one bucket, of day 9: `ref` with the texts a and b in its table, each said once.
BUCKET = bytes((0x41, 0, 1, 1, 9, 1, 1, 4, 3)) + b"a\0b" + bytes((1, 4)) + bytes((1, 0, 1)) + b"\0"


def test_the_closed_part_that_is_damaged_below_is_sound() -> None:
    dimensions, _ = read_closed(BUCKET, 4)
    assert dimensions["ref"][1] == {9 * DAY_S: ({"a": 1, "b": 1}, 0, 0)}


@pytest.mark.parametrize(
    ("sound", "damaged", "said"),
    [
        (b"\1\0\1\0", b"\1\0\0\0", "a value twice in a bucket"),
        (b"\1\0\1\0", b"\1\0\2\0", "none of the 2 in the table"),
        (b"\1\0\1\0", b"\1\0\1\1\1\0", "a count of 0"),
        (b"a\0b", b"a\0a", "a value twice in the table"),
        (b"\1\0\1\0", b"\1\0\1\3", "a column of 3 bytes"),
        (b"\1\0\1\0", b"\1\0", "a column of 2 bytes, 1 are there"),
    ],
)
def test_columns_that_are_none_are_refused(sound: bytes, damaged: bytes, said: str) -> None:
    assert BUCKET.count(sound) == 1
    with pytest.raises(RowCorrupt, match=said):
        read_closed(BUCKET.replace(sound, damaged), 4)


counts = st.one_of(st.integers(1, 1), st.integers(1, 300), st.integers(1, MAX_COUNT))


@given(st.lists(counts, max_size=9), st.integers(0, 40), st.integers(1, 9))
def test_a_column_that_is_passed_over_ends_where_it_ends_when_read(values: list[int], cut: int, n: int) -> None:
    data = bytearray(b"?")
    put_sized_column(data, values)
    assert after_sized_column(bytes(data), 1, len(values)) == sized_column(bytes(data), 1, len(values))[1] == len(data)
    broken = bytes(data[: max(1, len(data) - cut)])
    ends: list[int | str] = []
    for read in (after_sized_column, lambda *given: sized_column(*given)[1]):
        try:
            ends.append(read(broken, 1, n))
        except (ValueError, IndexError) as error:
            ends.append(str(error))
    assert ends[0] == ends[1]


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 4), max_size=30), st.integers(1, 40))
def test_the_greatest_values_are_the_first_of_all_in_order(values: dict[str, int], most: int) -> None:
    ranked = sorted(values, key=lambda value: (-values[value], value))
    assert greatest_values(values, most) == ranked[:most]
