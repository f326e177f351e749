"""What came of clicks, by other tools' routes, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from testing.client import Clickcurve
from testing.server import RunningServer

HITS: list[dict[str, Any]] = [
    {"key": "launch", "count": 10, "ref": "news.example"},
    {"key": "launch", "event": "sale", "value": 4_990, "count": 2, "ref": "news.example"},
    {"key": "launch", "event": "sale", "value": 10, "ref": "shop.example"},
    {"key": "launch", "event": "lead", "ref": "shop.example"},
    {"key": "a.b", "event": "sale", "value": 5, "ref": "shop.example", "groups": ["spring"]},
    {"key": "a.b"},
    {"key": "plain", "count": 4},
]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server that counts leads and sales."""
    settings = {"CLICKCURVE_EVENTS_NAMES": "lead,sale"}
    with RunningServer(tmp_path_factory.mktemp("events") / "data", settings=settings) as server:
        with Clickcurve(server.url) as client:
            client.send(HITS)
        with httpx.Client(base_url=server.url) as http:
            yield http


def at(asked: httpx.Client, query: str) -> dict[tuple[tuple[str, str], ...], str]:
    answer = asked.post("/api/v1/query", data={"query": query})
    assert answer.status_code == 200, answer.text
    return {tuple(sorted(one["metric"].items())): one["value"][1] for one in answer.json()["data"]["result"]}


def data(asked: httpx.Client, path: str, *matches: str) -> Any:
    answer = asked.get(f"/api/v1/{path}", params=[("match[]", match) for match in matches])
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


SALE = ("event", "sale")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('events{event="sale",key="launch"}', {(("__name__", "events"), SALE, ("key", "launch")): "3"}),
        (
            'event_values{event="sale",key="launch"}',
            {(("__name__", "event_values"), SALE, ("key", "launch")): "9990"},
        ),
        ('increase(events{event="sale"}[1h])', {(SALE, ("key", "a.b")): "1", (SALE, ("key", "launch")): "3"}),
        ('increase({__name__="events",event="lead"}[1h])', {(("event", "lead"), ("key", "launch")): "1"}),
        ('increase(events{event="sale",key=~"a.*"}[1h])', {(SALE, ("key", "a.b")): "1"}),
        ('sum(increase(events{event="sale"}[1d]))', {(): "4"}),
        ('sum(event_values{event="sale"})', {(): "9995"}),
        ('sum by (event) (increase(events{event="sale"}[1d]))', {(SALE,): "4"}),
        ('sum by (event) (sum by (event, key) (events{event="sale"}))', {(SALE,): "4"}),
        ('topk(1, increase(events{event="sale"}[1d]))', {(SALE, ("key", "launch")): "3"}),
        ('topk(1, event_values{event="sale"})', {(("__name__", "event_values"), SALE, ("key", "launch")): "9990"}),
        ('topk(1, sum by (key) (increase(event_values{event="sale"}[1d])))', {(("key", "launch"),): "9990"}),
        (
            'sum by (ref) (increase(event_values{event="sale",key="launch"}[1d]))',
            {(("ref", "news.example"),): "9980", (("ref", "shop.example"),): "10"},
        ),
        (
            'sum by (ref) (increase(events{event="sale"}[1d]))',
            {(("ref", "news.example"),): "2", (("ref", "shop.example"),): "2"},
        ),
        (
            'increase(events{event="sale",ref="shop.example",key="launch"}[1d])',
            {(SALE, ("key", "launch"), ("ref", "shop.example")): "1"},
        ),
        ('increase(clicks{key="launch"}[1d])', {(("key", "launch"),): "10"}),
    ],
)
def test_events_stand_where_clicks_can(
    asked: httpx.Client, query: str, expected: dict[tuple[tuple[str, str], ...], str]
) -> None:
    assert at(asked, query) == expected


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("events", 'events is of one event, named so: events{event="sale"}'),
        ("increase(event_values[1h])", 'named so: event_values{event="sale"}'),
        ('events{event=~"sale"}', "named so"),
        ('events{event!="sale"}', "named so"),
        ('events{event=""}', "named so"),
        ('events{event="sale",event="lead"}', "named so"),
        ('events{event="order"}', "the event 'order' is not counted here; events: lead, sale"),
        ('sum(increase(events{event="SALE"}[1h]))', "the event 'SALE' is not counted here; events: lead, sale"),
        ('clicks{event="sale"}', "there is no label event"),
        ("sum by (event) (increase(clicks[1h]))", "there is no label event"),
        ('sum by (event) (sum by (key) (events{event="sale"}))', "has no label event"),
    ],
)
def test_an_event_is_named_exactly(asked: httpx.Client, query: str, said: str) -> None:
    answer = asked.get("/api/v1/query", params={"query": query})
    assert answer.status_code == 422
    assert said in answer.json()["error"]


