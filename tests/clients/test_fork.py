"""A process that forks after it has made a client: each reports its own hits, and nothing twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from clickcurve.client import Client
from testing.client import Clickcurve
from testing.server import RunningServer

WITHIN_S = 600.0
FAILED = 70


def in_child(work: Callable[[], bool]) -> int:
    """Runs work in a fork; returns how the child ended: 0 if work said so."""
    pid = os.fork()
    if pid == 0:
        code = FAILED
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("with_spool", [False, True], ids=["memory", "spool"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_parent_and_children_report_their_own(
    server: RunningServer, client: Clickcurve, tmp_path: Path, with_spool: bool
) -> None:
    spool = tmp_path / "spool" if with_spool else None
    clicks = Client(server.url, spool=spool, gather_s=60)
    clicks.hit("parent", count=5)

    def work() -> bool:
        assert (clicks.waiting, clicks.delivered) == (0, 0)
        for _ in range(100):
            clicks.hit("child")
        return clicks.flush(WITHIN_S) and clicks.delivered == 100 and clicks.close()

    assert [in_child(work) for _ in range(3)] == [0, 0, 0]
    assert client.lifetimes(["parent", "child"]) == {"parent": 0, "child": 300}
    clicks.hit("parent")
    assert clicks.close()
    assert client.lifetimes(["parent", "child"]) == {"parent": 6, "child": 300}
    assert not [path for path in tmp_path.glob("spool*") if path.suffix != ".lock"]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_never_reports_has_nothing_to_end(server: RunningServer) -> None:
    with Client(server.url) as clicks:
        assert in_child(lambda: clicks.flush(0) and clicks.close()) == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_client_that_is_closed_stays_closed_in_a_child(server: RunningServer, client: Clickcurve) -> None:
    clicks = Client(server.url)
    clicks.close()

    def work() -> bool:
        clicks.hit("child")
        return clicks.dropped == 1

    assert in_child(work) == 0

    def close_first() -> bool:
        other.close()
        other.hit("child")
        return other.dropped == 1

    with Client(server.url) as other:
        assert in_child(close_first) == 0
    assert client.total("child")["total"] == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_the_next_start_takes_over_what_a_killed_child_has_written(
    server: RunningServer, client: Clickcurve, tmp_path: Path
) -> None:
    parent = Client(server.url, spool=tmp_path / "spool", gather_s=60)
    done = tmp_path / "spool.1"

    def work() -> bool:
        parent.hit("child", count=7)
        while not (done.exists() and b'"child"' in done.read_bytes()):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
        return False

    assert in_child(work) == -signal.SIGKILL
    assert parent.close()
    with Client(server.url, spool=tmp_path / "spool") as clicks:
        assert clicks.flush(WITHIN_S)
        assert clicks.delivered == 7
    assert client.total("child")["total"] == 7
