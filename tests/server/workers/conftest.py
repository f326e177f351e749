"""Connections to workers, which are closed at the end of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from testing.server import RunningServer
from tests.server.workers.workers_kit import Connected, OneWorker


@pytest.fixture
def connected() -> Iterator[Connected]:
    """Makes so many connections to a server, and closes them at the end."""
    with ExitStack() as closing:

        def connect(server: RunningServer, count: int) -> list[OneWorker]:
            several = [OneWorker(server) for _ in range(count)]
            for each in several:
                closing.callback(each.client.close)
            return several

        yield connect
