"""The reverse proxies of deploy/ for real: keys with slashes, a path in front, large bodies, who called."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from testing.program import running
from testing.server import ROOT, RunningServer, free_port

pytestmark = pytest.mark.needs("nginx", "caddy")

RULES = """
trusted_proxies = "127.0.0.1"

[limits.write]
by = "ip"
rates = "4/h"
"""


def program(name: str) -> str:
    program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, f"{name} is missing: install the package of this name"
    return program


def nginx(folder: Path, port: int, server: RunningServer) -> list[str]:
    """A configuration that holds the snippet in its `http` block, as the page says."""
    snippet = (ROOT / "deploy" / "nginx.conf").read_text()
    assert "listen 80;" in snippet
    assert "127.0.0.1:8080" in snippet
    snippet = snippet.replace("listen 80;", f"listen 127.0.0.1:{port};").replace("127.0.0.1:8080", server.url[7:])
    (folder / "clickcurve.conf").write_text(snippet)
    paths = " ".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "" if os.geteuid() else "user root;"
    (folder / "nginx.conf").write_text(
        f"{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}"
        f" http {{ access_log off; {paths} include {folder}/clickcurve.conf; }}"
    )
    return [program("nginx"), "-p", str(folder), "-c", "nginx.conf"]


def caddy(folder: Path, port: int, server: RunningServer) -> list[str]:
    """The file, without certificates and without the port that Caddy is administered at."""
    text = (ROOT / "deploy" / "Caddyfile").read_text()
    assert "\nclicks.example.org {" in text
    assert "127.0.0.1:8080" in text
    text = text.replace("clicks.example.org {", f"http://127.0.0.1:{port} {{").replace("127.0.0.1:8080", server.url[7:])
    (folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + text)
    return [program("caddy"), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    (tmp_path / "clickcurve.toml").write_text(RULES)
    with RunningServer(tmp_path / "data", "--config", str(tmp_path / "clickcurve.toml")) as started:
        yield started


@pytest.fixture(params=[nginx, caddy], ids=["nginx", "caddy"])
def proxy(request: pytest.FixtureRequest, server: RunningServer, tmp_path: Path) -> Iterator[str]:
    """A proxy in front of the server; its address."""
    folder = tmp_path / "proxy"
    folder.mkdir()
    port = free_port()
    configure: Callable[[Path, int, RunningServer], list[str]] = request.param
    homes = {name: str(folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    with running(configure(folder, port, server), folder / "out", homes) as started:
        url = f"http://127.0.0.1:{port}"
        started.until(lambda: answers(url))
        yield url


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def caller(url: str, address: str = "127.0.0.2") -> httpx.Client:
    """A client that calls from an address of its own: the proxy, at 127.0.0.1, is the only one that is believed."""
    transport = httpx.HTTPTransport(local_address=address)
    return httpx.Client(base_url=url, transport=transport, timeout=30.0)


def test_a_key_with_a_slash_is_one_link_also_below_a_path(proxy: str) -> None:
    with closing(caller(proxy)) as client:
        assert client.post("/v1/hits/a%2Fb").json()["counted"] == 1
        assert client.post("/stats/v1/hits/a%2Fb").json()["counted"] == 1
        for path in ("/v1/links/a%2Fb/total", "/stats/v1/links/a%2Fb/total"):
            assert client.get(path).json()["total"] == 2
        assert client.get("/v1/links/a/b/total").status_code == 404


def test_a_large_body_passes(proxy: str) -> None:
    hits = [{"key": "launch", "id": f"{number:064d}"} for number in range(40_000)]  # 3.5 MB, above nginx's own 1 MB
    with closing(caller(proxy)) as client:
        assert client.post("/v1/hits", json=hits).json()["counted"] == 40_000


def test_a_client_that_wants_another_protocol_is_answered_in_this_one(proxy: str) -> None:
    with closing(caller(proxy)) as client:
        for protocol in ("websocket", "h2c"):
            wish = {"Connection": "Upgrade", "Upgrade": protocol}
            assert client.post("/v1/hits/launch", headers=wish).json()["counted"] == 1


def test_the_server_knows_who_called_whatever_they_claim(proxy: str) -> None:
    with closing(caller(proxy)) as client, closing(caller(proxy, "127.0.0.3")) as other:
        claims = [{"X-Forwarded-For": f"203.0.113.{number}"} for number in range(5)]
        statuses = [client.post("/v1/hits/launch", headers=claim).status_code for claim in claims]
        assert statuses == [200, 200, 200, 200, 429]
        assert other.post("/v1/hits/launch").status_code == 200
