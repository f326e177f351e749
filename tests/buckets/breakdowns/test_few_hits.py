"""A page that strangers see names no value with few hits, and what is left over determines none."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns.breakdown import NOT_GIVEN, ValueCounts, land
from clickcurve.buckets.breakdowns.few_hits import LEAST, hide_few, hide_few_of
from clickcurve.buckets.ladder import fold_day
from tests.buckets.breakdowns.given_breakdowns import NARROW, Said, delta_of_said, said
from tests.buckets.given import moments

NAMES = st.sampled_from([NOT_GIVEN, *"abcdefgh"])
BUCKETS = st.builds(
    ValueCounts,
    st.dictionaries(NAMES, st.integers(1, 12) | st.integers(1, 10**9)),
    st.integers(0, 30),
    st.just(0),
)


@given(BUCKETS, st.integers(LEAST, 12))
def test_who_is_named_has_enough_and_every_sum_and_bound_holds(counts: ValueCounts, least: int) -> None:
    shown = hide_few_of(counts, least)
    assert shown.recorded() == counts.recorded()
    assert all(count >= least for value, count in shown.values.items() if value != NOT_GIVEN)
    assert shown.values.get(NOT_GIVEN) == counts.values.get(NOT_GIVEN)
    assert shown.slack <= shown.other
    for value, count in counts.values.items():
        assert shown.values.get(value, 0) in (0, count)
        assert count <= shown.values.get(value, 0) + shown.slack
    if all(count >= least for value, count in counts.values.items() if value != NOT_GIVEN):
        assert shown == counts, "nothing to hide"


def assignments(names: int, most: int) -> list[tuple[int, ...]]:
    return list(product(range(most + 1), repeat=names))


@pytest.mark.parametrize(("names", "most"), [(2, 14), (3, 12), (4, 8)])
@pytest.mark.parametrize("least", [LEAST, 4, 5])
def test_no_bucket_determines_a_count_below_the_least(names: int, most: int, least: int) -> None:
    """By all buckets of so many names: whoever knows the names, the rule and what is shown knows no hidden count.

    Buckets whose other assignments may have counts beyond `most` are left out.
    """
    alike: dict[ValueCounts, list[tuple[int, ...]]] = defaultdict(list)
    for counts in assignments(names, most):
        bucket = ValueCounts({"abcd"[n]: count for n, count in enumerate(counts) if count})
        shown = hide_few_of(bucket, least)
        alike[shown._replace(values=tuple(sorted(shown.values.items())))].append(counts)  # type: ignore[arg-type]
    judged = 0
    for same in alike.values():
        if max(map(max, same)) == most:
            continue
        for n in range(names):
            possible = {counts[n] for counts in same}
            assert not (len(possible) == 1 and 0 < min(possible) < least), same
            judged += len(possible) > 1
    assert judged > 20


def test_a_smaller_least_would_tell_two_values_of_one_hit_each() -> None:
    """The reason for LEAST: of two known names with 2 hits together, both hidden, each must have one."""
    shown = [hide_few_of(ValueCounts(values), 2).values for values in ({"a": 1, "b": 1}, {"a": 2}, {"b": 2})]
    assert shown == [{}, {"a": 2}, {"b": 2}]


@given(st.data(), moments, st.integers(LEAST, 300))
def test_each_bucket_is_judged_by_itself(data: st.DataObject, now: int, least: int) -> None:
    """So any answer is a sum of such buckets, and so is the difference of any two."""
    hits: list[Said] = data.draw(said(st.just(now)))
    row = land(NARROW.empty, [delta_of_said(hits)], fold_day(now), NARROW)
    shown = hide_few(row, least)
    for name, tiers in row.dimensions.items():
        for before, after in zip(tiers, shown.dimensions[name], strict=True):
            assert dict(after) == {start: hide_few_of(bucket, least) for start, bucket in before.items()}
    assert shown._replace(dimensions=row.dimensions) == row