def test_sales_along_moments_add_up(asked: httpx.Client) -> None:
    now = int(at_now(asked))
    form = {"query": 'increase(events{event="sale"}[1m])', "start": str(now - 600), "end": str(now + 60), "step": "60"}
    result = asked.post("/api/v1/query_range", data=form).json()["data"]["result"]
    assert {one["metric"]["key"]: sum(int(n) for _, n in one["values"]) for one in result} == {"launch": 3, "a.b": 1}


def at_now(asked: httpx.Client) -> float:
    return float(asked.get("/api/v1/query", params={"query": "1"}).json()["data"]["result"][0])


def test_pickers_know_events(asked: httpx.Client) -> None:
    assert data(asked, "labels")[:3] == ["__name__", "key", "event"]
    assert data(asked, "label/__name__/values") == ["clicks", "events", "event_values"]
    assert data(asked, "label/event/values") == data(asked, "label/event/values", "events") == ["lead", "sale"]
    assert data(asked, "label/key/values") == ["a.b", "launch", "plain"]
    assert data(asked, "label/key/values", "events") == ["a.b", "launch"]
    assert data(asked, "label/key/values", 'events{event="lead"}') == ["launch"]
    assert data(asked, "label/key/values", 'events{event=~"s.*",key=~"a.*"}') == ["a.b"]
    assert data(asked, "label/ref/values", 'event_values{event="sale"}') == ["news.example", "shop.example"]
    assert data(asked, "series", 'events{event!="sale"}', 'event_values{key="a.b",event="sale"}') == [
        {"__name__": "events", "event": "lead", "key": "launch"},
        {"__name__": "event_values", "event": "sale", "key": "a.b"},
    ]
    assert data(asked, "series", 'events{event="sale",ref="shop.example"}') == [
        {"__name__": "events", "event": "sale", "ref": "shop.example"}
    ]
    assert set(data(asked, "metadata")) == {"clicks", "events", "event_values"}
    unknown = asked.get("/api/v1/series", params={"match[]": 'events{event="order"}'})
    assert unknown.status_code == 422 and "events: lead, sale" in unknown.json()["error"]


def rendered(asked: httpx.Client, target: str) -> dict[str, int]:
    answer = asked.get("/render", params={"target": target, "from": "-1h"})
    assert answer.status_code == 200, answer.text
    return {one["target"]: sum(n or 0 for n, _ in one["datapoints"]) for one in answer.json()}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("events.sale.launch", {"events.sale.launch": 3}),
        ("values.sale.a%2Eb", {"values.sale.a%2Eb": 5}),
        ("events.*.launch", {"events.lead.launch": 1, "events.sale.launch": 3}),
        ("events.sale.*", {"events.sale.a%2Eb": 1, "events.sale.launch": 3}),
        ("events.sale", {"events.sale": 4}),
        ("values.*", {"values.lead": 0, "values.sale": 9_995}),
        (
            "events.sale.launch.ref.*",
            {"events.sale.launch.ref.news%2Eexample": 2, "events.sale.launch.ref.shop%2Eexample": 1},
        ),
        ("values.sale.launch.ref.shop%2Eexample", {"values.sale.launch.ref.shop%2Eexample": 10}),
        ("highest(values.sale.*, 1, 'sum')", {"values.sale.launch": 9_990}),
        ("aliasByNode(events.sale.a%2Eb, 2)", {"a.b": 1}),
        ("sumSeries(events.*.*)", {"sumSeries(events.*.*)": 5}),
        ("clicks.launch", {"clicks.launch": 10}),
    ],
)
def test_graphite_has_events_below_their_names(asked: httpx.Client, target: str, expected: dict[str, int]) -> None:
    assert rendered(asked, target) == expected


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("events.order.launch", "the event 'order' is not counted here; events: lead, sale"),
        ("highest(events.order.*, 1, 'sum')", "the event 'order' is not counted here"),
        ("events", "there is no events"),
        ("events.sale.ref.shop%2Eexample", "there is no events.sale.ref.shop%2Eexample"),
    ],
)
def test_graphite_refuses_other_events(asked: httpx.Client, target: str, said: str) -> None:
    answer = asked.get("/render", params={"target": target})
    assert answer.status_code == 422 and said in answer.json()["detail"]


def test_graphite_finds_and_expands_events(asked: httpx.Client) -> None:
    def found(query: str) -> list[tuple[str, int]]:
        return [(node["id"], node["leaf"]) for node in asked.get("/metrics/find", params={"query": query}).json()]

    assert found("*") == [("clicks", 0), ("groups", 0), ("total", 1), ("events", 0), ("values", 0)]
    assert found("events.*") == [("events.lead", 1), ("events.sale", 1)]
    assert found("values.sale.*") == [("values.sale.a%2Eb", 1), ("values.sale.launch", 1)]
    assert ("events.sale.launch.ref", 0) in found("events.sale.launch.*")
    assert found("events.sale.launch.ref.n*") == [("events.sale.launch.ref.news%2Eexample", 1)]
    expanded = asked.get("/metrics/expand", params={"query": "events.s*.*"}).json()["results"]
    assert expanded == ["events.sale.a%2Eb", "events.sale.launch"]
