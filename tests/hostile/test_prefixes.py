"""Every route with a token that has a prefix: the table says what it does, and nothing of another customer is shown."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from server.app import application
from server.app.parts import ROUTES
from server.app.startup import running
from server.settings.reading import read_settings
from server.tokens.route_access import Effect, RouteEffect
from server.tokens.token import Scope
from testing.client import http_client
from testing.server import ROOT, RunningServer
from testing.tokens import add_token
from tests.hostile.each_route import path_of, request_of

BOTH = Scope.write, Scope.read
OWN, OTHER, UNKNOWN = "acme/launch", "beta/secret", "beta/never"
SECRETS = "beta", "secret", "zebra"  # what no answer to the customer may hold
RANGE = "last=24h"


@dataclass(frozen=True)
class Customer:
    """A server with hits of two customers and of the company itself, and the tokens of each."""

    server: RunningServer
    tokens: dict[str, str]

    def ask(self, method: str, path: str, token: str | None = "acme", **request: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens[token]}"} if token else {}
        headers |= request.pop("headers", {})
        with http_client(self.server.url, timeout_s=600) as http:
            return http.request(method, path, headers=headers, **request)


@pytest.fixture(scope="module")
def customer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Customer]:
    data = tmp_path_factory.mktemp("prefixes") / "data"
    file = data / "tokens.json"
    tokens = {
        "acme": add_token(file, "acme", BOTH, prefix="acme/"),
        "beta": add_token(file, "beta", BOTH, prefix="beta/"),
        "admin": add_token(file, "admin", (Scope.admin,)),
    }
    with RunningServer(data) as server:
        made = Customer(server, tokens)
        for token, key, count in (("acme", OWN, 3), ("beta", OTHER, 500), ("admin", "zebra", 700)):
            hit = {"key": key, "count": count, "ref": f"https://{key.partition('/')[0]}.example/", "ip": "192.0.2.1"}
            named = {**hit, "ua": "Mozilla/5.0", "groups": ["company"] if token == "admin" else []}
            assert made.ask("POST", "/v1/hits", token, json=named).json()["counted"] == count
        yield made


def routes_in(routes: Iterable[Any]) -> Iterator[tuple[str, set[str]]]:
    """The path and methods of each route, those of included routers too."""
    for route in routes:
        included = getattr(route, "original_router", None)
        if included is None:
            yield route.path, route.methods or set()
        else:
            yield from routes_in(included.routes)


def test_the_table_has_every_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apps: list[FastAPI] = []
    without_routes = application._without_routes

    def captured() -> FastAPI:
        apps.append(without_routes())
        return apps[-1]

    monkeypatch.setattr(application, "_without_routes", captured)

    async def described() -> set[str]:
        settings = read_settings({"data": str(tmp_path), "store": "memory://"}, {})
        async with running(settings, [0]) as worker:
            application.create_app(worker)
            return {
                f"{method.upper()} {path}" for path, methods in apps[0].openapi()["paths"].items() for method in methods
            }

    there = asyncio.run(described())
    there |= {
        f"{method} {path}" for path, methods in routes_in(apps[0].routes) for method in methods if method != "HEAD"
    }
    table = Counter(f"{method} {each.path}" for each in ROUTES.routes for method in each.methods.split())
    assert {route for route, many in table.items() if many > 1} == set()
    assert there - table.keys() == set(), "say in the table what a prefix does to these"
    assert table.keys() - there == set(), "these routes are gone"


def test_all_links_are_the_customers_group(customer: Customer) -> None:
    assert customer.ask("GET", "/v1/total").json()["total"] == 3
    assert sum(point["count"] for point in customer.ask("GET", f"/v1/curve?{RANGE}").json()["points"]) == 3
    by = customer.ask("GET", "/v1/by/ref").json()
    assert [value["value"] for value in by["values"] if value["at_least"]] == ["acme.example"]
    assert customer.ask("GET", "/v1/groups").json()["groups"] == [{"key": "acme", "count": 3}]
    assert customer.ask("GET", "/v1/groups?sort=key").json()["groups"] == [{"key": "acme", "count": 3}]
    assert customer.ask("GET", "/v1/groups/acme/total").json()["total"] == 3
    assert customer.ask("GET", "/v1/groups/acme/visitors?last=1d").json()["visitor_days"] == 1


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("", [OWN]),
        (RANGE, [OWN]),
        ("sort=key", [OWN]),
        ("sort=key&prefix=acme/l", [OWN]),
        ("sort=key&prefix=a", [OWN]),
        ("prefix=acme/x", []),
        ("sort=key&prefix=beta/", []),
        ("prefix=beta/", []),
        (f"{RANGE}&prefix=beta/", []),
        ("sort=key&after=acme/launch", []),
        ("bots=include&limit=1000", [OWN]),
    ],
)
def test_lists_hold_the_customers_links_alone(customer: Customer, query: str, keys: list[str]) -> None:
    answer = customer.ask("GET", f"/v1/links?{query}")
    assert (answer.status_code, [each["key"] for each in answer.json()["links"]]) == (200, keys)


def test_hits_of_other_keys_are_refused_one_by_one_and_the_rest_counts(customer: Customer) -> None:
    sent = [{"key": "acme/batch"}, {"key": OTHER}, {"key": "acme/batch", "groups": ["beta"]}, {"key": "acme"}]
    answer = customer.ask("POST", "/v1/hits", json=sent)
    items = answer.json()["items"]
    assert answer.status_code == 200
    assert answer.json()["counted"] == 1
    assert [(each["index"], each["field"]) for each in items] == [(1, "key"), (2, "groups"), (3, "key")]
    assert customer.ask("POST", "/v1/hits/beta%2Fsecret").status_code == 403
    assert customer.ask("POST", "/v1/hits", json={"key": OTHER}).status_code == 422
    assert customer.ask("GET", "/v1/links/beta%2Fsecret", "beta").json()["lifetime"] == 500


def test_ids_of_another_customer_are_other_ids(customer: Customer) -> None:
    for token in ("acme", "beta", "admin"):
        hit = {"key": f"{'acme' if token == 'admin' else token}/id", "id": "1", "count": 2}
        batch = [{"key": hit["key"]}, {"key": hit["key"]}]
        assert customer.ask("POST", "/v1/hits", token, json=hit).json()["counted"] == 2
        again = customer.ask("POST", "/v1/hits", token, json=hit).json()
        assert (again["duplicate"], again["items"][0]["value"]) == (2, "1")
        for duplicate in (0, 2):
            named = customer.ask("POST", "/v1/hits", token, json=batch, headers={"Idempotency-Key": "batch"}).json()
            assert named["duplicate"] == duplicate
            assert {each["value"] for each in named["items"]} <= {"batch"}
        by_path = customer.ask("POST", f"/v1/hits/{token}%2Fid", token, headers={"Idempotency-Key": "path"})
        assert by_path.json()["counted"] == 1
    assert customer.ask("GET", "/v1/groups/beta/total", "beta").json()["total"] == 505


def test_an_import_is_the_customers_own(customer: Customer) -> None:
    body = b'{"key": "acme/old", "ts": 1767225600, "count": 4}\n{"key": "beta/secret", "ts": 1767225600}\n'
    headers = {"Content-Type": "application/x-ndjson"}
    before = customer.ask("GET", "/v1/groups/acme/total").json()["total"]
    for token in ("acme", "admin"):
        answer = customer.ask("POST", "/v1/import/log?from=0&to=90", token, content=body, headers=headers).json()
        assert (answer["counted"], answer["refused"]) == ((4, 1) if token == "acme" else (5, 0))
        assert customer.ask("GET", "/v1/import/log", token).json()["position"] == 90
    assert customer.ask("GET", "/v1/import/log", "beta").json()["position"] == 0
    history = b'{"key": "acme/past", "total": 6, "bots": 0, "buckets": [[1767225600, 1767225660, 6, 0]]}\n'
    more = history + b'{"group": "beta", "total": 6, "buckets": [[1767225600, 1767225660, 6, 0]]}\n'
    answer = customer.ask("POST", "/v1/import/past?from=0&to=9", content=more, headers=headers).json()
    assert (answer["counted"], answer["items"][0]["field"]) == (6, "group")
    assert customer.ask("GET", "/v1/groups/acme/total").json()["total"] == before + 10


def test_pages_show_the_customers_part(customer: Customer) -> None:
    page = customer.ask("GET", "/").text
    assert "acme/launch" in page
    assert not any(word in page for word in SECRETS)
    other = customer.ask("GET", "/links/beta%2Fsecret", headers={"Accept": "text/html"})
    assert (other.status_code, "500" in other.text) == (403, False)


def test_a_requests_token_is_its_own_on_a_connection_that_others_used(customer: Customer) -> None:
    """Pipelined requests of several tokens, also on the fast path, each see their own."""

    def raw(token: str, path: str) -> bytes:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {customer.tokens[token]}\r\n\r\n"
        return head.encode()

    path = "/v1/links/zebra/total"
    asked = [("admin", path), ("acme", path), ("admin", path), ("acme", "/v1/total"), ("admin", path), ("beta", path)]
    with socket.create_connection(("127.0.0.1", customer.server.port), timeout=600) as connection:
        connection.sendall(b"".join(raw(*each) for each in asked))
        answers = b""
        while answers.count(b"HTTP/1.1 ") < len(asked) or not answers.rstrip().endswith(b"}"):
            answers += connection.recv(65_536)
    statuses = [int(each[:3]) for each in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200, 403, 200, 200, 200, 403]


def refusals_wrong(customer: Customer, route: RouteEffect, method: str, asked: Counter[str]) -> list[str]:
    """What is wrong with the answers of a route to a customer, in sentences."""
    effect, wrong = route.effect, []

    def answer(key: str, group: str) -> httpx.Response:
        path = path_of(route, key, group)
        found = customer.ask(method, path, **request_of(method, route.path))
        asked["refused" if found.status_code == 403 else "passed"] += 1
        said = f"{method} {path}: {found.status_code} {found.text[:300]}"
        if found.status_code >= 500 or (found.status_code == 401 and effect not in (Effect.typed, Effect.open)):
            wrong.append(said)
        names_another = key != OWN or group != "acme" or method == "POST"
        if not names_another and effect is not Effect.open and any(word in found.text for word in SECRETS):
            wrong.append(f"it shows what is not the customer's: {said}")
        return found

    is_closed = effect in (Effect.refused, Effect.admin, Effect.form)
    own = answer(OWN, "acme")
    if (own.status_code == 403) is not is_closed:
        wrong.append(f"{method} {route.path} ({effect.name}): {own.status_code} {own.text[:200]}")
    if effect is Effect.link:
        there, never = answer(OTHER, "acme"), answer(UNKNOWN, "acme")
        alike = there.text.replace(OTHER, UNKNOWN) == never.text
        if (there.status_code, never.status_code) != (403, 403) or not alike:
            wrong.append(f"{method} {route.path}: {there.status_code} {never.status_code} {there.text[:200]}")
    if effect is Effect.group:
        shown = [group for group in ("beta", "company", "never") if answer(OWN, group).status_code != 403]
        wrong += [f"{method} {route.path} shows the group {group}" for group in shown]
    return wrong


def test_each_route_does_what_the_table_says(customer: Customer, capsys: pytest.CaptureFixture[str]) -> None:
    wrong: list[str] = []
    asked: Counter[str] = Counter()
    for route in ROUTES.routes:
        for method in (*route.methods.split(), *(["HEAD"] if "GET" in route.methods else [])):
            wrong += refusals_wrong(customer, route, method, asked)
    assert "\n".join(wrong) == ""
    said = f"{asked.total()} requests, {asked['refused']} of them refused"
    with capsys.disabled():
        print(f"\nroutes and a prefix: {len(ROUTES.routes)} routes, {said}")


def route_table() -> str:
    """The table as docs/customers.md has it: a row for each thing that a prefix does, with the routes it does it to."""
    rows: defaultdict[str, list[str]] = defaultdict(list)
    for each in ROUTES.routes:
        rows[str(each.effect)].append(f"`{each.methods.replace(' ', ', ')} {each.path}`")
    head = "| with a prefix | routes |\n| --- | --- |\n"
    return head + "".join(f"| {effect} | {', '.join(routes)} |\n" for effect, routes in rows.items())


def test_the_docs_have_the_table_and_no_other_rows() -> None:
    text = (ROOT / "docs" / "customers.md").read_text()
    table = "| with a prefix |" + text.partition("| with a prefix |")[2].partition("\n\n")[0] + "\n"
    assert table == route_table(), "write the second into the page"
