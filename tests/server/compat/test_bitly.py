"""Bitly's reads: its shapes, with counts that are never spread over units."""

from __future__ import annotations

from typing import Any

from tests.server.compat.compat_node import DAY, HOUR, NOW, CompatNode

PATH = "/v4/bitlinks/clicks.example"


def node() -> CompatNode:
    node = CompatNode()
    for ago_s, count in ((0, 1), (DAY, 2), (3 * DAY, 4), (200 * DAY, 8)):
        node.hit("launch", ago_s, count)
    return node


def clicks(node: CompatNode, **query: Any) -> dict[str, Any]:
    answer = node.get(f"{PATH}/launch/clicks", **query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_clicks_by_day_are_the_last_days_last_first() -> None:
    assert clicks(node(), unit="day", units=4) == {
        "units": 4,
        "unit": "day",
        "unit_reference": "2026-03-01T23:28:30+0000",
        "link_clicks": [
            {"clicks": 1, "date": "2026-03-01T00:00:00+0000"},
            {"clicks": 2, "date": "2026-02-28T00:00:00+0000"},
            {"clicks": 0, "date": "2026-02-27T00:00:00+0000"},
            {"clicks": 4, "date": "2026-02-26T00:00:00+0000"},
        ],
    }


def test_all_units_begin_with_the_first_hit_and_say_where_less_is_kept() -> None:
    entries = clicks(node(), unit="day", units=-1)["link_clicks"]
    assert sum(entry["clicks"] for entry in entries) == 15
    assert entries[-1] == {"clicks": 8, "date": "2025-08-11T00:00:00+0000", "end": "2025-08-18T00:00:00+0000"}
    assert "end" not in entries[0]


def test_the_summary_is_their_sum_and_the_reference_is_the_last_unit() -> None:
    answer = node().get(f"{PATH}/launch/clicks/summary", unit="day", units=2, unit_reference="2026-02-28T12:00:00+0000")
    assert answer.json() == {
        "units": 2,
        "unit": "day",
        "unit_reference": "2026-02-28T12:00:00+0000",
        "total_clicks": 2,
    }
    for unit, expected in (("minute", 1), ("hour", 1), ("week", 7), ("month", 1)):
        found = node().get(f"{PATH}/launch/clicks/summary", unit=unit, units=1).json()
        assert found["total_clicks"] == expected, unit


def test_a_key_may_be_anything() -> None:
    found = node()
    found.nodes.hit("a/b.c", NOW - HOUR, 6)
    assert found.get(f"{PATH}/a%2Fb.c/clicks/summary").json()["total_clicks"] == 6
    assert found.get(f"{PATH}/none/clicks").json()["link_clicks"] == []


def test_what_is_wrong_is_named() -> None:
    for query, field in (
        ({"unit": "year"}, "unit"),
        ({"units": "0"}, "units"),
        ({"unit_reference": "x"}, "unit_reference"),
    ):
        answer = node().get(f"{PATH}/launch/clicks", **query)
        assert (answer.status_code, answer.json()["field"]) == (422, field)
    answer = node().get(f"{PATH}/launch/clicks", unit="minute", units=100_001)
    assert (answer.status_code, answer.json()["field"]) == (422, "units")
    answer = node().get(f"{PATH}/launch/countries")
    assert (answer.status_code, answer.json()["field"]) == (404, "facet")
