"""The example balancer for real: each link has one node; another replaces it when it is down, and nothing is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from testing.client import Clickcurve
from testing.program import running
from testing.server import ROOT, RunningServer, free_port
from tests.conftest import Serve

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
LINKS = [f"link-{n}" for n in range(40)] + ["a/b", "ünï"]


@pytest.fixture
def nodes(serve: Serve, tmp_path: Path) -> list[RunningServer]:
    """Two nodes with a database each, so that it shows which of them counted."""
    return [serve(data=tmp_path / name) for name in ("one", "two")]


@pytest.fixture
def balanced(nodes: list[RunningServer], tmp_path: Path) -> Iterator[Clickcurve]:
    folder = tmp_path / "nginx"
    (folder / "logs").mkdir(parents=True)
    text = (ROOT / "examples" / "balancer" / "nginx.conf").read_text()
    ports = {"127.0.0.1:9002": free_port(), "127.0.0.1:8081": nodes[0].port, "127.0.0.1:8082": nodes[1].port}
    for address, port in ports.items():
        assert address in text
        text = text.replace(address, f"127.0.0.1:{port}")
    (folder / "nginx.conf").write_text(text)
    user = "" if os.geteuid() else "user root;"
    command = [NGINX, "-p", str(folder), "-c", "nginx.conf", "-g", f"daemon off; {user}"]
    url = f"http://127.0.0.1:{ports['127.0.0.1:9002']}"

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    with running(command, tmp_path / "nginx.out") as program, Clickcurve(url) as client:
        program.until(answers)
        yield client


def lifetimes(node: RunningServer) -> dict[str, int]:
    with Clickcurve(node.url) as client:
        return client.lifetimes(LINKS)


@pytest.mark.needs("nginx")
def test_each_link_is_counted_and_answered_by_one_node(nodes: list[RunningServer], balanced: Clickcurve) -> None:
    for _ in range(3):
        for link in LINKS:
            assert balanced.hit(link)["counted"] == 1
    one, two = map(lifetimes, nodes)
    assert all({one[link], two[link]} == {0, 3} for link in LINKS)
    assert sum(one.values()) and sum(two.values())
    assert all(balanced.total(link)["total"] == 3 for link in LINKS)


@pytest.mark.needs("nginx")
def test_a_node_that_is_down_is_replaced_and_nothing_is_refused(
    nodes: list[RunningServer], balanced: Clickcurve
) -> None:
    nodes[1].kill()
    for link in LINKS:
        assert balanced.hit(link)["counted"] == 1
    assert lifetimes(nodes[0]) == dict.fromkeys(LINKS, 1)
