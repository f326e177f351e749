"""Why a total changed, against a plain list of all hits: the parts add up, and every bound is true."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from clickcurve.answers.breakdowns import DimensionAnswer, HiddenChange
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from query.breakdowns.causes import ComparedSpans, compare_spans, count_spans, find_causes
from query.breakdowns.unrecorded import BreakdownRow
from query.comparison import TimeSpan
from tests.power import examples
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.query.breakdowns.test_against_raw_attributes import worlds
from tests.query.queried_nodes import subject
from tests.query.test_against_raw_hits import ages

NOON = 1_772_366_400  # a noon, UTC


def row_of(nodes: AttributeNodes, key: str | None) -> BreakdownRow:
    return asyncio.run(nodes.breakdowns.read(subject(key).stored, nodes.now, tuple(nodes.since)))


def causes_in(
    nodes: AttributeNodes, key: str | None, dimension: str, before: TimeSpan, after: TimeSpan, limit: int = 1_000
) -> tuple[ComparedSpans, DimensionAnswer]:
    row = row_of(nodes, key)
    spans = compare_spans(row, before, after)
    return spans, find_causes(row, dimension, spans, limit)


@st.composite
def spans(draw: st.DrawFn, now: int) -> TimeSpan:
    start, end = sorted(max(0, now - draw(ages)) for _ in range(2))
    return start, max(end, start + draw(st.sampled_from([1, HOUR_S, 7 * DAY_S])))


@settings(max_examples=examples(300))
@given(st.data(), st.sampled_from(["ref", "country"]), st.sampled_from(["k", None]))
def test_changes_add_up_and_every_bound_is_true(data: st.DataObject, dimension: str, key: str | None) -> None:
    nodes = data.draw(worlds())
    if not nodes.everything:
        nodes.accept(AttributeHit("k", nodes.now))
    before, after = data.draw(spans(nodes.now)), data.draw(spans(nodes.now))
    compared, found = causes_in(nodes, key, dimension, before, after)
    assert compared.before[0] <= before[0] and before[1] <= compared.before[1]
    assert compared.after[0] <= after[0] and after[1] <= compared.after[1]

    hits = [nodes.of(key, dimension, *span) for span in (compared.before, compared.after)]
    (was, unrecorded_before), (now, unrecorded_after) = (nodes.truth(each, dimension) for each in hits)
    change = sum(hit.count for hit in hits[1]) - sum(hit.count for hit in hits[0])
    assert (
        sum(cause.change for cause in found.causes) + found.not_shown.change + found.other + found.unrecorded == change
    )
    if nodes.since[dimension] == 0:
        assert found.unrecorded == unrecorded_after - unrecorded_before == 0
    for cause in found.causes:
        assert cause.at_least <= now[cause.value] - was[cause.value] <= cause.at_most
        assert cause.at_least <= cause.change <= cause.at_most
        assert cause.change == cause.after - cause.before
        assert cause.before <= was[cause.value] and cause.after <= now[cause.value]
    assert 0.0 <= found.explains <= 1.0


@settings(max_examples=examples(150))
@given(st.data())
def test_a_cause_has_truly_changed_by_more_than_all_together(data: st.DataObject) -> None:
    nodes = data.draw(worlds())
    before, after = data.draw(spans(nodes.now)), data.draw(spans(nodes.now))
    compared, found = causes_in(nodes, "k", "country", before, after)
    pieces = (compared.only_before, compared.only_after)
    hits = [[hit for span in each for hit in nodes.of("k", "country", *span)] for each in pieces]
    totals = [sum(hit.count for hit in each) for each in hits]
    growth = totals[1] / totals[0] if totals[0] else 0.0
    (was, _), (now, _) = (nodes.truth(each, "country") for each in hits)
    for cause in found.causes:
        change = now[cause.value] - was[cause.value]
        assert change and (now[cause.value] - was[cause.value] * growth) * change > 0


def week(nodes: AttributeNodes, start: int, counts: dict[str, int]) -> None:
    for value, count in counts.items():
        nodes.accept(AttributeHit("k", start + HOUR_S, count, said=(("ref", value),)))


def two_weeks(before: dict[str, int], after: dict[str, int]) -> tuple[AttributeNodes, TimeSpan, TimeSpan]:
    midnight = NOON - NOON % DAY_S
    nodes = AttributeNodes(NOON, {"ref": 0})
    week(nodes, midnight - 14 * DAY_S, before)
    week(nodes, midnight - 7 * DAY_S, after)
    return nodes, (midnight - 14 * DAY_S, midnight - 7 * DAY_S), (midnight - 7 * DAY_S, midnight)


def test_a_new_referrer_explains_the_change() -> None:
    nodes, before, after = two_weeks({"a": 100, "b": 50}, {"a": 110, "b": 55, "t.example": 940})
    _, found = causes_in(nodes, "k", "ref", before, after)
    assert astuple(found.causes[0])[:4] == ("t.example", 940, 940, 940)
    assert found.explains > 0.9


def test_common_growth_names_nothing() -> None:
    nodes, before, after = two_weeks({"a": 100, "b": 50}, {"a": 200, "b": 100})
    _, found = causes_in(nodes, "k", "ref", before, after)
    assert found == DimensionAnswer("ref", 0.0, [], HiddenChange(2, 150), 0, 0)


def test_what_is_not_shown_is_summed() -> None:
    nodes, before, after = two_weeks({"a": 100, "b": 50, "c": 9}, {"a": 300, "b": 5, "c": 9})
    _, found = causes_in(nodes, "k", "ref", before, after, limit=1)
    assert [cause.value for cause in found.causes] == ["a"]
    assert found.not_shown.values == 2
    assert found.causes[0].change + found.not_shown.change == 155


def test_spans_that_share_buckets_are_compared_by_the_rest() -> None:
    nodes, before, after = two_weeks({"a": 100}, {"a": 130})
    week(nodes, before[0], {"b": 50})
    week(nodes, after[0], {"b": 20})
    week(nodes, before[0] - 4 * DAY_S, {"b": 40})
    _, found = causes_in(nodes, "k", "ref", (before[0] - 4 * DAY_S, before[1]), (before[0], after[1]))
    assert list(map(astuple, found.causes)) == [("a", 130, 130, 130, 100, 230), ("b", -20, -20, -20, 90, 70)]


def test_a_total_that_did_not_change_is_explained_by_nothing() -> None:
    nodes, before, after = two_weeks({"a": 100, "b": 50}, {"a": 50, "b": 100})
    _, found = causes_in(nodes, "k", "ref", before, after)
    assert found.explains == 0.0
    assert sorted(cause.change for cause in found.causes) == [-50, 50]


def test_all_links_are_asked_as_a_link_is() -> None:
    nodes, before, after = two_weeks({"a": 1}, {"a": 1, "b": 4})
    row = row_of(nodes, None)
    assert count_spans(row, [after], "ref") - count_spans(row, [before], "ref") == 4
    assert replace(causes_in(nodes, None, "ref", before, after)[1], explains=1.0).causes[0].value == "b"
