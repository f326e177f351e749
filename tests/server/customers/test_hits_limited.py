"""`[limits.write] cost = "hits"`: what a request wants to count is asked for before it is journaled, all or nothing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.tokens.token import Scope
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token
from tests.server.commands import said

RULE = '[limits.write]\nby = ["token", "ip"]\nrates = "{}/d"\nstrategy = "fixed"\ncost = "hits"\n'
EVENT = {"name": "pageview", "url": "https://h/launch", "domain": "h"}
NDJSON = {"Content-Type": "application/x-ndjson"}


class Limited:
    """A server with a limit of 10 hits a day for each token, and two customers."""

    def __init__(self, server: RunningServer, tokens: dict[str, str]) -> None:
        self.server, self.tokens = server, tokens

    def ask(self, method: str, path: str, token: str, headers: Any = (), **request: Any) -> httpx.Response:
        with http_client(self.server.url) as http:
            given = {"Authorization": f"Bearer {self.tokens[token]}", **dict(headers)}
            return http.request(method, path, headers=given, **request)

    def left(self, token: str) -> int:
        """How many hits the token may count still, by taking them away."""
        return sum(self.ask("POST", f"/v1/hits/{token}%2Fleft", token).status_code == 200 for _ in range(11))

    def total(self, name: str) -> int:
        answer: int = self.ask("GET", f"/v1/groups/{name}/total", "admin").json()["total"]
        return answer


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Limited]:
    data, config = tmp_path / "data", tmp_path / "clickcurve.toml"
    config.write_text(RULE.format(10))
    both = Scope.write, Scope.read
    tokens = {name: add_token(data / "tokens.json", name, both, prefix=f"{name}/") for name in ("acme", "beta")}
    tokens["admin"] = add_token(data / "tokens.json", "admin", (Scope.admin,))
    with RunningServer(data, "--config", str(config)) as server:
        yield Limited(server, tokens)


def hits(many: int, key: str = "acme/k") -> list[dict[str, Any]]:
    return [{"key": f"{key}{n}"} for n in range(many)]


def test_a_batch_costs_its_hits_and_a_refused_one_counts_nothing(limited: Limited) -> None:
    assert limited.ask("POST", "/v1/hits", "acme", json=hits(7)).json()["counted"] == 7
    refused = limited.ask("POST", "/v1/hits", "acme", json=hits(4))
    assert (refused.status_code, refused.headers["content-type"]) == (429, "application/problem+json")
    assert (refused.headers["x-ratelimit-limit"], refused.headers["x-ratelimit-remaining"]) == ("10", "3")
    assert int(refused.headers["retry-after"]) >= 1
    assert (refused.json()["rule"], refused.json()["title"]) == ("write", "rate limit exceeded")
    assert limited.total("acme") == 7
    assert limited.ask("POST", "/v1/hits", "beta", json=hits(10, "beta/k")).json()["counted"] == 10, "by token"
    assert limited.ask("POST", "/v1/hits", "acme", json=[{"key": "acme/k", "count": 3}]).json()["counted"] == 3
    assert limited.left("acme") == limited.left("beta") == 0
    limited.server.kill()
    limited.server.start()
    assert (limited.total("acme"), limited.total("beta")) == (10, 10), "what was refused is in no journal"


def test_one_that_costs_more_than_the_limit_never_fits(limited: Limited) -> None:
    refused = limited.ask("POST", "/v1/hits", "acme", json={"key": "acme/k", "count": 1_000_000_000})
    assert (refused.status_code, "retry-after" in refused.headers) == (429, False)
    assert "costs more than the 10 that are ever free at once" in refused.json()["detail"]
    assert limited.ask("POST", "/v1/hits", "acme", json=hits(10)).status_code == 200


@pytest.mark.parametrize(
    ("path", "request_", "cost"),
    [
        ("/v1/hits/acme%2Fa", {}, 1),
        ("/v1/hits/acme%2Fa", {"headers": {"Idempotency-Key": "one"}}, 1),
        ("/v1/hits", {"json": {"key": "acme/a"}}, 1),
        ("/v1/hits", {"json": {"key": "acme/a", "id": "1", "count": 4}}, 4),
        ("/v1/hits", {"json": [*hits(3), {"key": "beta/other"}, {"key": 7}]}, 3),  # refused hits cost nothing
        ("/v1/hits", {"json": hits(5), "headers": {"Idempotency-Key": "five"}}, 5),
        (
            "/v1/hits",
            {"content": gzip.compress(json.dumps(hits(6)).encode()), "headers": {"Content-Encoding": "gzip"}},
            6,
        ),
        ("/v1/hits", {"content": b'{"key":"acme/a"}\n{"key":"acme/b"}\n', "headers": NDJSON}, 2),
        ("/v1/import/s?from=0&to=9", {"content": b'{"key":"acme/a","ts":1767225600,"count":8}', "headers": NDJSON}, 8),
        ("/v1/hits", {"json": []}, 0),
        ("/v1/hits", {"content": b"no json"}, 0),
    ],
)
def test_each_way_of_writing_costs_its_good_hits(limited: Limited, path: str, request_: Any, cost: int) -> None:
    status = limited.ask("POST", path, "acme", **request_).status_code
    assert status == (200 if cost or request_.get("json") == [] else 400)
    assert limited.left("acme") == 10 - cost
    again = limited.ask("POST", path, "acme", **request_)
    assert again.status_code == (429 if cost else status)
    assert ("x-ratelimit-limit" in again.headers) is bool(cost)
    assert limited.total("acme") == 10, "and the refused one counts nothing"


def test_hits_in_the_shapes_of_other_tools_cost_too_and_administering_does_not(limited: Limited) -> None:
    statuses = [limited.ask("POST", "/api/event", "admin", json=EVENT).status_code for _ in range(12)]
    assert [status < 300 for status in statuses] == [True] * 10 + [False] * 2
    assert statuses[-1] == 429
    assert limited.ask("DELETE", "/v1/links/launch", "admin").status_code == 204
    assert limited.ask("POST", "/v1/tokens", "admin", json={"name": "x", "scopes": ["read"]}).status_code == 201


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        (RULE.replace("write", "login").format(1), "only the event write counts hits"),
        (RULE.format(1).replace('"hits"', '"bytes"'), "requests, hits"),
        (
            "".join(f'[[limits.write]]\nby = "ip"\nrates = "1/d"\ncost = "{cost}"\n' for cost in ("hits", "requests")),
            "the same for all rules of an event",
        ),
    ],
)
def test_a_cost_that_cannot_be_is_refused_at_the_start(tmp_path: Path, rules: str, sentence: str) -> None:
    config = tmp_path / "clickcurve.toml"
    config.write_text(rules)
    assert sentence in said("serve", "--data", str(tmp_path / "data"), "--config", str(config), code=2)
