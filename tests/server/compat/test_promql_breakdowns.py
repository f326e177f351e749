"""PromQL with a dimension in a label: hits by country or referrer, in what is certain of each value."""

from __future__ import annotations

from typing import Any

import pytest

from tests.query.breakdowns.attribute_nodes import AttributeHit, AttributeNodes
from tests.server.compat.compat_node import DAY, HOUR, NOW, Asked, CompatNode

EDGE = NOW - NOW % HOUR  # the last whole hour


@pytest.fixture
def node() -> Asked:
    nodes = AttributeNodes(NOW, {"ref": 0, "country": 0, "tag.a/b": 0})
    for t, count, ref, country in (
        (EDGE - HOUR, 5, "news.example", "DE"),
        (EDGE - 2 * HOUR, 3, "t.co", "DE"),
        (EDGE - 2 * HOUR, 2, "", "AT"),
        (EDGE, 1, "news.example", ""),
        (EDGE - 10 * DAY, 4, "news.example", "FR"),
    ):
        nodes.accept(AttributeHit("launch", t, count, said=(("ref", ref), ("country", country), ("tag.a/b", "x"))))
    nodes.accept(AttributeHit("other", EDGE - HOUR, 7, said=(("ref", "t.co"), ("country", "FR"), ("tag.a/b", ""))))
    nodes.accept(AttributeHit("plain", EDGE - HOUR, 9))
    nodes.owners[0].flush(NOW)
    return Asked(nodes.queries, nodes.breakdowns)


_NOT_DE = {"FR": 7, "AT": 2}
Labelled = dict[tuple[tuple[str, str], ...], str]


def at(node: Asked, query: str, t: int = NOW) -> Labelled:
    answer = node.post("/api/v1/query", query=query, time=t)
    assert answer.status_code == 200, answer.text
    return {tuple(sorted(one["metric"].items())): one["value"][1] for one in answer.json()["data"]["result"]}


def of(counts: dict[str, int], label: str, **more: str) -> Labelled:
    found = {}
    for value, count in counts.items():
        labels = {**more, **({label: value} if value else {})}
        found[tuple(sorted(labels.items()))] = str(count)
    return found


@pytest.mark.parametrize(
    ("query", "label", "counts"),
    [
        ('sum by (country) (increase(clicks{key="launch"}[1d]))', "country", {"DE": 8, "AT": 2, "": 1}),
        ('sum(increase(clicks{key="launch"}[1d])) by (ref)', "ref", {"news.example": 6, "t.co": 3, "": 2}),
        ("sum by (country) (increase(clicks[1d]))", "country", {"DE": 8, "FR": 7, "AT": 2, "": 10}),
        ('sum by (country) (increase(clicks{key=~"l.*|other"}[1d]))', "country", {"DE": 8, "FR": 7, "AT": 2, "": 1}),
        ("topk(1, sum by (country) (increase(clicks[1d])))", "country", {"": 10}),
        ('topk(1, sum by (country) (increase(clicks{country!=""}[1d])))', "country", {"DE": 8}),
        ('topk(5, sum by (ref) (increase(clicks{key="launch",ref=~".*e.*"}[1d])))', "ref", {"news.example": 6}),
        ('sum by (country) (increase(clicks{country=~"DE|AT"}[1d]))', "country", {"DE": 8, "AT": 2}),
        ('sum by (country) (sum by (key, country) (increase(clicks{country!~"D.*|"}[1d])))', "country", _NOT_DE),
        ('sum(increase(clicks{country="DE"}[1d]))', "country", {"": 8}),
        ('sum by (tag_a_b) (increase(clicks[1d]))', "tag_a_b", {"x": 11, "": 16}),
        ('sum by (country) (increase(clicks{key="nobody"}[1d]))', "country", {}),
        ('sum by (country) (increase(clicks{country="XX"}[1d]))', "country", {}),
    ],
)  # fmt: skip
def test_sums_by_a_dimension(node: Asked, query: str, label: str, counts: dict[str, int]) -> None:
    assert at(node, query) == of(counts, label)


def test_a_matcher_of_a_dimension_selects_values_of_each_link(node: Asked) -> None:
    assert at(node, 'increase(clicks{key="launch",country="DE"}[1d])') == of({"DE": 8}, "country", key="launch")
    assert at(node, 'increase(clicks{key="launch",country=""}[1d])') == of({"": 1}, "country", key="launch")
    found = at(node, 'increase(clicks{country=~"FR|DE"}[1d])')
    assert found == of({"DE": 8}, "country", key="launch") | of({"FR": 7}, "country", key="other")
    assert at(node, 'sum by (key) (increase(clicks{country=~"FR|DE"}[1d]))') == of({"launch": 8, "other": 7}, "key")


