"""Servers whose journals are in the cluster: machines are lost with all that is on them, and nobody does anything."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer
from tests.server.conftest import events, wait_until

PATIENCE_S = 600.0  # on any machine: a server that is gone is taken for dead after 30 s
LINKS = [f"link-{number}" for number in range(40)]
BATCH = [{"key": key, "ref": f"https://{key}.example/"} for key in LINKS]


def totals(server: RunningServer) -> list[int]:
    with Clickcurve(server.url) as client:
        return [client.total(key)["total"] for key in LINKS]


@pytest.fixture
def three(cassandra_uri: str, tmp_path: Path) -> Iterator[list[RunningServer]]:
    """Servers on one keyspace that flush when they must, and at no time of their own."""
    flags = ("--store", cassandra_uri, "--journal", "cluster", "--flush-s", "3600")
    servers = [RunningServer(tmp_path / str(number) / "data", *flags) for number in range(3)]
    with ExitStack() as running:
        for server in servers:
            running.callback(server.kill)
            server.launch()
        for server in servers:
            wait_until(server._ready, PATIENCE_S)
        yield servers


def owner_of(server: RunningServer) -> int:
    with Clickcurve(server.url) as client:
        return int(client.http.get("/readyz").raise_for_status().json()["owner"])


def test_a_machine_that_is_lost_or_stands_still_costs_no_hit_and_no_command(three: list[RunningServer]) -> None:
    lost, still, other = three
    owners = [owner_of(server) for server in three]
    assert sorted(owners) == [1, 2, 3]
    once = {"Idempotency-Key": "once"}
    for server, headers in ((lost, {}), (still, {}), (lost, once)):
        with Clickcurve(server.url) as client:
            client.send(BATCH, headers)
    lost.kill()
    shutil.rmtree(lost.data)
    os.killpg(still.pid, signal.SIGSTOP)
    began = time.monotonic()
    wait_until(lambda: totals(other) == [3] * len(LINKS), PATIENCE_S)
    print(f"hits of a lost machine show after {time.monotonic() - began:.1f} s")
    assert {line["owner"] for line in events(other, "owner adopted")} == set(owners[:2])
    with Clickcurve(other.url) as client:
        client.send(BATCH, once)

    os.killpg(still.pid, signal.SIGCONT)
    wait_until(lambda: len(events(still, "listening")) == 2, PATIENCE_S)
    assert [line["owner"] for line in events(still, "owner lost")] == owners[1:2]
    wait_until(still._ready, PATIENCE_S)
    assert owner_of(still) in owners[:2], "which are closed"
    with Clickcurve(still.url) as client:
        client.send(BATCH)
    assert [still.stop(), other.stop()] == [0, 0]
    other.start()
    assert totals(other) == [4] * len(LINKS)
