"""The example balancer for real: each link has one node; another replaces it when it is down, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

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
    return [serve("--drain-s", "2", data=tmp_path / name) for name in ("one", "two")]


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


def send_until(stop: Event, url: str, link: str) -> tuple[int, list[str]]:
    """Sends hits of a link one after the other; returns how many were counted, and what else was answered."""
    counted, wrong = 0, []
    with httpx.Client(base_url=url, timeout=30.0, trust_env=False) as http:
        while not stop.is_set():
            try:
                answer = http.post(f"/v1/hits/{link}")
            except httpx.TransportError as error:
                wrong.append(repr(error))
            else:
                counted += answer.status_code == 200
                wrong += [] if answer.status_code == 200 else [f"{answer.status_code}: {answer.text[:200]}"]
    return counted, wrong


def wait_until_it_counts(node: RunningServer) -> None:
    """Waits until a node has counted a further hit."""
    before = sum(lifetimes(node).values())
    node.wait_until(lambda: sum(lifetimes(node).values()) > before)


@pytest.mark.needs("nginx")
def test_a_rolling_restart_under_load_refuses_and_cuts_nothing(
    nodes: list[RunningServer], balanced: Clickcurve, capsys: pytest.CaptureFixture[str]
) -> None:
    stop = Event()
    links = LINKS[:8]
    url = str(balanced.http.base_url)
    with ThreadPoolExecutor(len(links)) as pool:
        sending = [pool.submit(send_until, stop, url, link) for link in links]
        try:
            for node in (*nodes, nodes[0]):
                wait_until_it_counts(node)
                node.signal(signal.SIGTERM)
                assert node.wait() == 0
                node.start()
                wait_until_it_counts(node)
        finally:
            stop.set()
    found = [each.result() for each in sending]
    counted = sum(many for many, _ in found)
    assert [text for _, wrong in found for text in wrong] == []
    assert sum(sum(lifetimes(node).values()) for node in nodes) == counted
    with capsys.disabled():
        print(f"\nthree restarts of two nodes behind nginx: {counted:,} requests, none refused or cut")
