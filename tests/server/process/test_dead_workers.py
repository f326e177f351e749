"""A worker that dies and cannot be replaced: a sibling empties its journal within seconds, and each hit counts once."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer
from tests.conftest import Serve
from tests.server.conftest import events, wait_until
from tests.server.process.test_workers import all_listen, damage, hit, hit_each, total
from tests.server.workers.workers_kit import pid_of


@contextmanager
def without_parent(server: RunningServer) -> Iterator[None]:
    """The parent stands still in the block: it replaces no worker."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def kill_worker(data: Path, number: int) -> None:
    os.kill(pid_of(data, number), signal.SIGKILL)


def test_a_sibling_empties_the_journal_of_a_dead_worker_without_a_restart(serve: Serve, data: Path) -> None:
    server = serve("--workers", "2", "--flush-s", "3600", data=data)
    all_listen(server, {"journal-1", "journal-2"})
    hit(server, 40)
    with Clickcurve(server.url) as client:
        assert client.send([{"key": "launch", "count": 2, "id": "two"}])["counted"] == 2
    with without_parent(server):
        kill_worker(data, 1)
        wait_until(lambda: len(events(server, "orphaned journal emptied")) == 1)
        (gave_way,) = events(server, "journal of a dead worker")
        assert (gave_way["journal"], Path(gave_way["moved_to"]).name) == ("journal-1", "journal-3")
        with Clickcurve(server.url) as client:
            assert client.send([{"key": "launch", "count": 2, "id": "two"}])["duplicate"] in (0, 2)
        hit(server, 3)
    wait_until(lambda: len(events(server, "listening")) == 3)
    hit(server, 5)
    assert server.stop() == 0
    assert total(serve(data=data)) == 40 + 2 + 3 + 5


@pytest.mark.slow
def test_a_sibling_that_is_killed_while_it_adopts_leaves_the_rest_to_the_next(serve: Serve, data: Path) -> None:
    server = serve("--workers", "3", "--flush-s", "3600", data=data)
    all_listen(server, {"journal-1", "journal-2", "journal-3"})
    hit(server, 40)
    assert total(server) == 40
    with closing(sqlite3.connect(data / "clickcurve.db", isolation_level=None)) as busy, without_parent(server):
        busy.execute("BEGIN IMMEDIATE")  # so that it is in the middle for as long as this takes
        adopter = next(n for n in (1, 2, 3) if (data / "adopter.lock").read_text() == f"{pid_of(data, n)}\n")
        dead, last = (n for n in (1, 2, 3) if n != adopter)
        kill_worker(data, dead)
        wait_until(lambda: len(events(server, "journal of a dead worker")) == 1)
        wait_until(lambda: (data / "journal-4" / "lock").read_text() == f"{pid_of(data, adopter)}\n")
        kill_worker(data, adopter)
        wait_until(lambda: len(events(server, "journal of a dead worker")) == 2)
        busy.execute("ROLLBACK")
        wait_until(lambda: len(events(server, "orphaned journal emptied")) == 2)
        assert (data / "adopter.lock").read_text() == f"{pid_of(data, last)}\n"
        wait_until(lambda: total(server) == 40)
    assert server.stop() == 0
    assert total(serve(data=data)) == 40


@pytest.mark.slow
def test_what_a_dead_worker_held_shows_once_while_its_journal_cannot_be_emptied(serve: Serve, data: Path) -> None:
    """Two siblings still know its last answer; one of them has adopted what it was about."""
    server = serve("--workers", "3", "--flush-s", "1", data=data)
    all_listen(server, {"journal-1", "journal-2", "journal-3"})
    with closing(sqlite3.connect(data / "clickcurve.db", isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        hit(server, 40)
        for _ in range(20):
            assert total(server) == 40, "each worker has heard the others"
        with without_parent(server):
            kill_worker(data, 1)
            wait_until(lambda: (data / "journal-4").is_dir())
            wait_until(lambda: len([*failed_visits(server)]) > 0)
            assert {total(server) for _ in range(20)} == {40}
            busy.execute("ROLLBACK")
            wait_until(lambda: len(events(server, "orphaned journal emptied")) == 1)
            assert {total(server) for _ in range(20)} == {40}


def failed_visits(server: RunningServer) -> Iterator[object]:
    return (line for line in events(server, "job failed") if line["job"] in ("dead_workers", "orphaned_journals"))


@pytest.mark.slow
def test_a_worker_whose_journal_is_damaged_is_replaced_by_one_with_a_new_journal(serve: Serve, data: Path) -> None:
    server = serve("--workers", "2", "--flush-s", "3600", data=data)
    all_listen(server, {"journal-1", "journal-2"})
    hit_each(server, data / "journal-1")
    with without_parent(server):
        pid = pid_of(data, 1)
        os.kill(pid, signal.SIGSTOP)
        damage(data / "journal-1")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: len(events(server, "orphaned journal damaged")) == 1)
    wait_until(lambda: len(events(server, "listening")) == 3)
    (named,) = events(server, "orphaned journal damaged")
    assert "journal-3/segment-" in named["reason"]
