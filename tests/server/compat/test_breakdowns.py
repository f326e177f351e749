"""Breakdowns as other tools ask for them: `clicks.KEY.DIMENSION.VALUE`, and Bitly's referrers and countries."""

from __future__ import annotations

from typing import Any

import pytest

from server.compat.graphite.names import NOT_GIVEN
from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.server.compat.compat_node import DAY, HOUR, NOW, Asked


@pytest.fixture
def node() -> Asked:
    nodes = AttributeNodes(NOW, {"ref": 0, "country": 0})
    for ago_s, count, ref, country in (
        (HOUR, 5, "news.example", "DE"),
        (2 * HOUR, 3, "t.co", "DE"),
        (2 * HOUR, 2, "", "AT"),
        (10 * DAY, 4, "news.example", "FR"),
    ):
        said = (("ref", ref), ("country", country))
        nodes.accept(AttributeHit("launch", NOW - ago_s, count, said=said, groups=("spring",)))
    nodes.accept(AttributeHit("other", NOW - HOUR, 7, said=(("ref", "t.co"), ("country", ""))))
    nodes.owners[0].flush(NOW)
    return Asked(nodes.queries, nodes.breakdowns)


def sums(node: Asked, target: str, **form: Any) -> dict[str, float]:
    answer = node.get("/render", target=target, **{"from": "-24h", "until": "now", **form})
    assert answer.status_code == 200, answer.text
    return {
        series["target"]: sum(value for value, _ in series["datapoints"] if value is not None)
        for series in answer.json()
    }


def test_a_value_is_a_series_of_whole_hours(node: Asked) -> None:
    name = "clicks.launch.ref.news%2Eexample"
    assert sums(node, name) == {name: 5}
    assert sums(node, name, **{"from": "-20d"}) == {name: 9}
    (series,) = node.get("/render", target=name, **{"from": "-24h"}).json()
    starts = [start for _, start in series["datapoints"]]
    assert {start % HOUR for start in starts} == {0}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("aliasByNode(clicks.launch.ref.*, 3)", {"news.example": 5, "t.co": 3, "(not given)": 2}),
        ("aliasByNode(clicks.*.ref.t*, 1, 3)", {"launch.t.co": 3, "other.t.co": 7}),
        ("aliasByNode(total.country.*, 2)", {"DE": 8, "AT": 2, "(not given)": 7}),
        ("aliasByNode(groups.spring.country.{DE,AT}, 3)", {"DE": 8, "AT": 2}),
        ("sumSeries(clicks.launch.ref.*)", {"sumSeries(clicks.launch.ref.*)": 10}),
        (f"clicks.launch.ref.{NOT_GIVEN}", {f"clicks.launch.ref.{NOT_GIVEN}": 2}),
        ("clicks.launch.ref.nobody", {"clicks.launch.ref.nobody": 0}),
    ],
)
def test_patterns_of_values(node: Asked, target: str, expected: dict[str, float]) -> None:
    assert sums(node, target) == expected


def test_an_unknown_dimension_is_refused_with_those_that_are_known(node: Asked) -> None:
    answer = node.get("/render", target="clicks.launch.color.red", **{"from": "-24h"})
    assert (answer.status_code, answer.json()["rule"]) == (422, "ref, country")


def test_find_goes_down_to_values(node: Asked) -> None:
    def found(query: str) -> list[str]:
        return [each["id"] for each in node.get("/metrics/find", query=query).json()]

    (launch, _) = node.get("/metrics/find", query="clicks.*").json()
    assert (launch["leaf"], launch["expandable"]) == (1, 1)
    assert found("clicks.launch.*") == ["clicks.launch.ref", "clicks.launch.country"]
    assert found("clicks.launch.ref.*") == [
        "clicks.launch.ref.news%2Eexample",
        "clicks.launch.ref.t%2Eco",
        f"clicks.launch.ref.{NOT_GIVEN}",
    ]
    assert found("total.*") == ["total.ref", "total.country"]
    assert found("groups.spring.country.D*") == ["groups.spring.country.DE"]
    assert found("clicks.launch.color.*") == []


def test_bitlys_referrers_and_countries(node: Asked) -> None:
    answer = node.get("/v4/bitlinks/s.example/launch/referrers", unit="day", units=2).json()
    assert answer == {
        "units": 2,
        "unit": "day",
        "unit_reference": "2026-03-01T23:28:30+0000",
        "facet": "referrers",
        "metrics": [
            {"value": "news.example", "clicks": 5},
            {"value": "t.co", "clicks": 3},
            {"value": "direct", "clicks": 2},
        ],
    }
    countries = node.get("/v4/bitlinks/s.example/launch/countries", unit="month", units=-1, size=1).json()
    assert countries["metrics"] == [{"value": "DE", "clicks": 8}]
    refused = node.get("/v4/bitlinks/s.example/launch/devices")
    assert (refused.status_code, refused.json()["rule"]) == (404, "ref, country")
