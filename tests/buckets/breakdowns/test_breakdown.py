"""Breakdowns, case by case: what is trimmed, where hits land, what erasures do, and the check against counts."""

from __future__ import annotations

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
    trim_all,
)
from clickcurve.buckets.breakdowns.check import check_against_counts, check_breakdown, common_span
from clickcurve.buckets.breakdowns.visitors import VisitorDays
from clickcurve.buckets.ladder import CLICKS, DAY_S, HOUR_S, Ladder
from clickcurve.buckets.row import EMPTY, Delta, Row, add, fold
from tests.buckets.breakdowns.given_breakdowns import NARROW, Said, flushes_of, lived_breakdown, saids
from tests.buckets.given import at, law, moments

NOON = at("2024-03-15T12:00")
TODAY = NOON // DAY_S
OF_COUNTS = [
    "60:1,300:2,3600:31,86400:92,week:366,month",
    "60:1,300:2,3600:31,86400:400,week:1830,month",
    "60:1,300:1,3600:31,week:366,month",
]


def said_at(t: int, values: dict[str, int], dimension: str = "ref") -> BreakdownDelta:
    return BreakdownDelta({dimension: {t: values}})


# --- trimming -------------------------------------------------------------------------------------------------------
def test_the_greatest_values_stay_and_equals_by_name() -> None:
    counts = ValueCounts({"d": 5, "c": 2, "b": 2, "a": 2, "e": 1}, 10, 3)
    assert trim(counts, 5) is counts
    assert trim(counts, 3) == ValueCounts({"d": 5, "a": 2, "b": 2}, 13, 5)
    assert trim(counts, 1) == ValueCounts({"d": 5}, 17, 5)
    assert trim(counts, 0) == ValueCounts({}, 22, 8)


def test_not_given_is_never_trimmed_and_outside_the_cap() -> None:
    counts = ValueCounts({"": 1, "a": 3, "b": 2})
    assert trim(counts, 2) is counts
    assert trim(counts, 1) == ValueCounts({"": 1, "a": 3}, 2, 2)
    assert trim(counts, 0) == ValueCounts({"": 1}, 5, 3)


@law
@given(st.dictionaries(st.text(max_size=2), st.integers(1, 9), max_size=12), st.integers(0, 12), st.integers(0, 9))
def test_trimming_is_that_of_a_sorted_list(values: dict[str, int], cap: int, slack: int) -> None:
    ranked = sorted(((value, count) for value, count in values.items() if value), key=lambda item: (-item[1], item[0]))
    kept, gone = dict(ranked[:cap]), [count for _, count in ranked[cap:]]
    if "" in values:
        kept[""] = values[""]
    expected = ValueCounts(kept, slack + sum(gone), slack + max(gone, default=0))
    assert trim(ValueCounts(values, slack, slack), cap) == expected


# --- landing --------------------------------------------------------------------------------------------------------
def test_hits_land_in_the_tier_that_holds_their_hour() -> None:
    row = fold_breakdown(BREAKDOWN.empty, TODAY, BREAKDOWN)
    for days, tier, start in (
        (0, 0, NOON),
        (5, 1, at("2024-03-10")),
        (60, 2, at("2024-01-15")),
        (500, 3, at("2022-11-01")),
    ):
        row = land(row, [said_at(NOON - days * DAY_S, {"a": 2})], TODAY, BREAKDOWN)
        assert row.dimensions["ref"][tier] == {start: ValueCounts({"a": 2})}
    assert row.first == NOON - 500 * DAY_S
    assert check_breakdown(row, BREAKDOWN) == []


def test_visitors_join_their_day_before_it_becomes_a_number_and_not_later() -> None:
    day = (TODAY - 1) * DAY_S
    row = apply_breakdown(BREAKDOWN.empty, BreakdownDelta({}, {day: {1, 2, 3}}, {day: 4}), 1, TODAY, 0, BREAKDOWN)
    assert row.days[day].visitors.size() == 3
    more = BreakdownDelta({}, {day: {3, 9}, day - DAY_S: set()}, {day: 2})
    for mark in (2, 3):
        row = apply_breakdown(row, more, mark, TODAY + 1, 0, BREAKDOWN)
        assert row.days == {}
        assert row.visitor_days == ({day: VisitorDays.of_owner(4, known=6)}, {}, {})


