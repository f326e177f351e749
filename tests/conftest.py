"""Fixtures that every suite may use, the choice of tests (tests/selection.py), and what is said of their durations."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer, free_port
from tests import selection
from tests.cassandra import fixtures as cassandra_nodes
from tests.durations import Durations

Serve = Callable[..., RunningServer]


def pytest_addoption(parser: pytest.Parser) -> None:
    selection.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(selection, "selection")
    config.pluginmanager.register(Durations(Path(__file__).parent), "durations")
    config.pluginmanager.register(cassandra_nodes, "cassandra-nodes")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is an `async def` in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


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