def test_values_along_moments_are_whole_hours(node: Asked) -> None:
    form = {"start": EDGE - 2 * HOUR, "end": EDGE + HOUR, "step": HOUR}
    answer = node.post("/api/v1/query_range", query='sum by (country) (increase(clicks{key="launch"}[1h]))', **form)
    found = {one["metric"].get("country", ""): one["values"] for one in answer.json()["data"]["result"]}
    assert found["DE"] == [[EDGE - 2 * HOUR, "0"], [EDGE - HOUR, "3"], [EDGE, "5"], [EDGE + HOUR, "0"]]
    assert "warnings" not in answer.json()
    minutes = {"start": EDGE - HOUR + 60, "end": EDGE + HOUR, "step": 60}
    answer = node.post("/api/v1/query_range", query='increase(clicks{key="launch",country="DE"}[1m])', **minutes).json()
    (series,) = answer["data"]["result"]
    assert [value for _, value in series["values"]].count("5") == 1
    assert sum(int(value) for _, value in series["values"]) == 5
    assert "buckets of 60 minutes are kept" in answer["warnings"][0]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sum by (country, ref) (increase(clicks[1d]))", "names country and ref"),
        ('sum by (country) (increase(clicks{ref="t.co"}[1d]))', "names ref and country"),
        ('increase(clicks{ref="t.co",country="DE"}[1d])', "may name one dimension"),
        ("sum by (device) (increase(clicks[1d]))", "there is no label device; known: key, ref, country, tag_a_b"),
        ("sum by (country) (sum by (key) (increase(clicks[1d])))", "has no label country"),
        ("sum by (country) (topk(5, increase(clicks[1d])))", "has no label country"),
    ],
)
def test_what_a_row_does_not_keep_together_is_422(node: Asked, query: str, said: str) -> None:
    answer = node.post("/api/v1/query", query=query)
    assert (answer.status_code, answer.json()["errorType"]) == (422, "bad_data")
    assert said in answer.json()["error"]


def test_more_links_than_may_be_read_apart_are_refused(node: Asked) -> None:
    many = AttributeNodes(NOW, {"ref": 0})
    for n in range(300):
        many.accept(AttributeHit(f"k{n:03}", NOW, said=(("ref", "a"),)))
    many.owners[0].flush(NOW)
    answer = Asked(many.queries, many.breakdowns).post("/api/v1/query", query='increase(clicks{ref="a"}[1h])')
    assert answer.status_code == 422 and "name keys" in answer.json()["error"]
    found = at(Asked(many.queries, many.breakdowns), "sum by (ref) (increase(clicks[1h]))")
    assert found == of({"a": 300}, "ref")


def test_pickers_know_dimensions_and_their_values(node: Asked) -> None:
    def data(path: str, **query: Any) -> Any:
        answer = node.get(path, **query)
        assert answer.json()["status"] == "success", answer.text
        return answer.json()["data"]

    assert data("/api/v1/labels") == ["__name__", "key", "ref", "country", "tag_a_b"]
    assert data("/api/v1/label/country/values") == ["AT", "DE", "FR"]
    assert data("/api/v1/label/country/values", **{"match[]": 'clicks{key="other"}'}) == ["FR"]
    assert data("/api/v1/label/country/values", **{"match[]": 'clicks{country=~"D.*"}'}) == ["DE"]
    assert data("/api/v1/label/device/values") == []
    assert data("/api/v1/series", **{"match[]": 'clicks{key="launch",country=~".+"}'}) == [
        {"__name__": "clicks", "key": "launch", "country": country} for country in ("DE", "FR", "AT")
    ]
    assert data("/api/v1/series", **{"match[]": "clicks"}) == [
        {"__name__": "clicks", "key": key} for key in ("launch", "other", "plain")
    ]
    assert node.get("/api/v1/label/ref/values", **{"match[]": 'clicks{country="DE"}'}).status_code == 422


def test_a_server_that_divides_nothing_has_the_label_key_alone() -> None:
    node = CompatNode()
    node.hit("launch")
    answer = node.post("/api/v1/query", query="sum by (country) (increase(clicks[1d]))")
    assert answer.status_code == 422
    assert "there is no label country; known: key" in answer.json()["error"]
    assert node.get("/api/v1/labels").json()["data"] == ["__name__", "key"]