@pytest.mark.parametrize(
    "delta",
    [
        said_at(NOON + 60, {"a": 1}),
        said_at(-HOUR_S, {"a": 1}),
        said_at(NOON, {"a": 0}),
        said_at(NOON, {}),
        BreakdownDelta({}, {NOON: {1}}),
        BreakdownDelta({}, {}, {TODAY * DAY_S: 0}),
    ],
)
def test_a_delta_that_is_not_one_is_refused(delta: BreakdownDelta) -> None:
    with pytest.raises(ValueError, match="start of"):
        land(BREAKDOWN.empty, [delta], 0, BREAKDOWN)


def test_a_delta_knows_its_oldest_time() -> None:
    assert BreakdownDelta({}).oldest() is None
    assert BreakdownDelta({"ref": {}}, {DAY_S: {1}}, {2 * DAY_S: 1}).oldest() == DAY_S
    assert BreakdownDelta({"ref": {HOUR_S: {"a": 1}}, "os": {7_200: {"b": 1}}}, {DAY_S: {1}}).oldest() == HOUR_S


@pytest.mark.parametrize(
    ("ladder", "caps"),
    [
        ("86400", (1,)),
        ("60:1,month", (1, 1)),
        ("3600:1,7200:2,month", (1, 1, 1)),
        ("week:9,month", (1, 1)),
        ("3600:1,month", (1,)),
        ("3600:1,month", (1, 0)),
    ],
)
def test_a_ladder_that_a_breakdown_cannot_have_is_refused(ladder: str, caps: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"breakdown|caps"):
        BoundedLadder(Ladder.parse(ladder), caps)


# --- erasures, merges, caps -----------------------------------------------------------------------------------------
def test_an_erasure_starts_again_empty_and_keeps_the_fold_day() -> None:
    row = apply_breakdown(BREAKDOWN.empty, said_at(NOON, {"a": 1}), 1, TODAY, 0, BREAKDOWN)
    row = apply_breakdown(trim_all(row, row.shift + 1, BREAKDOWN), said_at(NOON, {"b": 1}), 2, TODAY - 1, 77, BREAKDOWN)
    assert row == Breakdown(TODAY, 2, 77, NOON, 0, {"ref": ({NOON: ValueCounts({"b": 1})}, {}, {}, {})}, {}, ({},) * 3)
    assert (
        apply_breakdown(row, said_at(NOON, {"c": 1}), 3, TODAY, 77, BREAKDOWN).dimensions["ref"][0][NOON].recorded()
        == 2
    )


def test_a_merge_of_none_is_empty_and_of_one_is_the_row_without_its_mark() -> None:
    assert merge_breakdowns([], 5, BREAKDOWN) == BREAKDOWN.empty._replace(fold_day=5)
    row = apply_breakdown(BREAKDOWN.empty, said_at(NOON, {"a": 1}), 1, TODAY, 3, BREAKDOWN)
    assert merge_breakdowns([row], 0, BREAKDOWN) == row._replace(mark=0)


@law
@given(saids())
def test_halved_caps_hold_at_once_and_for_good(history: tuple[list[Said], list[int]]) -> None:
    found, days = history
    row = trim_all(lived_breakdown(flushes_of(found, days), NARROW), 1, NARROW)
    assert check_breakdown(row, NARROW) == []
    assert NARROW.caps_of(row.shift) == (1, 1, 1, 1)
    later = fold_breakdown(row, row.fold_day + 33, NARROW)
    assert later.shift == row.shift
    assert check_breakdown(later, NARROW) == []


# --- beside the row of counts ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("of_counts", OF_COUNTS)
@law
@given(moment=moments, ago=st.integers(0, 3_000 * 24))
def test_edges_of_a_breakdown_are_edges_of_counts(of_counts: str, moment: int, ago: int) -> None:
    ladder, day = Ladder.parse(of_counts), moment // DAY_S
    start, end = BREAKDOWN.ladder.kept(max(0, moment - ago * HOUR_S), day)
    assert ladder.kept(start, day)[0] == start
    assert ladder.kept(end - 1, day)[1] == end
    assert common_span(start, end, day, BREAKDOWN.ladder, ladder) == (start, end)


def counts_of(found: list[Said], ladder: Ladder, bots: bool = False) -> Row:
    minutes: dict[int, int] = {}
    for hit in found:
        minutes[hit.t] = minutes.get(hit.t, 0) + hit.count
    return add(EMPTY, Delta({}, minutes) if bots else Delta(minutes, {}), ladder)


