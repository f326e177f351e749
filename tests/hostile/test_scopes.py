"""Every route with every kind of token: what may pass is told by one table, and the document says the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection

import httpx
import pytest

from server.tokens.token import Scope
from testing.server import ROOT, RunningServer
from testing.tokens import add_token, remove_token

# The scope that each route needs; None is open to everybody. A route that is missing here fails the test.
NEEDS: dict[str, Scope | None] = {
    "POST /v1/hits": Scope.write,
    "POST /v1/hits/{key}": Scope.write,
    "GET /v1/links": Scope.read,
    "GET /v1/links/{key}": Scope.read,
    "GET /v1/links/{key}/total": Scope.read,
    "GET /v1/links/{key}/curve": Scope.read,
    "GET /v1/links/{key}/curve.svg": Scope.read,
    "GET /v1/links/{key}/curve.png": Scope.read,
    "GET /v1/links/{key}/badge.svg": Scope.read,
    "GET /v1/links/{key}/badge.json": Scope.read,
    "GET /v1/export": Scope.read,
    "DELETE /v1/links": Scope.admin,
    "DELETE /v1/links/{key}": Scope.admin,
    "DELETE /v1/groups/{name}": Scope.admin,
    "GET /v1/total": Scope.read,
    "GET /v1/curve": Scope.read,
    "GET /v1/by/{dimension}": Scope.read,
    "GET /v1/by/{dimension}/curve": Scope.read,
    "GET /v1/links/{key}/by/{dimension}": Scope.read,
    "GET /v1/links/{key}/by/{dimension}/curve": Scope.read,
    "GET /v1/links/{key}/visitors": Scope.read,
    "GET /v1/links/{key}/why": Scope.read,
    "GET /v1/groups/{name}/why": Scope.read,
    "GET /v1/why": Scope.read,
    "GET /v1/now": Scope.read,
    "GET /v1/hours": Scope.read,
    "GET /v1/links/{key}/now": Scope.read,
    "GET /v1/links/{key}/hours": Scope.read,
    "GET /v1/groups/{name}/now": Scope.read,
    "GET /v1/groups/{name}/hours": Scope.read,
    "GET /v1/notes": Scope.read,
    "POST /v1/notes": Scope.write,
    "DELETE /v1/notes/{id}": Scope.write,
    "GET /v1/events": Scope.read,
    "GET /v1/events/by/{dimension}": Scope.read,
    "GET /v1/links/{key}/events": Scope.read,
    "GET /v1/links/{key}/events/by/{dimension}": Scope.read,
    "GET /v1/groups/{name}/events": Scope.read,
    "GET /v1/groups/{name}/events/by/{dimension}": Scope.read,
    "GET /v1/groups/{name}/by/{dimension}": Scope.read,
    "GET /v1/groups/{name}/by/{dimension}/curve": Scope.read,
    "GET /v1/groups/{name}/visitors": Scope.read,
    "GET /v1/groups": Scope.read,
    "GET /v1/groups/{name}": Scope.read,
    "GET /v1/groups/{name}/total": Scope.read,
    "GET /v1/groups/{name}/curve": Scope.read,
    "GET /v1/groups/{name}/curve.svg": Scope.read,
    "GET /v1/groups/{name}/curve.png": Scope.read,
    "GET /v1/groups/{name}/badge.svg": Scope.read,
    "GET /v1/groups/{name}/badge.json": Scope.read,
    "POST /v1/sum": Scope.read,
    "GET /v1/limits": Scope.read,
    "GET /v1/limits/{event}/total": Scope.read,
    "GET /v1/limits/{event}/curve": Scope.read,
    "POST /v1/limit/{event}": Scope.write,
    "GET /v1/limit/{event}/check": Scope.write,
    "POST /v1/limit/{event}/check": Scope.write,
    "POST /v1/limit/{event}/{reservation}/commit": Scope.write,
    "POST /v1/limit/{event}/{reservation}/cancel": Scope.write,
    "GET /v1/import/{source}": Scope.write,
    "POST /v1/import/{source}": Scope.write,
    "POST /v1/logs/{source}": Scope.write,
    "POST /v1/tokens": Scope.admin,
    "GET /v1/tokens": Scope.admin,
    "DELETE /v1/tokens/{id}": Scope.admin,
    "GET /v1/audit": Scope.admin,
    "POST /v1/clock/accept": Scope.admin,
    "POST /v1/links/{key}/disavow": Scope.admin,
    "POST /v1/groups/{name}/disavow": Scope.admin,
    "POST /v1/disavow": Scope.admin,
    "GET /v1/disavow": Scope.admin,
    "POST /v1/words/erase": Scope.admin,
    "GET /v1/words/erase/{id}": Scope.admin,
    "GET /v1/disavow/{id}": Scope.admin,
    "DELETE /v1/disavow/{id}": Scope.admin,
    "GET /metrics": Scope.read,
    "GET /healthz": None,
    "GET /readyz": None,
}
NOT_DESCRIBED: dict[str, Scope | None] = {
    "GET /docs": None,
    "GET /openapi.json": None,
    "GET /nothing": Scope.read,
    "PUT /v1/sum": Scope.write,
    "POST /v1/sum/x": Scope.write,
    "PUT /v1/links/a": Scope.write,
    "POST /render": Scope.read,
    "POST /api/event": Scope.write,
    "POST /api/event/x": Scope.write,
    "POST /v1/metrics": Scope.write,
    "POST /v1/logs": Scope.write,
    "POST /mcp": Scope.read,
    "GET /matomo.php": Scope.write,
    "GET /matomo.php/x": Scope.read,
    "PUT /render": Scope.write,
    "POST /api/v1/query": Scope.read,
    "GET /v4/bitlinks/h/k/clicks": Scope.read,
    "PATCH /healthz": Scope.write,
    "OPTIONS /v1/hits": Scope.admin,
    "TRACE /healthz": Scope.admin,
    "GET /v1/%6cinks": Scope.read,
    "GET /v1/tokens/": Scope.admin,
    "PUT /v1/tokens/0": Scope.admin,
    "GET //healthz": Scope.read,
    "GET /healthz/": Scope.read,
    "GET /healthz/../v1/links": Scope.read,
    "GET /v1/import/../links": Scope.write,
}
REFUSED = {401: "missing or unknown", 403: "without the scope"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, dict[str, str | None]]]:
    """A server that asks for tokens, and tokens by name."""
    data = tmp_path_factory.mktemp("scopes") / "data"
    data.mkdir()
    file = data / "tokens.json"
    tokens = {scope.value: add_token(file, scope.value, (scope,), 0) for scope in Scope}
    revoked = add_token(file, "revoked", tuple(Scope), 0)
    remove_token(file, revoked)
    admin = tokens["admin"]
    wrong = admin[:-1] + ("A" if admin[-1] != "A" else "B")
    with RunningServer(data) as running:
        yield running, {**tokens, "none": None, "revoked": revoked, "wrong": wrong, "cut": admin[:-1], "empty": ""}


def expected(needed: Scope | None, token: str) -> int | None:
    """The status that refuses a token, None where it lets pass."""
    if needed is None or token in (needed.value, Scope.admin.value):
        return None
    return 403 if token in {scope.value for scope in Scope} else 401


def test_each_route_lets_only_its_scope_pass(
    server: tuple[RunningServer, dict[str, str | None]], capsys: pytest.CaptureFixture[str]
) -> None:
    running, tokens = server
    counts: Counter[int | None] = Counter()
    wrong: list[str] = []
    described = httpx.get(f"{running.url}/openapi.json", trust_env=False).json()["paths"]
    with closing(HTTPConnection("127.0.0.1", running.port, timeout=600)) as http:
        routes = {
            f"{method.upper()} {path}": operation.get("x-scope")
            for path, methods in described.items()
            for method, operation in methods.items()
        }
        assert routes == {route: needed.value if needed else None for route, needed in NEEDS.items()}
        for route, needed in with_head({**NEEDS, **NOT_DESCRIBED}).items():
            for name, token in tokens.items():
                status = asked(http, route, token)
                refused = status if status in REFUSED else None
                counts[refused] += 1
                if refused != expected(needed, name) or status >= 500:
                    wrong.append(f"{route} with {name}: {status}")
    assert wrong == []
    said = f"{counts.total()} requests, {counts[401]} of them {REFUSED[401]}, {counts[403]} {REFUSED[403]}"
    with capsys.disabled():
        print(f"\nroutes and tokens: {said}")
    assert said in (ROOT / "docs" / "promises.md").read_text()


def with_head(routes: dict[str, Scope | None]) -> dict[str, Scope | None]:
    """The same with HEAD for each GET."""
    heads = {f"HEAD {route[4:]}": needed for route, needed in routes.items() if route.startswith("GET ")}
    return {**routes, **heads}


def asked(http: HTTPConnection, route: str, token: str | None) -> int:
    """The status of a request whose path is sent as it is written, dots and all."""
    method, _, path = route.partition(" ")
    for name, value in {"key": "launch", "event": "login", "source": "s", "reservation": "r", "id": "0"}.items():
        path = path.replace(f"{{{name}}}", value)
    http.request(method, path, headers={} if token is None else {"Authorization": f"Bearer {token}"})
    answer = http.getresponse()
    answer.read()
    return answer.status
