"""What any caller meets: problem documents, tokens, readiness, numbers, the page that explains the routes."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from server.tokens.token import Scope, TokenRequest
from testing.client import Clickcurve, http_client
from testing.server import RunningServer
from testing.tokens import add_token, token_book
from tests.server.conftest import wait_until


@pytest.fixture
def http(shared: RunningServer) -> Iterator[httpx.Client]:
    with http_client(shared.url) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "status", "title", "field"),
    [
        ("GET", "/nothing", 404, "not found", None),
        ("GET", "/v1/links/a/b/c", 404, "not found", None),
        ("GET", "/healthz/", 404, "not found", None),
        ("POST", "/v1/total", 405, "method not allowed", None),
        ("DELETE", "/healthz", 405, "method not allowed", None),
        ("GET", "/v1/hits", 405, "method not allowed", None),
        ("GET", "/readyz?for=luck", 422, "invalid parameter", "for"),
        ("GET", "/v1/curve?last=7x", 422, "invalid parameter", "last"),
        ("GET", "/v1/links?limit=1001", 422, "invalid parameter", "limit"),
        ("POST", "/v1/hits", 400, "unreadable body", None),
    ],
)
def test_every_error_is_a_problem_document(
    http: httpx.Client, method: str, path: str, status: int, title: str, field: str | None
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["title"], problem.get("field")) == (title, field)
    assert problem["detail"]
    assert "server" not in answer.headers


@pytest.mark.parametrize(
    "line",
    (
        *("GET *", "HEAD *", "OPTIONS *", "POST *", "DELETE *", "GET *x", "GET v1", "GET v1/total"),
        *("CONNECT a.example:443", "GET http://a.example/nothing", "GET /v1", "GET /v1/", "GET //v1/total", "GET ?x"),
    ),
)
def test_an_odd_target_is_the_clients_error(shared: RunningServer, line: str) -> None:
    with socket.create_connection(("127.0.0.1", shared.port), 10) as wire:
        wire.sendall(f"{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        status = int(wire.makefile("rb").readline().split()[1])
    assert status in (400, 404, 405), status


def test_405_says_what_is_possible(http: httpx.Client) -> None:
    assert http.post("/v1/total").headers["allow"] == "GET, HEAD"
    assert http.get("/v1/hits").headers["allow"] == "POST"
    assert http.put("/v1/links/launch").headers["allow"] == "GET, HEAD, DELETE"
    assert http.put("/v1/import/source").headers["allow"] == "GET, HEAD, POST"
    assert http.delete("/healthz").headers["allow"] == "GET, HEAD"


GETS = (
    "/v1/links", "/v1/links/launch", "/v1/links/launch/total", "/v1/links/launch/curve", "/v1/total", "/v1/curve",
    "/v1/curve?format=csv", "/v1/links?limit=0", "/v1/links/a/b", "/v1/limits", "/v1/limits/none/total",
    "/v1/import/source", "/healthz", "/readyz", "/readyz?for=read", "/metrics", "/docs", "/openapi.json", "/nothing",
    "/v1/hits", "/v1/hits/launch",
)  # fmt: skip


@pytest.mark.parametrize("path", GETS)
def test_head_answers_as_get_without_the_body(http: httpx.Client, path: str) -> None:
    found, head = http.get(path), http.head(path)
    assert head.status_code == found.status_code
    assert head.content == b""
    varying = ("date", "content-length") if path == "/metrics" else ("date",)
    assert _but(head.headers, *varying) == _but(found.headers, *varying)
    assert int(head.headers["content-length"]) > 0
    assert http.get("/healthz").is_success, "the next answer on the connection is not mistaken for a body"


def _but(headers: httpx.Headers, *names: str) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in names}


@pytest.mark.parametrize("path", GETS)
def test_no_answer_is_kept_or_taken_for_another_type(http: httpx.Client, path: str) -> None:
    answer = http.get(path).headers
    assert (answer["cache-control"], answer["x-content-type-options"]) == ("no-store", "nosniff")


OF_OTHER_TOOLS = (
    *("GET, POST /render", "GET, POST /metrics/find", "GET, POST /metrics/expand", "GET, POST /functions"),
    *("GET, POST /version", "GET /metrics/links", "GET, POST /api/v1/query", "GET, POST /api/v1/query_range"),
    *(
        "GET, POST /api/v1/labels",
        "GET /api/v1/label/{name}/values",
        "GET, POST /api/v1/series",
        "GET /api/v1/metadata",
    ),
    *("GET /v4/bitlinks/{host}/{key}/clicks", "GET /v4/bitlinks/{host}/{key}/clicks/summary", "POST /api/event"),
    *("GET /v4/bitlinks/{host}/{key}/{facet}", "POST /v1/metrics"),
)


def test_a_browser_runs_nothing_on_the_page_of_routes(http: httpx.Client) -> None:
    policy = http.get("/docs").headers["content-security-policy"]
    assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; "))


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text; version=1.a",
        "application/openmetrics-text;version=" + "9" * 5_000,
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8",
        "application/openmetrics-text;version=-1",
        "text/plain;version=a.b",
        "text/plain;version=",
        "text/plain;version",
        "text/plain; version =1.x;version=1.y",
        "text/plain;version=1.0.0;escaping=?",
        "text/plain;version=1.\u0663",
        "*/*;version=..",
        ",;=,",
    ],
)
def test_metrics_are_answered_whatever_a_scraper_accepts(http: httpx.Client, accept: str) -> None:
    answer = http.get("/metrics", headers={b"Accept": accept.encode("latin-1", "replace")})
    assert answer.status_code == 200
    assert 'build="plain"' in answer.text


def test_it_lives_and_is_ready(http: httpx.Client) -> None:
    assert http.get("/healthz").json() == {"alive": True}
    ready = http.get("/readyz")
    assert (ready.status_code, ready.json()["ready"]) == (200, True)
    assert http.get("/readyz?for=read").json()["store"] == "up"
    assert http.get("/readyz?for=luck").json()["rule"] == "'write' or 'read'"


def test_metrics_can_be_read_by_prometheus_and_count_refusals(http: httpx.Client) -> None:
    http.post("/v1/hits", json=[{"key": "a"}, {"key": "", "ts": 1}, {"key": "b", "count": 0}])
    http.get("/nothing")
    families = {family.name: family for family in text_string_to_metric_families(http.get("/metrics").text)}
    assert all(family.documentation for family in families.values())
    refused = {
        (sample.labels["field"], sample.value > 0)
        for sample in families["clickcurve_refused_hits"].samples
        if sample.name.endswith("_total")
    }
    assert {("key", True), ("count", True), ("ts", False)} <= refused
    counted = {sample.labels["status"] for sample in families["clickcurve_refused_requests"].samples}
    assert "404" in counted


DESCRIBED: Mapping[str, set[str]] = {
    "/v1/hits": {"post"},
    "/v1/hits/{key}": {"post"},
    "/v1/links": {"delete", "get"},
    "/v1/links/{key}": {"get", "delete"},
    "/v1/links/{key}/total": {"get"},
    "/v1/links/{key}/curve": {"get"},
    "/v1/links/{key}/curve.svg": {"get"},
    "/v1/links/{key}/curve.png": {"get"},
    "/v1/links/{key}/badge.svg": {"get"},
    "/v1/links/{key}/badge.json": {"get"},
    "/v1/by/{dimension}": {"get"},
    "/v1/by/{dimension}/curve": {"get"},
    "/v1/links/{key}/by/{dimension}": {"get"},
    "/v1/links/{key}/by/{dimension}/curve": {"get"},
    "/v1/links/{key}/visitors": {"get"},
    "/v1/links/{key}/why": {"get"},
    "/v1/groups/{name}/why": {"get"},
    "/v1/why": {"get"},
    "/v1/links/{key}/events": {"get"},
    "/v1/links/{key}/events/by/{dimension}": {"get"},
    "/v1/groups/{name}/events": {"get"},
    "/v1/groups/{name}/events/by/{dimension}": {"get"},
    "/v1/events": {"get"},
    "/v1/events/by/{dimension}": {"get"},
    "/v1/groups/{name}/by/{dimension}": {"get"},
    "/v1/groups/{name}/by/{dimension}/curve": {"get"},
    "/v1/groups/{name}/visitors": {"get"},
    "/v1/groups": {"get"},
    "/v1/groups/{name}": {"delete", "get"},
    "/v1/groups/{name}/total": {"get"},
    "/v1/groups/{name}/curve": {"get"},
    "/v1/groups/{name}/curve.svg": {"get"},
    "/v1/groups/{name}/curve.png": {"get"},
    "/v1/groups/{name}/badge.svg": {"get"},
    "/v1/groups/{name}/badge.json": {"get"},
    **{f"/v1{of}/{what}": {"get"} for of in ("", "/links/{key}", "/groups/{name}") for what in ("now", "hours")},
    "/v1/notes": {"get", "post"},
    "/v1/notes/{id}": {"delete"},
    "/v1/sum": {"post"},
    "/v1/limits/{event}/total": {"get"},
    "/v1/limits/{event}/curve": {"get"},
    "/v1/total": {"get"},
    "/v1/curve": {"get"},
    **{key: {"get"} for key in ("/healthz", "/readyz", "/metrics")},
    "/v1/import/{source}": {"get", "post"},
    "/v1/logs/{source}": {"post"},
    "/v1/limit/{event}": {"post"},
    "/v1/limit/{event}/check": {"get", "post"},
    "/v1/limit/{event}/{reservation}/commit": {"post"},
    "/v1/limit/{event}/{reservation}/cancel": {"post"},
    "/v1/limits": {"get"},
    "/v1/tokens": {"get", "post"},
    "/v1/tokens/{id}": {"delete"},
    "/v1/audit": {"get"},
    "/v1/export": {"get"},
    "/v1/links/{key}/disavow": {"post"},
    "/v1/groups/{name}/disavow": {"post"},
    "/v1/disavow": {"get", "post"},
    "/v1/disavow/{id}": {"get", "delete"},
    "/v1/clock/accept": {"post"},
    "/v1/words/erase": {"post"},
    "/v1/words/erase/{id}": {"get"},
}


def test_the_page_of_routes_has_every_route_with_examples(http: httpx.Client) -> None:
    paths: dict[str, Any] = http.get("/openapi.json").json()["paths"]
    assert {path: set(methods) for path, methods in paths.items()} == DESCRIBED
    page = http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for path, methods in DESCRIBED.items():
        for method in methods:
            assert paths[path][method]["summary"]
            assert f"{method.upper()} {path}</code>" in page.text
    for route in OF_OTHER_TOOLS:
        assert f"{route}</code>" in page.text
    assert page.text.count('<a href="#') == page.text.count("<section id=") > 60
    assert "spring-sale" in page.text, "examples"
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page.text), "it works without a network"


def test_the_examples_of_hits_are_what_the_server_answers(http: httpx.Client) -> None:
    described = http.get("/openapi.json").json()["paths"]["/v1/hits"]["post"]
    bodies = described["requestBody"]["content"]["application/json"]["examples"]
    shown = described["responses"]["200"]["content"]["application/json"]["examples"]
    one, several = (http.post("/v1/hits", json=body["value"]).json() for body in bodies.values())
    assert one == shown["one hit"]["value"]
    assert several == shown["several"]["value"]
    for media in ("application/x-ndjson", "application/cloudevents-batch+json"):
        example = described["requestBody"]["content"][media]["example"]
        content = example if isinstance(example, str) else json.dumps(example)
        assert http.post("/v1/hits", content=content, headers={"Content-Type": media}).json()["refused"] == 0


def test_errors_are_described_as_they_are(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    assert "HTTPValidationError" not in json.dumps(document)
    assert document["paths"]["/v1/links/{key}"]["delete"]["x-scope"] == "admin"
    assert "security" not in document["paths"]["/healthz"]["get"]


def test_json_escapes_what_it_must_and_leaves_other_control_characters_to_programs(http: httpx.Client) -> None:
    key = "a\x1b]0;title\x07\n\x7f\x9b\u202e"
    assert http.post("/v1/hits", json={"key": key}).json()["counted"] == 1
    link = next(item for item in http.get("/v1/links?limit=1000").json()["links"] if item["key"] == key)
    assert link["count"] == 1
    raw = http.get("/v1/links?limit=1000").content
    assert b"\\u001b]0;title\\u0007\\n\x7f\xc2\x9b\xe2\x80\xae" in raw
    assert not any(byte < 0x20 for byte in raw)


def talk(server: RunningServer, *pieces: bytes) -> bytes:
    """Sends bytes as they are; all that comes back until the server closes the connection."""
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as connection:
        with suppress(ConnectionError):
            for piece in pieces:
                connection.sendall(piece)
        with suppress(ConnectionError):
            while found := connection.recv(65_536):
                answer += found
    return answer


def test_headers_without_end_are_cut_off(shared: RunningServer) -> None:
    lines = (b"X-%d: " % n + b"x" * 1_000 + b"\r\n" for n in range(2_000))
    answer = talk(shared, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", *lines)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431")


def test_long_headers_within_the_bound_are_taken(http: httpx.Client) -> None:
    for _ in range(3):  # the bound is per request, not per connection
        assert http.get("/healthz", headers={"X-Long": "x" * 40_000}).status_code == 200


# --- tokens ---------------------------------------------------------------------------------------------------------
class Guarded:
    """A server that asks for tokens, and one token of each scope."""

    def __init__(self, server: RunningServer, tokens: dict[str, str]) -> None:
        self.server = server
        self.tokens = tokens

    def ask(self, method: str, path: str, scope: str | None, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens.get(scope, scope)}"} if scope is not None else {}
        with http_client(self.server.url) as http:
            return http.request(method, path, headers=headers, **more)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    data: Path = tmp_path_factory.mktemp("guarded") / "data"
    data.mkdir()
    tokens = {scope.value: add_token(data / "tokens.json", scope.value, (scope,), 0) for scope in Scope}
    with RunningServer(data) as server:
        yield Guarded(server, tokens)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/hits/launch", {"write", "admin"}),
        ("POST", "/v1/hits", {"write", "admin"}),
        ("GET", "/v1/links/launch", {"read", "admin"}),
        ("GET", "/v1/links/launch/total", {"read", "admin"}),
        ("GET", "/v1/curve", {"read", "admin"}),
        ("GET", "/v1/links", {"read", "admin"}),
        ("GET", "/v1/limits", {"read", "admin"}),
        ("GET", "/metrics", {"read", "admin"}),
        ("DELETE", "/v1/links/nobody", {"admin"}),
        ("GET", "/healthz", {None, "wrong", "write", "read", "admin"}),
        ("GET", "/readyz", {None, "wrong", "write", "read", "admin"}),
        ("GET", "/docs", {None, "wrong", "write", "read", "admin"}),
    ],
)
def test_each_route_asks_for_its_scope(guarded: Guarded, method: str, path: str, allowed: set[str | None]) -> None:
    for scope in (None, "wrong", "write", "read", "admin"):
        answer = guarded.ask(method, path, scope, **({"json": {"key": "a"}} if path == "/v1/hits" else {}))
        if scope in allowed:
            assert answer.is_success, (scope, answer.text)
            continue
        assert answer.status_code == (403 if scope in guarded.tokens else 401), scope
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_refused_write_counts_nothing_and_leaks_nothing(guarded: Guarded) -> None:
    answer = guarded.ask("POST", "/v1/hits", "read", json={"key": "secret-plan", "count": 5})
    assert answer.status_code == 403
    assert guarded.tokens["read"] not in answer.text
    assert guarded.ask("GET", "/v1/links/secret-plan", "read").json()["lifetime"] == 0


def test_a_token_made_while_it_runs_closes_an_shared(server: RunningServer) -> None:
    with Clickcurve(server.url) as client:
        client.hit("launch")
        with token_book(server.data) as book:
            book.add(TokenRequest("first", (Scope.read,)), 0)
        wait_until(lambda: client.http.get("/v1/total").status_code == 401)