@law
@given(saids(), st.sampled_from([*OF_COUNTS, "60:1,month", "60:3,604800:20,6048000"]), st.data())
def test_a_breakdown_records_no_more_than_the_counts_have(
    history: tuple[list[Said], list[int]], of_counts: str, data: st.DataObject
) -> None:
    found, days = history
    ladder = Ladder.parse(of_counts)
    breakdown = lived_breakdown(flushes_of(found, days), BREAKDOWN)
    counts = fold(counts_of(found, ladder), data.draw(st.integers(0, breakdown.fold_day + 40)), ladder)
    assert check_against_counts(breakdown, counts, BREAKDOWN, ladder) == []
    if not found:
        return
    less = data.draw(st.sampled_from(found))
    rest = [hit for hit in found if hit is not less]
    broken = check_against_counts(breakdown, counts_of(rest, ladder), BREAKDOWN, ladder)
    assert len(broken) == 3  # in each dimension, the bucket of the hit that the counts lack
    assert all(" records " in said and "the row of counts has" in said for said in broken)


def test_bots_names_are_compared_with_bots() -> None:
    found = [Said(NOON, (("bot", "crawler"),), 5, None)]
    row = lived_breakdown([(found, TODAY)], BREAKDOWN)
    assert check_against_counts(row, counts_of(found, CLICKS, bots=True), BREAKDOWN, CLICKS) == []
    assert check_against_counts(row, counts_of(found, CLICKS), BREAKDOWN, CLICKS) == [
        f"bot records 5 hits in [{NOON}, {NOON + HOUR_S}), the row of counts has 0"
    ]


def test_hits_that_said_nothing_are_in_the_counts_only() -> None:
    found = [Said(NOON, (("ref", "a"),), 5, None)]
    row = lived_breakdown([(found, TODAY)], BREAKDOWN)
    plain = counts_of([*found, Said(NOON, (), 7, None)], CLICKS)
    assert check_against_counts(row, plain, BREAKDOWN, CLICKS) == []


# --- the check of a breakdown alone ---------------------------------------------------------------------------------
SOUND = lived_breakdown(
    [([Said(NOON, (("ref", "a"),), 5, 9), Said(NOON - 9 * DAY_S, (("ref", "b"),), 1, 3)], TODAY)], BREAKDOWN
)


def with_hour(start: int, counts: ValueCounts) -> Breakdown:
    return SOUND._replace(dimensions={"ref": ({start: counts}, *SOUND.dimensions["ref"][1:])})


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (SOUND._replace(fold_day=-1), "fold_day is -1"),
        (SOUND._replace(mark=-1), "mark is -1, below 0"),
        (SOUND._replace(dimensions={"ref": ({},)}), "ref has 1 tiers, the ladder 4"),
        (with_hour(NOON - 9 * DAY_S, ValueCounts({"a": 1})), "is not held by this tier"),
        (with_hour(NOON + 60, ValueCounts({"a": 1})), "is not the start of a bucket"),
        (with_hour(NOON, ValueCounts({"a": 0})), "a count of 0"),
        (with_hour(NOON, ValueCounts({}, 5, 0)), "0 values, other 5, slack 0"),
        (with_hour(NOON, ValueCounts({"a": 1}, 5, 6)), "1 values, other 5, slack 6"),
        (with_hour(NOON, ValueCounts({})), "0 values, other 0, slack 0"),
        (with_hour(NOON, ValueCounts({f"v{n}": 1 for n in range(301)})), "301 values, 300 at most"),
        (SOUND._replace(first=None), "first hit None, but 2 buckets"),
        (SOUND._replace(first=NOON), "is not in the first bucket"),
        (SOUND._replace(days={NOON: SOUND.days[TODAY * DAY_S]}), "not the start of a UTC day"),
        (SOUND._replace(days={}, visitor_days=({NOON: VisitorDays.of_owner(1)}, {}, {})), "is not held by this tier"),
        (
            SOUND._replace(visitor_days=({(TODAY - 9) * DAY_S: VisitorDays(None, False, 2, 1, 2)}, {}, {})),
            "several owners",
        ),
    ],
)
def test_the_check_names_what_is_broken(row: Breakdown, said: str) -> None:
    assert check_breakdown(SOUND, BREAKDOWN) == []
    assert any(said in sentence for sentence in check_breakdown(row, BREAKDOWN))
