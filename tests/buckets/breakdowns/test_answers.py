"""What breakdowns answer, against a plain list of raw hits."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.breakdowns.answers import (
    Bounds,
    VisitorSpan,
    breakdown_total,
    recorded_between,
    standard_error,
    values_between,
    visitor_days,
    visitors_between,
    whole_buckets,
)
from clickcurve.buckets.breakdowns.breakdown import (
    BREAKDOWN,
    BoundedLadder,
    Breakdown,
    BreakdownDelta,
    apply_breakdown,
    fold_breakdown,
    merge_breakdowns,
)
from clickcurve.buckets.breakdowns.visitors import STANDARD_ERROR, VisitorDays
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from tests.buckets.breakdowns.given_breakdowns import (
    Said,
    any_bounded,
    flushes_of,
    lived_breakdown,
    owners_saids,
)
from tests.buckets.given import at, law

NOON = at("2024-03-15T12:00")
TODAY = NOON // DAY_S
Owners = list[tuple[list[Said], list[int], int]]


def merged(owners: Owners, bounded: BoundedLadder) -> Breakdown:
    return merge_breakdowns(
        [lived_breakdown(flushes_of(found, days), bounded) for found, days, _ in owners], 0, bounded
    )


@st.composite
def spans(draw: st.DrawFn) -> tuple[Owners, int, int]:
    owners = draw(owners_saids())
    around = draw(st.sampled_from([hit.t for found, _, _ in owners for hit in found] or [NOON]))
    start = max(0, around - draw(st.integers(0, 90 * 24)) * HOUR_S)
    return owners, start, around + draw(st.integers(-5, 90 * 24)) * HOUR_S


@law
@given(spans(), any_bounded)
def test_values_and_other_of_a_span_are_the_hits_of_its_whole_buckets(
    drawn: tuple[Owners, int, int], bounded: BoundedLadder
) -> None:
    owners, start, end = drawn
    row = merged(owners, bounded)
    found = breakdown_total(row, "ref", start, end, bounded)
    assert (found.start, found.end) == whole_buckets(start, end, row.fold_day, bounded.ladder)
    if start < end:
        assert found.start <= start < end <= found.end
    truth: Counter[str] = Counter()
    for hit in (hit for hits, _, _ in owners for hit in hits):
        if found.start <= hit.t < found.end:
            truth[dict(hit.values)["ref"]] += hit.count
    assert found.recorded == truth.total()
    assert found.slack <= found.other
    for value in {*truth, *found.values, "never said"}:
        at_least, at_most = found.bounds(value)
        assert at_least <= truth[value] <= at_most
    assert found.bounds("") == (truth[""], truth[""])
    assert sum(found.values.values()) + found.other == found.recorded


@law
@given(spans(), any_bounded, st.sampled_from(["", "DE", "zz", "never said"]))
def test_a_curve_of_a_value_adds_up_to_its_total(
    drawn: tuple[Owners, int, int], bounded: BoundedLadder, value: str
) -> None:
    owners, start, end = drawn
    row = merged(owners, bounded)
    found = breakdown_total(row, "country", start, end, bounded)
    edges = [found.start]
    while edges[-1] < found.end:
        edges.append(bounded.ladder.kept(edges[-1], row.fold_day)[1])
    points = values_between(row, "country", [value], edges)
    assert len(points) == len(edges) - 1
    sums = Bounds(sum(point.at_least for point in points), sum(point.at_most for point in points))
    assert sums == found.bounds(value)
    for point, first, last in zip(points, edges, edges[1:], strict=False):
        truth = sum(
            hit.count
            for hits, _, _ in owners
            for hit in hits
            if first <= hit.t < last and dict(hit.values)["country"] == value
        )
        assert point.at_least <= truth <= point.at_most
    assert sum(recorded_between(row, "country", edges)) == found.recorded


def test_what_was_never_said_has_no_hits() -> None:
    row = apply_breakdown(BREAKDOWN.empty, BreakdownDelta({"ref": {NOON: {"a": 2}}}), 1, TODAY, 0, BREAKDOWN)
    nothing = breakdown_total(row, "os", NOON, NOON + HOUR_S, BREAKDOWN)
    assert (nothing.values, nothing.other, nothing.bounds("a")) == ({}, 0, Bounds(0, 0))
    assert values_between(row, "os", ["a"], [NOON, NOON + HOUR_S]) == [Bounds(0, 0)]
    for edges in ([], [NOON]):
        assert not values_between(row, "ref", ["a"], edges)
        assert not recorded_between(row, "ref", edges)
    assert breakdown_total(row, "ref", NOON, NOON, BREAKDOWN).recorded == 0
    assert breakdown_total(row, "ref", NOON + 60, NOON + 61, BREAKDOWN).values == {"a": 2}


@pytest.mark.parametrize(
    ("ago_days", "length_s", "expected"),
    [
        (0, 60, (NOON, NOON + HOUR_S)),
        (5, 60, (at("2024-03-10"), at("2024-03-11"))),
        (60, 60, (at("2024-01-15"), at("2024-01-22"))),
        (430, 60, (at("2023-01-01"), at("2023-02-01"))),
        (5, 5 * DAY_S, (at("2024-03-10"), NOON)),
    ],
)
def test_a_span_is_answered_by_whole_buckets(ago_days: int, length_s: int, expected: tuple[int, int]) -> None:
    start = NOON - ago_days * DAY_S
    assert whole_buckets(start, start + length_s, TODAY, BREAKDOWN.ladder) == expected


# --- visitors -------------------------------------------------------------------------------------------------------
def visited(days: dict[int, int], known: int, seed: int) -> Breakdown:
    """A row of an owner whose days before TODAY had so many visitors."""
    row = BREAKDOWN.empty
    for mark, (ago, count) in enumerate(sorted(days.items(), reverse=True), 1):
        day = (TODAY - ago) * DAY_S
        chance = Random(seed)
        members = {chance.getrandbits(40) for _ in range(count)}
        row = apply_breakdown(row, BreakdownDelta({}, {day: members}, {day: known}), mark, TODAY - ago, 0, BREAKDOWN)
    return fold_breakdown(row, TODAY, BREAKDOWN)


def test_visitors_of_days_add_up_and_owners_bound_them() -> None:
    one, two = visited({0: 5, 3: 7, 60: 2, 61: 3}, 1, 1), visited({0: 5, 3: 4}, 2, 1)
    month = TODAY * DAY_S - 90 * DAY_S
    alone = visitors_between(one, month, NOON, BREAKDOWN)
    assert alone == [
        VisitorSpan(at("2024-01-08"), at("2024-01-15"), VisitorDays.of_owner(3, known=1)),
        VisitorSpan(at("2024-01-15"), at("2024-01-22"), VisitorDays.of_owner(2, known=1)),
        VisitorSpan(at("2024-03-12"), at("2024-03-13"), VisitorDays.of_owner(7, known=1)),
        VisitorSpan(at("2024-03-15"), at("2024-03-16"), VisitorDays.of_owner(5, known=1)),
    ]
    assert visitor_days(alone) == VisitorDays.of_owner(17, known=4)
    both = visitors_between(merge_breakdowns([one, two], TODAY, BREAKDOWN), month, NOON, BREAKDOWN)
    assert both[-1].visitors == VisitorDays.of_owner(5, known=3)  # the same five: a set still
    assert both[-2].visitors == VisitorDays(None, False, 3, 7, 11)  # a number of each owner
    assert visitor_days(both) == VisitorDays(None, False, 8, 17, 21)
    assert visitors_between(one, NOON, NOON, BREAKDOWN) == []
    assert [span.start for span in visitors_between(one, at("2024-03-12"), at("2024-03-13"), BREAKDOWN)] == [
        at("2024-03-12")
    ]


def test_a_busy_day_is_estimated_and_says_so() -> None:
    row = visited({0: 900, 5: 900}, 2_000, 1)
    spans = visitors_between(row, 0, NOON, BREAKDOWN)
    for span in spans:
        estimate = span.visitors.estimate()
        assert estimate is not None and not span.visitors.exact
        assert abs(estimate / 900 - 1) < 4 * STANDARD_ERROR
        assert 640 <= span.visitors.at_least <= 900 and span.visitors.at_most == 2_000
    assert standard_error(spans[:1]) == math.ceil(STANDARD_ERROR * (spans[0].visitors.size or 0))
    assert 1.3 * standard_error(spans[:1]) < standard_error(spans) < 1.5 * standard_error(spans[:1])
    assert row.days[TODAY * DAY_S].visitors.registers
