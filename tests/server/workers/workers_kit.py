"""Connections to several workers of one server, each of which stays with the worker that took it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testing.client import Clickcurve
from testing.server import RunningServer
from tests.conftest import Serve
from tests.server.conftest import events, wait_until


class OneWorker:
    """A connection, which stays with the worker that took it."""

    def __init__(self, server: RunningServer) -> None:
        self.client = Clickcurve(server.url)

    def read(self, key: str | None = "launch") -> tuple[int, str | None]:
        """Returns the total, and which workers were not heard."""
        path = "/v1/total" if key is None else f"/v1/links/{key}/total"
        answer = self.client.http.get(path).raise_for_status()
        total: Any = answer.json()["total"]
        return int(total), answer.headers.get("clickcurve-unreachable-workers")


Connected = Callable[[RunningServer, int], list[OneWorker]]


def three_workers(serve: Serve, data: Path, *flags: str) -> RunningServer:
    server = serve("--workers", "3", *flags, data=data)
    wait_until(lambda: len(events(server, "listening")) == 3)
    return server


def pid_of(data: Path, number: int) -> int:
    return int((data / f"journal-{number}" / "lock").read_text())


def connected_to(number: int, server: RunningServer, connected: Connected, data: Path) -> list[OneWorker]:
    """Makes three connections to this worker: the others stand still meanwhile, and the kernel has no choice."""
    others = [pid_of(data, other) for other in (1, 2, 3) if other != number]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        clients = connected(server, 3)
        for each in clients:
            each.client.http.get("/healthz").raise_for_status()
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)
    return clients
