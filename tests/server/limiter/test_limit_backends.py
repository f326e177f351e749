"""Limits of a real server on real Redis and memcached servers that are killed or stand still.

What each backend does then, for every policy: tests/limiter. Here is what the server makes of it: settings, deadlines,
answers, metrics.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from testing.backend_servers import Served, memcached_server, redis_server, shared_redis_cluster
from testing.client import http_client
from testing.server import RunningServer, run
from tests.conftest import Serve
from tests.server.conftest import wait_until

pytestmark = pytest.mark.needs("redis", "memcached")

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


def started(serve: Serve, folder: Path, name: str, server: Served) -> RunningServer:
    config = folder / "clickcurve.toml"
    config.write_text(RULES.format(address=server.address, name=name))
    return serve("--config", str(config))


def ask(http: httpx.Client, event: str, user: str) -> httpx.Response:
    return http.post(f"/v1/limit/{event}", json={"user": user})


def metric(http: httpx.Client, *parts: str) -> float:
    lines = http.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(part in line for part in parts))


@pytest.mark.parametrize(("name", "fault"), [("redis", "suspend"), ("memcached", "kill")])
def test_a_backend_that_is_gone_never_makes_a_5xx(serve: Serve, tmp_path: Path, name: str, fault: str) -> None:
    serving: AbstractContextManager[Served] = SERVERS[name]()
    with serving as backend:
        server = started(serve, tmp_path, name, backend)
        with http_client(server.url) as http:
            assert ask(http, "login", "ann").json()["remaining"] == 4
            getattr(backend, fault)()
            answers = [ask(http, "login", "ann") for _ in range(8)]
            assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3, "decided in process"
            assert all(answer.json()["fallback"] for answer in answers)
            shut = ask(http, "shut", "ann")
            assert (shut.status_code, shut.json()["fallback"]) == (429, True)
            assert int(shut.headers["retry-after"]) >= 1
            assert http.post("/v1/hits/launch").status_code == 200, "open"
            for path in ("/readyz", "/readyz?for=read"):
                assert http.get(path).status_code == 200
            assert metric(http, "limit_decisions_total", 'event="login"', 'outcome="blind"') == 8
            assert metric(http, "limit_fallback_local_total", f'backend="{name}"') == 8
            assert metric(http, "limit_breaker_open{", f'backend="{name}"') == 1
            backend.resume() if fault == "suspend" else backend.start()
            wait_until(lambda: "fallback" not in ask(http, "shut", "later").json())
            assert ask(http, "shut", "anew").json()["remaining"] == 4
        assert server.stop() == 0


def test_a_wrong_address_of_redis_stops_the_start(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "clickcurve.toml"
    config.write_text(RULES.format(address="h1:port", name="redis").replace('limits_memcached = "h1:port"', ""))
    done = run("serve", "--data", str(tmp_path / "data"), "--config", str(config), "--port", "0")
    assert done.returncode == 2
    assert "not an address of a Redis" in done.stderr


CLUSTER = """
limits_timeout_ms = 1000
limits_redis = "{url}"

[limits.login]
by = "user"
rates = "5/d"
backend = "redis"

[[limits.signup]]
by = "user"
rates = "5/d"
backend = "redis"

[[limits.signup]]
by = "{by}"
rates = "5/m"
backend = "redis"
"""


def test_a_redis_cluster_is_shared_and_refuses_rules_by_different_features(serve: Serve, tmp_path: Path) -> None:
    config = tmp_path / "clickcurve.toml"
    config.write_text(CLUSTER.format(url=shared_redis_cluster().url, by="user"))
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
    servers = [serve("--config", str(config), data=tmp_path / part) for part in ("a", "b")]
    for n in range(6):
        with http_client(servers[n % 2].url) as http:
            assert [ask(http, event, "ann").status_code for event in ("login", "signup")] == [200 if n < 5 else 429] * 2
    config.write_text(CLUSTER.format(url=shared_redis_cluster().url, by="ip"))
    done = run("serve", "--data", str(tmp_path / "c"), "--config", str(config), "--port", "0")
    assert done.returncode == 2
    assert "by must be the same in all rules of an event on a Redis Cluster" in done.stderr
