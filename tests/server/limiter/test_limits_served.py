"""Limits of a real server: the decision service, rules that are replaced by a signal, and its own writes limited."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.tokens.token import Scope
from testing.client import Clickcurve, http_client
from testing.server import RunningServer, free_port
from testing.tokens import add_token
from tests.conftest import Serve
from tests.server.commands import ask, said
from tests.server.conftest import events, wait_until

LOGIN = '[limits.login]\nby = ["user", "ip"]\nrates = "3/d"\nstrategy = "fixed"\n'


class Client(httpx.Client):
    """A client that knows its server."""

    def __init__(self, server: RunningServer) -> None:
        super().__init__(base_url=server.url, trust_env=False, verify=False)
        self.server = server


Start = Callable[..., Client]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "clickcurve.toml"


@pytest.fixture
def limited(serve: Serve, config: Path) -> Iterator[Start]:
    """Starts a server with these rules; a client of it."""
    clients: list[Client] = []

    def start(text: str, *flags: str, **more: Any) -> Client:
        config.write_text(text)
        clients.append(Client(serve("--config", str(config), *flags, **more)))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


def login(client: httpx.Client, user: str = "ann") -> int:
    return client.post("/v1/limit/login", json={"user": user}).status_code


def metric(client: httpx.Client, *parts: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(part in line for part in parts))


def test_a_server_decides_for_others_and_counts_what_it_decided(limited: Start) -> None:
    client = limited(LOGIN + LOGIN.replace("login", "rush").replace("3/d", "5/d"), "--limits-headers", "ietf")
    assert [login(client) for _ in range(4)] == [200, 200, 200, 429]
    assert login(client, "ben") == 200
    answer = client.post("/v1/limit/login", json={"user": "ann"})
    assert answer.json()["rule"] == "login"
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["ratelimit"].startswith('"login";r=0;t=')
    unknown = client.post("/v1/limit/signup", json={})
    assert (unknown.status_code, unknown.json()["title"]) == (404, "unknown event")
    assert unknown.headers["content-type"] == "application/problem+json"
    wrong = client.post("/v1/limit/login", content=b'{"user": 7}').json()
    assert (wrong["status"], wrong["field"], wrong["value"], wrong["rule"]) == (422, "user", 7, "text")
    held = client.post("/v1/limit/login", json={"user": "ben", "reserve": True}).json()["reservation"]
    assert client.post(f"/v1/limit/login/{held}/cancel").json()["state"] == "cancelled"
    assert client.get("/v1/limits").json()["limits"][0]["rates"] == "3/d"
    assert metric(client, "limit_decisions_total", 'outcome="allowed"') == 5
    assert metric(client, "limit_decisions_total", 'outcome="refused"') == 2
    assert metric(client, "limit_keys", 'backend="memory"') == 2
    assert client.get("/v1/total").json()["total"] == 0, "decisions are no hits of links"
    with http_client(client.server.url, fresh=True) as fresh, ThreadPoolExecutor(20) as pool:
        rush = pool.map(lambda _: fresh.post("/v1/limit/rush", json={"user": "ann"}).status_code, range(100))
        assert Counter(rush) == {200: 5, 429: 95}, "a hundred at once, each over a connection of its own"


def test_a_signal_replaces_the_rules_and_a_bad_file_does_not(limited: Start, config: Path) -> None:
    client = limited(LOGIN)
    server = client.server
    assert [login(client) for _ in range(4)][-1] == 429
    config.write_text(LOGIN.replace("3/d", "3 by day"))
    server.signal(signal.SIGHUP)
    wait_until(lambda: bool(events(server, "limits not reloaded")))
    assert "3 by day" in events(server, "limits not reloaded")[0]["reason"]
    assert login(client) == 429
    config.write_text("flush_s = 7\n" + LOGIN.replace("3/d", "5/d"))
    server.signal(signal.SIGHUP)
    wait_until(lambda: bool(events(server, "settings changed")))
    assert [login(client) for _ in range(3)] == [200, 200, 429]
    assert events(server, "settings changed")[0]["settings"] == ["flush_s"]
    assert server.stop() == 0


def test_a_wrong_rule_stops_the_start_in_one_sentence(config: Path, tmp_path: Path) -> None:
    for text, flags, sentence in [
        (LOGIN.replace("3/d", "3/y"), (), "the rate '3/y' has the unit 'y'"),
        (LOGIN, ("--workers", "2"), "each of 2 workers would admit all"),
        (LOGIN + 'backend = "redis"\n', (), "it needs the setting limits_redis"),
    ]:
        config.write_text(text)
        for command in (("serve", "--data", str(tmp_path / "none"), "--port", str(free_port())), ("settings",)):
            done = ask(*command, "--config", str(config), *flags)
            assert done.exit_code == 2
            assert done.stderr.startswith("Error: limits.login: ")
            assert sentence in done.stderr
    assert not (tmp_path / "none").exists()


def test_the_rules_are_among_the_settings(config: Path) -> None:
    config.write_text(LOGIN)
    lines = said("settings", "--config", str(config)).splitlines()
    assert lines[-1].split()[:2] == ["limits.login", "3/d"]


# --- the server's own writes ------------------------------------------------------------------------------------------
WRITE = '[limits.write]\nby = ["token", "ip"]\nrates = "3/d"\nstrategy = "fixed"\n'


def test_each_write_is_one_hit_and_a_refused_one_counts_nothing(limited: Start) -> None:
    client = limited(LOGIN + WRITE)
    assert client.post("/v1/hits/launch").status_code == 200
    assert client.post("/v1/hits", json=[{"key": "launch"}] * 5).status_code == 200, "a batch is one hit"
    assert client.delete("/v1/links/nobody").status_code == 204
    for method, path in (
        ("POST", "/v1/hits/launch"),
        ("POST", "/v1/hits"),
        ("DELETE", "/v1/links/launch"),
        ("POST", "/v1/import/shop?from=0&to=1"),
        ("PUT", "/nothing"),
        ("PATCH", "/v1/links/launch"),
    ):
        answer = client.request(method, path, content=b'{"key": "launch"}' if path == "/v1/hits" else b"")
        assert answer.status_code == 429, path
        assert answer.headers["content-type"] == "application/problem+json"
        assert (answer.headers.get("connection") == "close") == (path == "/v1/hits"), "only a body that is not read"
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["rule"] == "write"
    assert client.get("/v1/links/launch").json()["lifetime"] == 6
    assert [login(client) for _ in range(4)] == [200, 200, 200, 429], "questions to the limiter are no writes"
    assert metric(client, "refused_requests_total", "rate limit exceeded") == 6
    assert metric(client, "limit_decisions_total", 'event="write"', 'outcome="refused"') == 6


def test_a_body_that_is_refused_is_not_read(limited: Start) -> None:
    client = limited(WRITE.replace("3/d", "1/d"))
    assert client.post("/v1/hits/launch").status_code == 200
    server = client.server
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as connection:
        # It announces a body and sends none of it: who waited for the body would not answer.
        connection.sendall(b"POST /v1/hits HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 429")


def test_each_token_has_its_own_limit_and_an_unknown_one_is_not_counted(limited: Start, tmp_path: Path) -> None:
    data = tmp_path / "guarded"
    data.mkdir()
    ann, ben = (add_token(data / "tokens.json", name, (Scope.write,), 0) for name in ("ann", "ben"))
    client = limited(WRITE, data=data)

    def write(token: str) -> int:
        return client.post("/v1/hits/launch", headers={"Authorization": f"Bearer {token}"}).status_code

    assert [write(ann) for _ in range(4)] == [200, 200, 200, 429]
    assert [write("cc_unknown") for _ in range(4)] == [401] * 4
    assert write(ben) == 200


def test_each_caller_of_a_trusted_proxy_has_its_own_limit(limited: Start) -> None:
    client = limited(WRITE.replace("3/d", "1/d"), "--trusted-proxies", "127.0.0.1")

    def write(forwarded: str) -> int:
        return client.post("/v1/hits/launch", headers={"X-Forwarded-For": forwarded}).status_code

    assert write("203.0.113.7") == 200
    assert write("198.51.100.1, 203.0.113.7") == 429, "what stands before it is the client's own claim"
    assert [write(f"2001:db8:1:2::{n}") for n in (1, 2)] == [200, 429]


def test_the_rule_of_writes_comes_with_a_signal(limited: Start, config: Path) -> None:
    client = limited("")
    server = client.server
    assert [client.post("/v1/hits/launch").status_code for _ in range(5)] == [200] * 5
    config.write_text(WRITE)
    server.signal(signal.SIGHUP)
    wait_until(lambda: bool(events(server, "limits reloaded")))
    assert [client.post("/v1/hits/launch").status_code for _ in range(4)] == [200, 200, 200, 429]


def test_a_signal_reaches_every_worker_and_those_that_come_later(serve: Serve, config: Path) -> None:
    """Several workers cannot keep rules in memory; but each of them reads the file, and says what it found."""
    config.write_text("")
    server = serve("--workers", "2", "--config", str(config))
    wait_until(lambda: len(events(server, "listening")) == 2)
    before = len(events(server, "limits reloaded"))
    config.write_text("flush_s = 7\n")
    server.signal(signal.SIGHUP)
    wait_until(lambda: len(events(server, "limits reloaded")) == before + 2)
    assert len(events(server, "settings changed")) == 2
    config.write_text(LOGIN)
    server.signal(signal.SIGHUP)
    wait_until(lambda: len(events(server, "limits not reloaded")) == 2)
    assert "each of 2 workers would admit all" in events(server, "limits not reloaded")[0]["reason"]
    config.write_text("flush_s = 8\n")
    os.kill(server.workers()[0], signal.SIGKILL)
    wait_until(lambda: len(events(server, "listening")) == 3)
    assert len(events(server, "settings changed")) == 3, "the worker that took its place has read the file"
    with Clickcurve(server.url) as client:
        assert client.hit("launch")["counted"] == 1
    assert server.stop() == 0


def test_the_answer_of_a_refused_write_is_whole(limited: Start) -> None:
    client = limited(WRITE.replace("3/d", "1/d") + "status = 403\n", "--limits-headers", "github")
    client.post("/v1/hits/launch")
    answer = client.post("/v1/hits/launch")
    assert answer.status_code == 403
    assert json.loads(answer.content).keys() == {"message", "documentation_url"}
