"""A range is compared with one that is as long, on the same weekdays, up to the same part of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.answers.written import as_csv
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import DAY_S, HOUR_S
from query.comparison import Compare, span_before
from query.zones import UTC_ZONE, zone
from tests.power import examples
from tests.query.queried_nodes import QueriedNodes, run, subject

VIENNA = zone("Europe/Vienna")


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


NOW = at("2026-10-28T14:37:20")  # a Wednesday, three days after clocks were set back in Vienna


@pytest.mark.parametrize(
    ("compare", "start", "end", "before"),
    [
        ("before", "2026-10-01", "2026-10-29", ("2026-09-03", "2026-10-01")),  # 28 days
        ("before", "2026-09-29", "2026-10-29", ("2026-08-25", "2026-09-24")),  # 30 days: five weeks back
        ("before", "2026-07-30", "2026-10-29", ("2026-04-30", "2026-07-30")),  # 91 days
        ("before", "2026-10-26", "2026-10-29", ("2026-10-23", "2026-10-26")),  # 3 days
        ("before", "2026-10-28T10:00", "2026-10-28T14:00", ("2026-10-28T06:00", "2026-10-28T10:00")),
        ("before_exact", "2026-09-29", "2026-10-29", ("2026-08-30", "2026-09-29")),
        ("before_exact", "2026-10-01", "2026-11-01", ("2026-09-01", "2026-10-01")),  # whole months
        ("before_exact", "2025-12-01", "2026-03-01", ("2025-09-01", "2025-12-01")),
        ("year", "2026-10-28", "2026-10-29", ("2025-10-29", "2025-10-30")),
    ],
)
def test_a_range_that_has_ended(compare: str, start: str, end: str, before: tuple[str, str]) -> None:
    span = at(start), at(end)
    assert span_before(Compare(compare), span, span[1], UTC_ZONE) == tuple(map(at, before))


def test_whole_days_are_moved_on_the_clock_of_the_zone() -> None:
    week = VIENNA.instant(datetime(2026, 10, 22)), VIENNA.instant(datetime(2026, 10, 29))
    assert week[1] - week[0] == 7 * DAY_S + HOUR_S
    before = VIENNA.instant(datetime(2026, 10, 15)), week[0]
    assert span_before(Compare.before, week, week[1], VIENNA) == before
    day = VIENNA.instant(datetime(2026, 10, 25)), VIENNA.instant(datetime(2026, 10, 26))
    noon = VIENNA.instant(datetime(2026, 10, 25, 12))
    yesterday = VIENNA.instant(datetime(2026, 10, 24))
    assert span_before(Compare.before, day, noon, VIENNA) == (yesterday, yesterday + 12 * HOUR_S), "up to the same noon"
    hours = day[0] + HOUR_S, day[0] + 25 * HOUR_S  # 24 hours, in which the clock shows 23
    assert span_before(Compare.before, hours, hours[1], VIENNA) == (hours[0] - DAY_S, hours[0])


@settings(max_examples=examples(200))
@given(
    st.sampled_from(["UTC", "Europe/Vienna", "Asia/Kolkata", "Australia/Lord_Howe", "America/New_York"]),
    st.integers(1, 400),
    st.integers(0, 1_000),
    st.integers(0, 500 * DAY_S),
    st.sampled_from(Compare),
)
def test_days_lie_on_the_same_weekdays_and_nothing_overlaps(
    name: str, days: int, shift: int, elapsed_s: int, compare: Compare
) -> None:
    where, first = zone(name), datetime(2024, 1, 1) + timedelta(days=shift)
    span = where.instant(first), where.instant(first + timedelta(days=days))
    until = min(span[1], span[0] + elapsed_s)
    start, end = span_before(compare, span, until, where)
    assert 0 <= start <= end
    assert where.wall(start).time() == first.time()
    if compare is Compare.year or (days >= 7 and compare is Compare.before):
        assert where.wall(start).weekday() == first.weekday()
    if compare is not Compare.year:
        assert end <= span[0]
        assert compare is not Compare.before_exact or until < span[1] or end == span[0]


def test_a_month_under_way_is_compared_with_the_same_part_of_the_month_before_and_no_day_more() -> None:
    march = at("2026-03-01"), at("2026-04-01")
    for until, end in (("2026-03-10T12:00", "2026-02-10T12:00"), ("2026-03-31T12:00", "2026-03-01")):
        assert span_before(Compare.before_exact, march, at(until), UTC_ZONE) == (at("2026-02-01"), at(end))
    assert span_before(Compare.before_exact, (0, 31 * DAY_S), 31 * DAY_S, UTC_ZONE) == (0, 0), "before 1970"


def test_what_lies_before_1970_is_left_out() -> None:
    assert span_before(Compare.year, (DAY_S, 8 * DAY_S), 8 * DAY_S, UTC_ZONE) == (0, 0)
    assert span_before(Compare.before_exact, (0, NOW), NOW, UTC_ZONE) == (0, 0)


def by_hours() -> QueriedNodes:
    """One hit in each hour of 40 days."""
    nodes = QueriedNodes(now=NOW)
    for hour in range(40 * 24):
        nodes.hit("k", NOW - hour * HOUR_S, 1, groups=("g",))
    nodes.flush()
    nodes.fold()
    return nodes


def test_a_day_under_way_is_compared_with_the_same_part_of_the_day_before() -> None:
    nodes = by_hours()
    curve = nodes.curve("k", "last=1d&step=1h&compare=before")
    midnight = NOW - NOW % DAY_S
    before = curve["before"]
    assert curve["total"] == 15
    assert (before["from"], before["to"]) == (midnight - DAY_S, midnight - DAY_S + 14 * HOUR_S + 38 * 60)
    assert [point["count"] for point in before["points"]] == [1] * 15
    assert before["points"][-1]["state"] == "partial", "its last hour is cut"
    assert sum(point["count"] for point in before["points"]) == before["total"] == 15
    assert before["at_least"] <= nodes.counted("k", before["from"], before["to"]) <= before["at_most"]
    total = nodes.total("k", "last=1d&compare=before")
    assert {name: total["before"][name] for name in ("from", "to", "at_least", "at_most", "exact")} == {
        name: before[name] for name in ("from", "to", "at_least", "at_most", "exact")
    }


@pytest.mark.parametrize("compare", [*Compare])
@pytest.mark.parametrize("last", ["60m", "24h", "7d", "28d", "30d"])
def test_the_answer_for_the_range_before_is_that_of_asking_for_it(compare: str, last: str) -> None:
    nodes = by_hours()
    for tz in ("UTC", "Europe/Vienna", "Asia/Kolkata"):
        query = f"last={last}&tz={tz}"
        plain, compared = nodes.curve("k", query), nodes.curve("k", f"{query}&compare={compare}")
        before = compared.pop("before")
        assert compared == plain
        asked = nodes.curve("k", f"from={before['from']}&to={before['to']}&step={plain['step']}&tz={tz}")
        assert before == {name: asked[name] for name in before}
        assert nodes.sum(["k"], f"{query}&compare={compare}")["before"] == before
        total = nodes.total("k", f"{query}&compare={compare}")
        asked = nodes.total("k", f"from={total['before']['from']}&to={total['before']['to']}")
        assert total["before"] == {name: asked[name] for name in total["before"]}


def test_lists_have_the_count_of_the_range_before_of_whole_kept_buckets() -> None:
    nodes = by_hours()
    nodes.hit("new", NOW, 1_000)
    answer = nodes.top("last=7d&compare=before")
    before = answer["before"]
    assert [(each["key"], each["before"]) for each in answer["links"]] == [("new", 0), ("k", 159)]
    assert nodes.counted("k", before["from"], before["to"] + 22 * 60) == 159 and not before["exact"]
    assert nodes.top_groups("last=7d&compare=before")["groups"][0]["before"] == 159
    exact = nodes.top("from=2026-10-26&to=2026-10-28&compare=before_exact")
    assert exact["before"] == {"from": at("2026-10-24"), "to": at("2026-10-26"), "exact": True}
    assert exact["links"] == [{"key": "k", "count": 48, "before": 48}]


def test_csv_tells_the_ranges_apart() -> None:
    nodes = by_hours()
    lines = as_csv(run(nodes.queries.curve(subject("k"), b"last=1d&step=6h&compare=before"))).decode().splitlines()
    assert lines[0] == "start,end,count,state,range"
    assert [line.rpartition(",")[2] for line in lines[1:]] == ["before"] * 3 + ["asked"] * 3
    lines = as_csv(run(nodes.queries.links(b"last=1d&compare=before"))).decode().splitlines()
    assert lines == ["key,count,before", "k,15,15"]


@pytest.mark.parametrize(
    ("ask", "query", "field"),
    [
        ("total", "compare=before", "compare"),
        ("total", "last=1d&compare=after", "compare"),
        ("curve", "compare=before&format=rows", "compare"),
        ("top", "compare=before", "compare"),
        ("top", "sort=key&compare=before", "compare"),
    ],
)
def test_a_comparison_that_means_nothing_is_refused(ask: str, query: str, field: str) -> None:
    nodes = QueriedNodes(now=NOW)
    with pytest.raises(ParameterInvalid) as refused:
        nodes.top(query) if ask == "top" else getattr(nodes, ask)("k", query)
    assert refused.value.field == field


def test_a_link_that_was_never_hit_and_a_range_to_come() -> None:
    nodes = QueriedNodes(now=NOW)
    assert json.dumps(nodes.curve("k", "to=2026-10-01&compare=before")["before"]["points"]) == "[]"
    before = nodes.curve("k", "from=2027-01-01&to=2027-01-08&compare=before")["before"]
    assert before["from"] == before["to"] == at("2026-12-25") and before["points"] == []
