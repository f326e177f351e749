"""Fixtures that every suite may use, and what every test runs in: what it needs, at which power, in which folders."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer, fork_program, free_port
from tests.cassandra import fixtures as cassandra_nodes
from tests.needs import Needs
from tests.power import is_long

Serve = Callable[..., RunningServer]

# Of two processes of `pytest --numprocesses auto`, each waits for half of its time.
LEAST_PROCESSES = 3
# A file system in memory: few tests wait for a disk, which takes six times as long where much is synced.
MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
# With the power of `make test-long`, these suites have a disk, and new processes of the program in place of forks
# (testing/prefork.py): their subject is the program as its users start it, how it is killed, or what it takes.
NEW_PROCESSES = (
    "tests/bench",
    "tests/cassandra",
    "tests/chaos",
    "tests/crash",
    "tests/examples",
    "tests/hostile",
    "tests/install",
    "tests/server/process",
    "tests/storage",
    "tests/upgrade",
)


@pytest.hookimpl(trylast=True)  # after Hypothesis has chosen its profile
def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts this in the background has it ignored, and so would every program have a Ctrl-C of a test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    keep_bytecode()
    only_python = TemporaryDirectory(prefix="only-python-")
    config.add_cleanup(only_python.cleanup)
    config.pluginmanager.register(Needs(Path(only_python.name)), "needs")
    config.pluginmanager.register(cassandra_nodes, "cassandra-nodes")
    if not is_long() and "TMPDIR" not in os.environ and has_room(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def pytest_xdist_auto_num_workers() -> int:
    return max(LEAST_PROCESSES, len(os.sched_getaffinity(0)))


def keep_bytecode() -> None:
    """Lets Python keep what it compiles, as it does anyway unless PYTHONDONTWRITEBYTECODE is set.

    Else each server that a test starts would compile the program anew, a third of what a start takes, and each run of
    pytest would rewrite the assertions of all tests, 10 s for each process.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def has_room(folder: Path) -> bool:
    """Whether the temporary files of all tests fit into a folder."""
    return folder.is_dir() and shutil.disk_usage(folder).free >= ROOM_BYTES


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Chooses how this test, and the fixtures that it is the first to ask for, start the program."""
    fork_program(not (is_long() and is_started_anew(item.nodeid)))


def is_started_anew(node_id: str) -> bool:
    """Whether a test has new processes of the program where all tests are run."""
    return any(node_id.startswith(f"{suite}/") for suite in NEW_PROCESSES)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keeps the collector from looking at thousands of tests each time: 0.25 s, and some tests ask for it often."""
    gc.freeze()


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


@pytest.fixture(scope="module")
def uncollected() -> Iterator[None]:
    """Holds up the search for garbage while the trees of all files are kept: it took two thirds of the rules' time."""
    gc.disable()
    yield
    gc.enable()
