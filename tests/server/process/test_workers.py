"""Several workers on one port: each an owner of its own, replaced when it dies, and none left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer
from tests.conftest import Serve
from tests.server.conftest import events, wait_until

JOURNALS = {"journal-1", "journal-2", "journal-3"}


def listening(server: RunningServer) -> set[str]:
    return {line["journal"] for line in events(server, "listening")}


def all_listen(server: RunningServer, journals: set[str], times: int = 1) -> None:
    """Waits until each worker has said that it listens (a number of times in all)."""
    wait_until(lambda: server.running and len(events(server, "listening")) >= times * len(journals))
    assert listening(server) == journals


def total(server: RunningServer, key: str = "launch") -> int:
    """The total when each worker's hits have reached the store; a fresh connection may meet any worker."""
    with Clickcurve(server.url) as client:
        return int(client.total(key)["total"])


def hit(server: RunningServer, times: int) -> None:
    with Clickcurve(server.url, fresh=True) as client:  # so that all workers get some
        assert [client.hit("launch")["counted"] for _ in range(times)] == [1] * times


def hit_each(server: RunningServer, *journals: Path) -> int:
    """Hits until each of these journals has two; returns how many were sent. A busy worker may take none of forty."""
    sent = 0
    while not all(max(path.glob("segment-*")).read_bytes().count(b"launch") > 1 for path in journals):
        assert sent < 2_000, "a worker takes no hit"
        hit(server, 20)
        sent += 20
    return sent


def counted_by_metrics(server: RunningServer) -> float:
    with Clickcurve(server.url) as client:
        metrics = client.metrics()
    return sum(metrics.get(f'clickcurve_hits_total{{journal="{name}",outcome="counted"}}', 0.0) for name in JOURNALS)


def test_each_worker_takes_a_journal_and_any_of_them_answers_for_all(serve: Serve, data: Path) -> None:
    server = serve("--workers", "3", "--flush-s", "1", data=data)
    all_listen(server, JOURNALS)
    hit(server, 40)
    wait_until(lambda: total(server) == 40)
    wait_until(lambda: counted_by_metrics(server) == 40)
    assert server.stop() == 0
    assert len(events(server, "stopped")) == 3
    assert sum(flush["hits"] for flush in events(server, "flush")) == 40


def test_a_worker_that_is_killed_is_replaced_and_its_hits_are_there(serve: Serve, data: Path) -> None:
    server = serve("--workers", "2", "--flush-s", "3600", data=data)
    all_listen(server, {"journal-1", "journal-2"})
    hit(server, 20)
    before = set(server.workers())
    os.kill(min(before), signal.SIGKILL)
    wait_until(lambda: len(events(server, "listening")) == 3)
    assert len(events(server, "worker died")) == 1
    assert len(set(server.workers()) - before) == 1
    assert server.stop() == 0
    assert total(serve(data=data)) == 20


@pytest.mark.slow
def test_what_former_workers_left_is_counted_by_the_others(serve: Serve, data: Path) -> None:
    server = serve("--workers", "3", "--flush-s", "3600", data=data)
    all_listen(server, JOURNALS)
    hit(server, 30)
    server.kill()
    fewer = serve("--workers", "1", data=data)
    wait_until(lambda: total(fewer) == 30)
    wait_until(lambda: len(events(fewer, "orphaned journal emptied")) == 2)
    hit(fewer, 1)
    assert fewer.stop() == 0
    more = serve("--workers", "3", data=data)
    wait_until(lambda: total(more) == 31)


def test_a_second_server_is_refused_while_a_worker_of_the_first_still_flushes(serve: Serve, data: Path) -> None:
    server = serve("--workers", "2", "--flush-s", "3600", data=data)
    all_listen(server, {"journal-1", "journal-2"})
    hit(server, 10)
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    wait_until(lambda: len(events(server, "stopped")) == 2)
    assert len(events(server, "parent gone")) == 2
    assert sum(flush["hits"] for flush in events(server, "flush")) == 10


def damage(journal: Path) -> None:
    """Changes a byte in the middle of the last segment, with whole records after it."""
    segment = max(journal.glob("segment-*"))
    content = bytearray(segment.read_bytes())
    content[content.index(b"launch")] ^= 0xFF
    segment.write_bytes(content)


@pytest.mark.slow
def test_a_damaged_former_journal_does_not_hold_up_the_others(serve: Serve, data: Path) -> None:
    server = serve("--workers", "4", "--flush-s", "3600", data=data)
    all_listen(server, JOURNALS | {"journal-4"})
    sent = hit_each(server, data / "journal-2", data / "journal-3")
    server.kill()
    lost = max((data / "journal-2").glob("segment-*")).read_bytes().count(b"launch")
    damage(data / "journal-2")
    fewer = serve("--workers", "1", "--flush-s", "1", data=data)
    wait_until(lambda: len(events(fewer, "orphaned journal emptied")) == 2)
    (named,) = events(fewer, "orphaned journal damaged")
    assert "journal-2/segment-" in named["reason"]
    wait_until(lambda: total(fewer) == sent - lost)


@pytest.mark.slow
def test_a_replacement_that_meets_a_damaged_journal_leaves_the_other_workers_alone(serve: Serve, data: Path) -> None:
    server = serve("--workers", "2", "--flush-s", "3600", data=data)
    all_listen(server, {"journal-1", "journal-2"})
    hit_each(server, data / "journal-1")
    of_journal = {path: int((path / "lock").read_text()) for path in (data / "journal-1", data / "journal-2")}
    damage(data / "journal-1")
    os.kill(of_journal[data / "journal-1"], signal.SIGKILL)
    wait_until(lambda: len(events(server, "worker died")) == 2)
    assert [line["code"] for line in events(server, "worker died")] == [-signal.SIGKILL, 2]
    (refused,) = events(server, "worker refused")
    assert "journal-1/segment-" in refused["reason"]
    assert server.workers() == [of_journal[data / "journal-2"]]
    with Clickcurve(server.url) as client:
        assert client.hit("launch")["counted"] == 1
    assert server.stop() == 0


def test_a_stop_while_a_worker_is_being_replaced_ends_all(serve: Serve) -> None:
    server = serve("--workers", "2", "--flush-s", "3600")
    all_listen(server, {"journal-1", "journal-2"})
    for worker in server.workers():
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: bool(events(server, "worker died")))
    assert server.stop() == 0
    assert not server.running
