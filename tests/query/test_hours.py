"""Weekday by hour, and the last minutes: what the raw hits say, and where it cannot be known, so the answer says."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.answers.written import as_csv, as_json
from clickcurve.buckets.ladder import DAY_S, HOUR_S, MINUTE_S, Ladder
from query.zones import zone
from tests.power import examples
from tests.query.queried_nodes import QueriedNodes, decoded, run, subject

NOW = int(datetime(2026, 10, 28, 14, 37, 20, tzinfo=UTC).timestamp())
WHOLE_HOURS = ["UTC", "Europe/Vienna", "America/New_York"]


def hours(nodes: QueriedNodes, query: str = "", key: str | None = "k") -> dict[str, Any]:
    return decoded(nodes.queries.hours(subject(key), query.encode()))


def recent(nodes: QueriedNodes, query: str = "", key: str | None = "k") -> dict[str, Any]:
    return decoded(nodes.queries.recent(subject(key), query.encode()))


def cells(answer: dict[str, Any]) -> Counter[tuple[int, int]]:
    return Counter({(each["weekday"], each["hour"]): each["count"] for each in answer["cells"]})


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(0, 50 * DAY_S), max_size=30), st.sampled_from(WHOLE_HOURS), st.booleans())
def test_cells_are_those_of_the_raw_hits(ages: list[int], tz: str, is_folded: bool) -> None:
    nodes = QueriedNodes(now=NOW)
    for age in ages:
        nodes.hit("k", NOW - age)
    if is_folded:
        nodes.fold()
    answer, where = hours(nodes, f"tz={tz}"), zone(tz)
    kept = [hit.t for hit in nodes.hits if answer["from"] <= hit.t < answer["to"]]
    counted = Counter((where.wall(t).isoweekday(), where.wall(t).hour) for t in kept)
    assert +cells(answer) == counted
    assert (answer["total"], answer["exact"], answer["straddling"]) == (len(kept), True, 0)
    assert [(each["weekday"], each["hour"]) for each in answer["cells"]] == [
        (day, hour) for day in range(1, 8) for hour in range(24)
    ]


def test_the_days_are_those_that_have_hours_up_to_the_hour_under_way() -> None:
    answer = hours(QueriedNodes(now=NOW))
    assert (answer["from"], answer["to"]) == (NOW - NOW % DAY_S - 33 * DAY_S, NOW - NOW % HOUR_S)
    assert sum(each["hours"] for each in answer["cells"]) == 33 * 24 + 14
    assert answer["first_hit"] is None


def test_an_hour_that_a_clock_shows_twice_is_two_and_one_that_it_leaves_out_is_none() -> None:
    answer = hours(QueriedNodes(now=NOW), "tz=Europe/Vienna&from=2026-10-25&to=2026-10-26")
    by_hour = {each["hour"]: each["hours"] for each in answer["cells"] if each["weekday"] == 7}
    assert (by_hour[2], by_hour[3], sum(by_hour.values())) == (2, 1, 25)
    spring = int(datetime(2026, 3, 31, tzinfo=UTC).timestamp())
    answer = hours(QueriedNodes(now=spring), "tz=Europe/Vienna&from=2026-03-29&to=2026-03-30")
    by_hour = {each["hour"]: each["hours"] for each in answer["cells"] if each["weekday"] == 7}
    assert (by_hour[2], sum(by_hour.values())) == (0, 23)


def test_a_zone_of_half_hours_counts_a_shared_bucket_in_the_earlier_hour_and_says_so() -> None:
    nodes, day = QueriedNodes(now=NOW), NOW - NOW % DAY_S - 7 * DAY_S  # Wednesday
    nodes.hit("k", day + 10 * HOUR_S + 45 * MINUTE_S, 5)  # 16:15 in Kolkata
    nodes.flush()
    nodes.fold()
    answer = hours(nodes, "tz=Asia/Kolkata")
    assert +cells(answer) == Counter({(3, 15): 5})
    assert (answer["straddling"], answer["exact"], answer["total"]) == (5, False, 5)
    recent_hits = QueriedNodes(now=NOW)
    recent_hits.hit("k", NOW - 4 * HOUR_S)  # kept by the minute
    answer = hours(recent_hits, "tz=Asia/Kolkata")
    assert (+cells(answer), answer["exact"]) == (Counter({(3, 16): 1}), True)


def test_a_range_is_cut_to_whole_hours_that_are_kept() -> None:
    nodes = QueriedNodes(now=NOW)
    for age_h in range(24 * 40):
        nodes.hit("k", NOW - age_h * HOUR_S)
    answer = hours(nodes, "last=2d")
    assert (answer["from"], answer["total"]) == (NOW - NOW % DAY_S - DAY_S, 24 + 14)
    answer = hours(nodes, "from=2026-10-28T09:30&to=2026-10-28T12:30")
    assert (answer["from"] % DAY_S, answer["to"] % DAY_S) == (10 * HOUR_S, 12 * HOUR_S)
    answer = hours(nodes, "from=2026-01-01&to=2026-02-01")
    assert answer["from"] == answer["to"] and answer["total"] == 0


def test_a_ladder_without_hours_has_none() -> None:
    nodes = QueriedNodes(now=NOW, ladder=Ladder.parse("86400:400,month"))
    nodes.hit("k", NOW)
    nodes.hit("k", NOW - 10 * HOUR_S)
    answer = hours(nodes)
    assert answer["from"] == answer["to"] and answer["total"] == 0
    assert recent(nodes) | {"minutes": []} == {
        "key": "k", "at": NOW, "last_5m": 2, "last_30m": 2, "exact": False, "minutes": []
    }  # fmt: skip


def test_bots_and_csv() -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", NOW - HOUR_S, 2)
    nodes.hit("k", NOW - HOUR_S, 3, bot=True)
    assert [hours(nodes, f"bots={bots}")["total"] for bots in ("exclude", "only", "include")] == [2, 3, 5]
    assert hours(nodes, key=None)["total"] == 2
    lines = as_csv(run(nodes.queries.hours(subject("k"), b""))).decode().splitlines()
    assert lines[0] == "weekday,hour,count,hours" and len(lines) == 169 and "3,13,2,5" in lines


@pytest.mark.parametrize("seconds", [0, 20, 59])
def test_now_is_the_minute_under_way_and_those_before(seconds: int) -> None:
    nodes = QueriedNodes(now=NOW - NOW % MINUTE_S + seconds)
    for age in range(40):
        nodes.hit("k", nodes.now - age * MINUTE_S, age + 1)
        nodes.hit("k", nodes.now - age * MINUTE_S, 7, bot=True)
    answer = recent(nodes)
    assert answer == {
        "key": "k",
        "at": nodes.now,
        "last_5m": sum(range(1, 6)),
        "last_30m": sum(range(1, 31)),
        "exact": True,
        "minutes": list(range(30, 0, -1)),
    }
    assert recent(nodes, "bots=only")["last_5m"] == 35
    assert as_json(run(nodes.queries.recent(subject(None), b"")))


def test_minutes_are_there_just_after_midnight() -> None:
    midnight = NOW - NOW % DAY_S
    nodes = QueriedNodes(now=midnight + 10 * MINUTE_S)
    nodes.hit("k", midnight - 15 * MINUTE_S, 4)
    nodes.fold()
    answer = recent(nodes)
    assert (answer["last_5m"], answer["last_30m"], answer["exact"], sum(answer["minutes"])) == (0, 4, True, 4)
