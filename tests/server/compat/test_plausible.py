"""Plausible's events: a page view is a hit, answered after the sync; anything else says why it is none."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from clickcurve.buckets.errors import JournalFull
from clickcurve.hosts import HOSTS_IGNORED, Hosts
from server.compat.foreign.doors import ForeignDoors
from server.compat.hit_sender import HitSender
from server.compat.otlp import PIECE_HITS, otlp_routes
from server.http.problems import Problems
from testing.asgi import ask_app
from tests.hostile.open_doors import OpenDoors
from tests.ingest.http_kit import MINUTE, NOW, Client

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
EVENT = {"n": "pageview", "u": "https://s.example/launch?x=1&utm_source=mail", "d": "s.example", "r": None}


class CompatIntake:
    """Routes that count hits, over an intake in memory."""

    def __init__(self, hosts: Hosts = HOSTS_IGNORED) -> None:
        self.client = Client()
        self.app = FastAPI()
        Problems().install(self.app)
        sender = HitSender(self.client.routes)
        ignored = self.client.routes.counters.ignored_events
        self.app.include_router(ForeignDoors(sender, hosts, OpenDoors(), ignored).router())
        self.app.include_router(otlp_routes(sender))

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask_app(self.app, "POST", path, content=content, headers={"user-agent": BROWSER, **named})

    def event(self, event: object, **headers: str) -> httpx.Response:
        return self.post("/api/event", event, **{"content_type": "text/plain", **headers})


@pytest.fixture
def node() -> CompatIntake:
    return CompatIntake()


@pytest.mark.parametrize(
    "event",
    [
        EVENT,
        {
            "name": "pageview",
            "url": "http://x/launch",
            "domain": "x",
            "referrer": "https://news.example/a",
            "props": {},
        },
    ],
)
def test_a_page_view_is_a_hit_of_its_path(node: CompatIntake, event: dict[str, Any]) -> None:
    answer = node.event(event, x_forwarded_for="203.0.113.7, 10.0.0.1")
    assert (answer.status_code, answer.text) == (202, "ok")
    assert node.client.intake.total == 1
    assert not node.client.intake.bots


@pytest.mark.parametrize("name", ["engagement", "Outbound Link: Click", "Signup", "404"])
def test_another_event_is_taken_and_counts_nothing(node: CompatIntake, name: str) -> None:
    answer = node.event(EVENT | {"n": name, "e": 1200, "sd": 57})
    assert (answer.status_code, answer.text) == (202, "ok")
    assert node.client.intake.total == 0
    assert node.client.routes.counters.ignored_events == {("plausible", "kind"): 1}


@pytest.mark.parametrize(
    ("more", "headers"),
    [
        ({}, {"x_forwarded_for": "203.0.113.7:51008"}),
        ({}, {"x_forwarded_for": "unknown"}),
        ({"r": "https://m.baidu.com/?" + "x" * 2_100}, {}),
        ({"u": EVENT["u"] + "&utm_campaign=a%09b"}, {}),  # type: ignore[operator]
        ({"u": EVENT["u"] + "&utm_campaign=" + "x" * 2_100}, {}),  # type: ignore[operator]
    ],
)
def test_no_word_of_a_visitor_makes_a_page_view_an_error(
    node: CompatIntake, more: dict[str, Any], headers: dict[str, str]
) -> None:
    assert node.event(EVENT | more, **headers).status_code == 202
    assert node.client.intake.people == {(MINUTE, "launch"): 1}


@pytest.mark.parametrize(
    ("path", "key"), [("%F0%9F%9A%80", "🚀"), ("%6Caunch", "launch"), ("a%252Fb", "a%2Fb"), ("%ff", "%FF")]
)
def test_a_path_is_decoded_once(node: CompatIntake, path: str, key: str) -> None:
    node.event(EVENT | {"u": f"https://s.example/{path}"})
    assert node.client.intake.people == {(MINUTE, key): 1}


def test_the_agent_of_the_request_tells_a_bot(node: CompatIntake) -> None:
    node.event(EVENT, user_agent="Mozilla/5.0 (compatible; Googlebot/2.1)")
    assert node.client.intake.bots == {(MINUTE, "launch"): 1}


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (b"not json", "the body is not JSON"),
        ([], "the body is not an object"),
        (EVENT | {"n": None}, "the event has no name"),
        (EVENT | {"n": ""}, "the event has no name"),
        (EVENT | {"n": 7}, "the event has no name"),
        (EVENT | {"u": "https://s.example/"}, "names no link"),
        (EVENT | {"u": 7}, "names no link"),
        (EVENT | {"u": "https://[x/y"}, "names no link"),
        (EVENT | {"u": "https://s.example/" + "k" * 2_000}, "key has 2,000 bytes"),
    ],
)
def test_what_is_no_hit_is_400_with_the_reason(node: CompatIntake, event: object, said: str) -> None:
    answer = node.event(event)
    assert (answer.status_code, said in answer.json()["detail"]) == (400, True), answer.text
    assert node.client.intake.total == 0


def test_a_journal_that_is_full_says_so_and_nothing_counts(node: CompatIntake) -> None:
    node.client.intake.failure = JournalFull("full")
    answer = node.event(EVENT)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1


def test_a_large_body_is_refused(node: CompatIntake) -> None:
    assert node.event(b" " * (1 << 20) + b"1").status_code == 413


# --- OpenTelemetry ----------------------------------------------------------------------------------------------------
def point(key: str | None = "launch", count: object = "3", nanos: int = NOW * 10**9, **more: Any) -> dict[str, Any]:
    attributes = [{"key": "key", "value": {"stringValue": key}}] if key is not None else []
    return {
        "attributes": attributes,
        "startTimeUnixNano": str(nanos - 60 * 10**9),
        "timeUnixNano": str(nanos),
        "asInt": count,
        **more,
    }


def export(
    *points: dict[str, Any], name: str = "clicks", temporality: object = 1, monotonic: bool = True
) -> dict[str, Any]:
    total = {"dataPoints": list(points), "aggregationTemporality": temporality, "isMonotonic": monotonic}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shortener"}}]}
    metrics = [{"name": name, "unit": "1", "sum": total}, {"name": "memory", "gauge": {"dataPoints": []}}]
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": {"name": "x"}, "metrics": metrics}]}]}


def exported(node: CompatIntake, body: object, **headers: str) -> httpx.Response:
    return node.post("/v1/metrics", body, **{"content_type": "application/json", **headers})


@pytest.mark.parametrize("temporality", [1, "AGGREGATION_TEMPORALITY_DELTA"])
def test_a_delta_counts_and_counts_once(node: CompatIntake, temporality: object) -> None:
    body = export(point(), point("other", 2), temporality=temporality)
    for _ in range(2):
        answer = exported(node, body)
        assert (answer.status_code, answer.json()) == (200, {})
        assert node.client.intake.people == {(MINUTE, "launch"): 3, (MINUTE, "other"): 2}
    exported(node, export(point(nanos=(NOW + 60) * 10**9)))
    assert node.client.intake.total == 8


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (export(point(), temporality=2), "TEMPORALITY_PREFERENCE=delta"),
        (export(point(), monotonic=False), "only deltas of a monotonic sum"),
        (export(point(), name="requests"), "the metric 'requests' is not 'clicks'"),
        (export(point(count=None)), "a whole count and a time"),
        (export(point(count=None, asDouble=1.5)), "a whole count and a time"),
        (export(point(count="-3")), "a whole count and a time"),
        (export(point(key=None)), "key is missing"),
        (export(point(nanos=(NOW + 3_600) * 10**9)), "ts"),
    ],
)
def test_other_points_are_rejected_one_by_one(node: CompatIntake, body: dict[str, Any], said: str) -> None:
    total = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    total.append(export(point("good", 1))["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0])
    answer = exported(node, body).json()["partialSuccess"]
    assert (answer["rejectedDataPoints"], said in answer["errorMessage"]) == (1, True), answer
    assert node.client.intake.people == {(MINUTE, "good"): 1}


def test_an_id_of_a_point_is_that_of_earlier_versions(node: CompatIntake) -> None:
    """An export that is sent again after an update of the server counts once, too."""
    exported(node, export(point()))
    assert node.client.intake.ids == {"otlp-49fa48295382b9569150c07e6fd476cbe53b8959"}


@pytest.mark.parametrize("length", [10, 2_000, 100_000])
def test_points_of_two_resources_have_ids_of_their_own_however_long_the_resources_are(
    node: CompatIntake, length: int
) -> None:
    for last in ("a", "b", "a"):
        body = export(point())
        body["resourceMetrics"][0]["resource"]["attributes"][0]["value"]["stringValue"] = "r" * length + last
        assert exported(node, body).json() == {}
    assert node.client.intake.people == {(MINUTE, "launch"): 6}


def test_an_export_of_many_points_is_passed_on_in_pieces_that_count_once(node: CompatIntake) -> None:
    body = export(*[point(count=1, nanos=NOW * 10**9 + n) for n in range(2 * PIECE_HITS + 1)])
    exported(node, body)
    assert len(node.client.intake.batches) == 3
    exported(node, body)
    assert node.client.intake.people == {(MINUTE, "launch"): 2 * PIECE_HITS + 1}


def test_a_rejected_point_does_not_repeat_a_long_name(node: CompatIntake) -> None:
    answer = exported(node, export(point(), name="x" * 100_000)).json()["partialSuccess"]
    assert len(answer["errorMessage"]) < 500


def test_a_point_that_is_far_too_long_is_rejected(node: CompatIntake) -> None:
    answer = exported(node, export(point(), point(key="x" * 100_000))).json()["partialSuccess"]
    assert (answer["rejectedDataPoints"], answer["errorMessage"]) == (1, "a point has more than 65,536 bytes")
    assert node.client.intake.total == 3


def test_a_delta_of_nothing_is_no_hit_and_no_rejection(node: CompatIntake) -> None:
    assert exported(node, export(point(count=0), point(count=None, asDouble=2.0))).json() == {}
    assert node.client.intake.total == 2


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"\x0a\x00", {"content_type": "application/x-protobuf"}, 200),
        (b"\x0a", {"content_type": "application/x-protobuf"}, 400),
        (b"{}", {"content_type": "text/plain"}, 415),
        (b"{}", {"content_encoding": "gzip"}, 400),
        (b"{}", {"content_encoding": "br"}, 415),
        (b"{", {}, 400),
        (b'{"resourceMetrics": 7}', {}, 400),
        (b"{}", {}, 200),
    ],
)
def test_what_cannot_be_read_says_so(node: CompatIntake, body: bytes, headers: dict[str, str], status: int) -> None:
    answer = exported(node, body, **headers)
    assert answer.status_code == status
    if status == 415:
        assert "http/json" in answer.json()["detail"]


def test_a_full_journal_is_said_to_the_exporter(node: CompatIntake) -> None:
    node.client.intake.failure = JournalFull("full")
    assert exported(node, export(point())).status_code == 503


@pytest.mark.parametrize(
    ("event", "key"),
    [
        (EVENT, "s.example/launch"),
        ({**EVENT, "u": "https://WWW.s.example:443/launch"}, "www.s.example/launch"),
        ({**EVENT, "u": "app://localhost/launch"}, "s.example/launch"),
    ],
)
def test_the_host_of_the_address_or_else_the_domain_stands_in_the_key_where_it_shall(
    event: dict[str, Any], key: str
) -> None:
    node = CompatIntake(Hosts(in_key=True))
    assert node.event(event).status_code == 202
    assert node.client.intake.people == {(MINUTE, key): 1}
