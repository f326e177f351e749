"""The example of limits in a proxy for real: nginx and Caddy ask about each request, and say what was answered."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from testing.program import running
from testing.server import ROOT, RunningServer, free_port
from tests.conftest import Serve

EXAMPLE = ROOT / "examples" / "proxy-limits"
# More than Clickcurve takes; nginx takes fields of 8 KiB each.
COOKIES = [("Cookie", f"{name}={5_000 * 'x'}") for name in "ab"]
APPLICATION = ["python3", "-m", "http.server", "--bind", "127.0.0.1"]


def program(name: str) -> str:
    program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, f"{name} is missing: install the package of this name"
    return program


def replaced(name: str, **values: str) -> str:
    """A file of the example with other texts for some of its own, which it must hold."""
    text = (EXAMPLE / name).read_text()
    for old, new in values.items():
        assert old in text
        text = text.replace(old, new)
    return text


def answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code < 500
    except httpx.TransportError:
        return False


def caller(url: str, address: str) -> httpx.Client:
    transport = httpx.HTTPTransport(local_address=address)
    return httpx.Client(base_url=url, transport=transport, timeout=30.0)


@pytest.fixture
def application(tmp_path: Path) -> Iterator[str]:
    """What stands behind the proxies; its address."""
    port = free_port()
    with running([*APPLICATION, str(port)], tmp_path / "application.out") as started:
        started.until(lambda: answers(f"http://127.0.0.1:{port}/"))
        yield f"127.0.0.1:{port}"


def limiter(serve: Serve, folder: Path, **values: str) -> RunningServer:
    rules = folder / "clickcurve.toml"
    rules.write_text(replaced("clickcurve.toml", **{"5/s, 100/m": "4/h"}, **values))
    return serve("--config", str(rules))


@pytest.fixture
def nginx(serve: Serve, application: str, tmp_path: Path) -> Iterator[tuple[str, RunningServer]]:
    server = limiter(serve, tmp_path)
    folder, port = tmp_path / "nginx", free_port()
    (folder / "logs").mkdir(parents=True)
    addresses = {
        "127.0.0.1:9003": f"127.0.0.1:{port}",
        "127.0.0.1:8080": f"127.0.0.1:{server.port}",
        "127.0.0.1:9000": application,
    }
    (folder / "nginx.conf").write_text(replaced("nginx.conf", **addresses))
    user = "" if os.geteuid() else "user root;"
    command = [program("nginx"), "-p", str(folder), "-c", "nginx.conf", "-g", f"daemon off; {user}"]
    with running(command, tmp_path / "nginx.out") as started:
        started.until(lambda: answers(f"http://127.0.0.1:{port}/"))
        yield f"http://127.0.0.1:{port}", server


@pytest.fixture
def caddy(serve: Serve, application: str, tmp_path: Path) -> Iterator[str]:
    server = limiter(serve, tmp_path, **{"status = 403": "status = 429"})
    port = free_port()
    addresses = {
        "127.0.0.1:9004": f"127.0.0.1:{port}",
        "127.0.0.1:8080": f"127.0.0.1:{server.port}",
        "127.0.0.1:9000": application,
    }
    (tmp_path / "Caddyfile").write_text("{\n\tadmin off\n}\n" + replaced("Caddyfile", **addresses))
    homes = {name: str(tmp_path) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    command = [program("caddy"), "run", "--config", str(tmp_path / "Caddyfile"), "--adapter", "caddyfile"]
    with running(command, tmp_path / "caddy.out", homes) as started:
        started.until(lambda: answers(f"http://127.0.0.1:{port}/"))
        yield f"http://127.0.0.1:{port}"


@pytest.mark.needs("nginx")
def test_nginx_asks_about_each_request_and_tells_who_is_refused_when_to_come_again(
    nginx: tuple[str, RunningServer],
) -> None:
    url, server = nginx
    with closing(caller(url, "127.0.0.2")) as client, closing(caller(url, "127.0.0.3")) as other:
        passed = [client.get("/", headers=[("X-Forwarded-For", f"203.0.113.{n}"), *COOKIES]) for n in range(4)]
        assert [(answer.status_code, answer.headers["x-ratelimit-remaining"]) for answer in passed] == [
            (200, "3"),
            (200, "2"),
            (200, "1"),
            (200, "0"),
        ]
        refused = client.post("/", content=b"a body", headers=COOKIES)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        assert other.get("/nothing").status_code == 404  # of the application
        server.kill()
        assert client.get("/").status_code == 200


@pytest.mark.needs("caddy")
def test_caddy_passes_a_refusal_of_the_limiter_on_as_it_is(caddy: str) -> None:
    with closing(caller(caddy, "127.0.0.2")) as client, closing(caller(caddy, "127.0.0.3")) as other:
        claims = [[("X-Forwarded-For", f"203.0.113.{n}"), *COOKIES] for n in range(5)]
        asked = [client.get("/", headers=claim) for claim in claims]
        assert [answer.status_code for answer in asked] == [200, 200, 200, 200, 429]
        assert int(asked[-1].headers["retry-after"]) > 0
        assert asked[-1].headers["x-ratelimit-remaining"] == "0"
        assert other.get("/").status_code == 200
