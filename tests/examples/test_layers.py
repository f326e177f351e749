"""The example of two limits in a row for real: the inner one is met first, and the outer one by floods only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from testing.program import running
from testing.server import ROOT, free_port
from tests.conftest import Serve

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
EXAMPLE = ROOT / "examples" / "layers"


@pytest.fixture
def front(serve: Serve, tmp_path: Path) -> Iterator[httpx.Client]:
    server = serve("--config", str(EXAMPLE / "clickcurve.toml"))
    folder = tmp_path / "nginx"
    (folder / "logs").mkdir(parents=True)
    text = (EXAMPLE / "nginx.conf").read_text()
    ports = {"127.0.0.1:9003": free_port(), "127.0.0.1:8080": server.port}
    for address, port in ports.items():
        assert address in text
        text = text.replace(address, f"127.0.0.1:{port}")
    (folder / "nginx.conf").write_text(text)
    user = "" if os.geteuid() else "user root;"
    command = [NGINX, "-p", str(folder), "-c", "nginx.conf", "-g", f"daemon off; {user}"]
    # From an address of its own: what comes from the proxy's would be believed.
    transport = httpx.HTTPTransport(local_address="127.0.0.2")
    client = httpx.Client(base_url=f"http://127.0.0.1:{ports['127.0.0.1:9003']}", transport=transport, trust_env=False)

    def answers() -> bool:
        try:
            return client.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    with running(command, tmp_path / "nginx.out") as program, client:
        program.until(answers)
        yield client


@pytest.mark.needs("nginx")
def test_a_caller_meets_the_inner_limit_and_a_flood_the_outer_one(front: httpx.Client) -> None:
    def write(number: int) -> httpx.Response:
        # Each with another claim of who it is, which must make no difference.
        return front.post("/v1/hits/launch", headers={"X-Forwarded-For": f"203.0.113.{number % 250}"})

    first = [write(number) for number in range(8)]
    refused = [answer for answer in first if answer.status_code == 429]
    assert refused, "eight writes within a moment are more than five in a second"
    assert all(answer.headers["content-type"] == "application/problem+json" for answer in refused)
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)

    with ThreadPoolExecutor(8) as pool:
        flood = list(pool.map(write, range(400)))
    by_nginx = [answer for answer in flood if answer.headers["content-type"] == "text/html"]
    assert by_nginx, "400 writes at once are more than nginx lets through"
    assert {answer.status_code for answer in by_nginx} == {429}
    counted = sum(answer.status_code == 200 for answer in [*first, *flood])
    assert counted <= 60, "no caller gets more than the inner limit, whatever it claims to be"
    assert front.get("/v1/links/launch").status_code in (200, 429)


def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs" / "limiter-layers.md").read_text()
    conf = (EXAMPLE / "nginx.conf").read_text() + (EXAMPLE / "clickcurve.toml").read_text()
    shown = [line.strip() for block in page.split("```")[1::2] for line in block.splitlines()[1:] if line.strip()]
    assert len(shown) >= 7
    assert [line for line in shown if line not in conf] == []
