"""Limits of a real server, counted on real Redis and memcached servers that are killed or stand still."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from testing.backend_servers import Served, memcached_server, redis_server
from testing.server import RunningServer, run
from tests.conftest import Serve
from tests.server.conftest import events, wait_until

# A long deadline, since the machine may be busy.
RULES = """
limits_timeout_ms = 1000
limits_redis = "redis://{address}/0"
limits_memcached = "{address}"

[limits.login]
by = "user"
rates = "5/d"
strategy = "fixed"
backend = "{name}"
on_failure = "local"

[limits.shut]
by = "user"
rates = "5/d"
strategy = "fixed"
backend = "{name}"
on_failure = "closed"

[limits.write]
by = ["token", "ip"]
rates = "1000/d"
strategy = "fixed"
backend = "{name}"
"""
SERVERS = {"redis": redis_server, "memcached": memcached_server}


@pytest.fixture(params=SERVERS)
def beyond(request: pytest.FixtureRequest) -> Iterator[tuple[str, Served]]:
    """The name of a backend, and its server."""
    serving: AbstractContextManager[Served] = SERVERS[request.param]()
    with serving as found:
        yield request.param, found


def started(serve: Serve, folder: Path, name: str, server: Served, *flags: str) -> RunningServer:
    config = folder / "clickcurve.toml"
    config.write_text(RULES.format(address=server.address, name=name))
    return serve("--config", str(config), *flags)


def ask(server: RunningServer, event: str, user: str) -> httpx.Response:
    """Over a connection of its own, so that any worker may get it."""
    return httpx.post(f"{server.url}/v1/limit/{event}", json={"user": user}, trust_env=False)


def metric(server: RunningServer, *parts: str) -> float:
    lines = httpx.get(f"{server.url}/metrics", trust_env=False).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(part in line for part in parts))


def test_workers_share_the_counts(serve: Serve, tmp_path: Path, beyond: tuple[str, Served]) -> None:
    """Redis decides one after the other: five of a hundred. Callers that race on memcached may be refused for it, but
    no more than five pass."""
    server = started(serve, tmp_path, *beyond, "--workers", "2")
    wait_until(lambda: len(events(server, "listening")) == 2)
    assert [ask(server, "login", "ann").status_code for _ in range(7)] == [200] * 5 + [429] * 2
    with ThreadPoolExecutor(16) as pool:
        answers = Counter(answer.status_code for answer in pool.map(lambda _: ask(server, "shut", "ben"), range(100)))
    assert set(answers) == {200, 429}
    assert answers[200] == 5 if beyond[0] == "redis" else answers[200] <= 5


@pytest.mark.parametrize("fault", ["kill", "suspend"])
def test_a_backend_that_is_gone_never_makes_a_5xx(
    serve: Serve, tmp_path: Path, beyond: tuple[str, Served], fault: str
) -> None:
    server = started(serve, tmp_path, *beyond)
    assert ask(server, "login", "ann").json()["remaining"] == 4
    getattr(beyond[1], fault)()
    answers = [ask(server, "login", "ann") for _ in range(8)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3, "decided in process"
    assert all(answer.json()["blind"] for answer in answers)
    shut = ask(server, "shut", "ann")
    assert (shut.status_code, shut.json()["blind"]) == (429, True)
    assert int(shut.headers["retry-after"]) >= 1
    assert httpx.post(f"{server.url}/v1/hits/launch", trust_env=False).status_code == 200, "open"
    for path in ("/readyz", "/readyz?for=read"):
        assert httpx.get(server.url + path, trust_env=False).status_code == 200
    assert metric(server, "limit_decisions_total", 'event="login"', 'outcome="blind"') == 8
    assert metric(server, "limit_blind_local_total", f'backend="{beyond[0]}"') == 8
    assert metric(server, "limit_breaker_open{", f'backend="{beyond[0]}"') == 1
    beyond[1].resume() if fault == "suspend" else beyond[1].start()
    wait_until(lambda: "blind" not in ask(server, "shut", "later").json())
    assert ask(server, "shut", "anew").json()["remaining"] == 4
    assert server.stop() == 0


def test_a_wrong_address_of_redis_stops_the_start(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "clickcurve.toml"
    config.write_text(RULES.format(address="h1:port", name="redis").replace('limits_memcached = "h1:port"', ""))
    done = run("serve", "--data", str(tmp_path / "data"), "--config", str(config), "--port", "0")
    assert done.returncode == 2
    assert "not an address of a Redis" in done.stderr
