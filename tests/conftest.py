"""Fixtures that every suite may use, and the time budget of each suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import hypothesis
import pytest

from testing.client import Clickcurve
from testing.server import RunningServer, free_port
from tests.budget import Budget
from tests.cassandra import fixtures as cassandra_nodes

Serve = Callable[..., RunningServer]

# No deadline: the machines are shared, and the laws do not speak of time.
hypothesis.settings.register_profile("clickcurve", deadline=None)
hypothesis.settings.load_profile("clickcurve")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Budget(Path(__file__).parent), "suite-budget")
    config.pluginmanager.register(cassandra_nodes, "cassandra-nodes")


@pytest.fixture
def port() -> int:
    """A free port of the loopback address."""
    return free_port()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts real servers, `serve("--workers", "2", data=folder, settings={"CLICKCURVE_…": "…"})`, and ends them."""
    with ExitStack() as running:

        def start(
            *flags: str, data: Path | None = None, settings: Mapping[str, str] | None = None, port: int | None = None
        ) -> RunningServer:
            server = RunningServer(data or tmp_path / "data", *flags, settings=settings, port=port)
            running.callback(server.kill)
            return server.start()

        yield start


@pytest.fixture
def server(serve: Serve) -> RunningServer:
    """One real server with default settings on an empty data folder, ready."""
    return serve()


@pytest.fixture
def client(server: RunningServer) -> Iterator[Clickcurve]:
    """A client of `server`."""
    with Clickcurve(server.url) as talking:
        yield talking
