"""Parameters: what is refused, and which range is meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clickcurve.buckets.errors import ParameterInvalid
from query.parameters import CURVE, parse_query
from tests.query.queried_nodes import QueriedNodes

NOW = 1772361480  # 2026-03-01T10:38:00Z
HOUR_S, DAY_S = 3600, 86_400


@pytest.fixture
def nodes() -> QueriedNodes:
    nodes = QueriedNodes(now=NOW)
    nodes.hit("k", NOW - 100 * DAY_S)
    nodes.hit("k", NOW)
    return nodes


@pytest.mark.parametrize(
    ("query", "field", "value"),
    [
        ("form=5", "form", "5"),
        ("=5", "", "5"),
        ("from", "from", ""),
        ("from=5&from=5", "from", "5"),
        ("tz=Nowhere", "tz", "Nowhere"),
        ("bots=yes", "bots", "yes"),
        ("bots=", "bots", ""),
        ("format=xml", "format", "xml"),
        ("step=2", "step", "2"),
        ("last=0d", "last", "0d"),
        ("last=7d&from=5", "last", "7d"),
        ("last=7d&to=5", "last", "7d"),
        ("from=10&to=10", "from", "10"),
        ("from=11&to=10", "from", "11"),
        ("from=2026-03-02", "from", "2026-03-02"),
        ("from=%FF", "query", "\ufffd"),
        ("limit=5", "limit", "5"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name_value_and_rule(
    nodes: QueriedNodes, query: str, field: str, value: object
) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        nodes.curve("k", query)
    error = refused.value
    assert (error.field, error.value, error.status) == (field, value, 422)
    assert error.rule and error.detail


def test_an_unknown_parameter_names_those_that_are_known(nodes: QueriedNodes) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        nodes.total("k", "step=1d")
    assert refused.value.rule == "one of event, measure, from, to, last, tz, bots, compare"


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=-1",
        "limit=" + "9" * 5_000,  # more digits than Python makes a number of
        "limit=1.0",
        "limit=٣",
        "sort=keys",
        "after=a",
        "sort=key&last=7d",
    ],
)
def test_a_wrong_parameter_of_the_ranking_is_refused(nodes: QueriedNodes, query: str) -> None:
    with pytest.raises(ParameterInvalid):
        nodes.top(query)


def test_the_first_hours_of_1970_are_times_in_zones_where_it_was_1969(nodes: QueriedNodes) -> None:
    total = nodes.total("k", "from=1969-12-31T20:00&to=1970-01-02&tz=America/New_York")
    assert (total["from"], total["to"]) == (HOUR_S, DAY_S + 5 * HOUR_S)
    with pytest.raises(ParameterInvalid):
        nodes.total("k", "from=1970-01-01&to=1970-01-02&tz=Asia/Kolkata")


def test_parameters_are_decoded_as_a_form() -> None:
    assert parse_query(b"from=2026-03-01T10:00:00%2B05:30&&tz=Europe%2FBerlin&to=1+2", CURVE) == {
        "from": "2026-03-01T10:00:00+05:30",
        "tz": "Europe/Berlin",
        "to": "1 2",
    }


def test_without_a_range_a_curve_is_the_last_24_hours(nodes: QueriedNodes) -> None:
    curve = nodes.curve("k")
    assert (curve["from"], curve["to"], curve["step"]) == (NOW - 38 * 60 - 23 * HOUR_S, NOW + 2 * 60, "5m")
    assert {**curve, "points": []} == {**nodes.curve("k", "last=24h"), "points": []}


@pytest.mark.parametrize(
    ("query", "start", "end", "step"),
    [
        ("last=60m", NOW - 59 * 60, NOW + 60, "1m"),
        ("last=2h", NOW - 98 * 60, NOW + 60, "1m"),
        ("last=1d", NOW - 638 * 60, NOW + 2 * 60, "5m"),
        ("last=7d", NOW - 638 * 60 - 6 * DAY_S, NOW + 22 * 60, "1h"),
        ("last=30d", NOW - 638 * 60 - 29 * DAY_S, NOW + 802 * 60, "1d"),
        ("last=12mo", 1743465600, 1772409600, "1w"),
        ("last=1mo", 1772323200, 1772409600, "1d"),
        ("last=2y", 1735689600, 1772409600, "1w"),
        ("last=3y", 1704067200, 1775001600, "1mo"),
        ("last=24h&step=1d", NOW - 38 * 60 - 23 * HOUR_S, NOW + 802 * 60, "1d"),
        ("last=24h&step=native", NOW - 38 * 60 - 23 * HOUR_S, NOW + 60, "native"),
        ("last=1d&tz=Asia/Kolkata", 1772303400, 1772361600, "5m"),
        ("last=9999y&step=1mo", 0, 1775001600, "1mo"),
        ("from=1772357880", NOW - HOUR_S, NOW + 60, "1m"),
        ("from=1772361480", NOW, NOW + 60, "1m"),
        ("from=1772361539", NOW + 59, NOW + 60, "1m"),
        ("last=1d&tz=Etc/GMT+12", 1772366400 - DAY_S, NOW + 2 * 60, "5m"),
        ("from=2026-03-01&to=2026-03-08", 1772323200, 1772928000, "1h"),
        ("from=2026-03-01&to=2026-03-08&tz=Europe/Berlin", 1772319600, 1772924400, "1h"),
        ("to=1772361000", NOW - 100 * DAY_S, 1772361000, "1w"),
    ],
)
def test_the_range_and_step_that_are_meant(nodes: QueriedNodes, query: str, start: int, end: int, step: str) -> None:
    curve = nodes.curve("k", query)
    assert (curve["from"], curve["to"], curve["step"]) == (start, end, step)


def test_an_end_alone_for_a_link_without_hits_before_it_is_an_empty_curve(nodes: QueriedNodes) -> None:
    for key, end in (("unknown", NOW), ("k", 10_000)):
        curve = nodes.curve(key, f"to={end}")
        assert (curve["from"], curve["to"], curve["points"]) == (end, end, [])
        assert (curve["total"], curve["exact"]) == (0, True)
        total = nodes.total(key, f"to={end}")
        assert (total["from"], total["to"], total["total"]) == (end, end, 0)


def test_an_unknown_key_has_zeros_and_no_first_hit(nodes: QueriedNodes) -> None:
    curve = nodes.curve("unknown", "last=60m")
    assert curve["first_hit"] is None
    assert [point["count"] for point in curve["points"]] == [0] * 60


def test_a_fine_step_over_all_time_stays_small(nodes: QueriedNodes) -> None:
    points = nodes.curve("k", "from=0&step=1m")["points"]
    assert 2000 < len(points) < 4000
    assert points[0]["end"] == 31 * DAY_S


Ask = Callable[[QueriedNodes, str], dict[str, Any]]


def test_too_many_points_are_refused_with_a_step_that_fits(nodes: QueriedNodes) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        nodes.curve("k", f"from={NOW - 180}&to={NOW - 180 + 7 * DAY_S}&step=1m")
    assert refused.value.field == "step"
    assert "more than 10000 points at step=1m; step=5m would fit" in refused.value.detail
    with pytest.raises(ParameterInvalid, match="step=1d would fit"):
        nodes.curve("k", f"from={NOW}&to={NOW + 1000 * DAY_S}&step=native")
    with pytest.raises(ParameterInvalid, match="step=1y would fit"):
        nodes.curve("k", f"from={NOW}&to=9998-01-01")
    assert len(nodes.curve("k", "from=0&to=9999-01-01&step=1y")["points"]) == 8029


def test_exactly_ten_thousand_points_are_allowed(nodes: QueriedNodes) -> None:
    start = NOW - NOW % 60
    assert len(nodes.curve("k", f"from={start}&to={start + 10_000 * 60}&step=1m")["points"]) == 10_000
    with pytest.raises(ParameterInvalid):
        nodes.curve("k", f"from={start}&to={start + 10_000 * 60 + 1}&step=1m")


def test_total_takes_whole_units_of_last(nodes: QueriedNodes) -> None:
    total = nodes.total("k", "last=7d")
    assert (total["from"], total["to"]) == (NOW - 638 * 60 - 6 * DAY_S, NOW + 802 * 60)


def test_states_follow_the_clock_though_the_curve_is_cached(nodes: QueriedNodes) -> None:
    query = f"from={NOW - 120}&to={NOW + 60}&step=1m"
    states = []
    for _ in range(4):
        states.append([point["state"] for point in nodes.curve("k", query)["points"]])
        nodes.now += 60
    assert states[0] == ["complete", "complete", "open"]
    assert states[1] == states[2] == states[3] == ["complete"] * 3
    nodes.now = NOW - 60
    assert [point["state"] for point in nodes.curve("k", query)["points"]] == ["complete", "open", "open"]


def test_what_last_means_follows_the_clock_though_it_is_cached(nodes: QueriedNodes) -> None:
    for now in (NOW, NOW + 1, NOW + 3600, NOW):
        nodes.now = now
        assert nodes.curve("k", "last=60m")["to"] == now - now % 60 + 60
