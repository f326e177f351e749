"""kill -9 of the server and of the client under load: what a client called delivered is counted once."""

from __future__ import annotations

import random
import sys
import threading
from pathlib import Path

import pytest

from clickcurve.client import Client
from clickcurve.client.spool import HEADER, REWRITE_FROM_BYTES, read_records
from testing.client import Clickcurve
from testing.program import Program, running
from testing.server import ROOT, free_port
from tests.conftest import Serve
from tests.power import at

KILLS = at(quick=2, full=3)
KEYS = [f"key-{number}" for number in range(20)]
REPORTER = str(ROOT / "tests" / "clients" / "reporter.py")
WITHIN_S = 600.0


class Load:
    """A thread that reports hits all the time."""

    def __init__(self, clicks: Client) -> None:
        self._clicks = clicks
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._report)
        self.reported = 0
        self._thread.start()

    def _report(self) -> None:
        chance = random.Random(7)
        while not self._over.is_set():
            for _ in range(20):
                self._clicks.hit(chance.choice(KEYS), ref="https://news.example/")
                self.reported += 1
            self._over.wait(0.001)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.parametrize(
    "with_spool", [pytest.param(False, id="memory", marks=pytest.mark.long), pytest.param(True, id="spool")]
)
def test_a_server_that_is_killed_counts_all_that_was_delivered_once(
    serve: Serve, tmp_path: Path, with_spool: bool
) -> None:
    server = serve("--flush-s", "1")
    chance = random.Random(11)
    spool = tmp_path / "clicks.spool" if with_spool else None
    clicks = Client(server.url, spool=spool, gather_s=0.0, timeout_s=5.0)
    load = Load(clicks)
    try:
        for _ in range(KILLS):
            wanted = clicks.delivered + chance.randrange(200, 2_000)
            server.wait_until(lambda wanted=wanted: clicks.delivered >= wanted)  # type: ignore[misc]
            server.kill()
            delivered = clicks.delivered
            server.start()
            with Clickcurve(server.url) as client:
                assert sum(client.lifetimes(KEYS).values()) >= delivered
    finally:
        load.stop()
    assert clicks.flush(WITHIN_S)
    assert (clicks.delivered, clicks.dropped) == (load.reported, 0)
    with Clickcurve(server.url) as client:
        assert sum(client.lifetimes(KEYS).values()) == load.reported
    assert clicks.close()
    assert spool is None or not spool.exists()


def reporter(url: str, spool: Path, hits: int, say: int) -> list[str]:
    return [sys.executable, REPORTER, url, str(spool), str(hits), str(len(KEYS)), str(say)]


def said(program: Program) -> int:
    """The last number of hits that the program printed."""
    lines = program.output().split()
    return int(lines[-1]) if lines and lines[-1].isdigit() else 0


def records(path: Path) -> bytes:
    """The whole records of the file."""
    text = path.read_bytes() if path.exists() else b""
    return text[: text.rfind(b"\n") + 1].removeprefix(HEADER)


def spooled(path: Path) -> int:
    """The hits of the file that are not answered."""
    batches, last = read_records(records(path))
    return sum(batch.hits for batch in batches) + sum(last.values())


def written(path: Path) -> int:
    """All hits that were written into the file, which is too small yet to have been written anew."""
    assert path.stat().st_size < REWRITE_FROM_BYTES
    hits = (line[1:].split(b" ", 1)[0] for line in records(path).split(b"\n") if line[:1] in (b"+", b"*"))
    return sum(map(int, hits))


def test_a_client_that_is_killed_leaves_its_hits_to_the_next_one(serve: Serve, tmp_path: Path) -> None:
    spool, port = tmp_path / "clicks.spool", free_port()
    command = reporter(f"http://127.0.0.1:{port}", spool, 5_000, 5_000)
    with running(command, tmp_path / "reporter.log") as program:
        program.until(lambda: spooled(spool) == 5_000)
        program.kill()
    text = spool.read_bytes()
    assert b"203.0.113.7" not in text
    assert b"ann" not in text
    assert spool.stat().st_mode & 0o777 == 0o600
    server = serve(port=port)
    with Client(server.url, spool=spool) as clicks, Clickcurve(server.url) as client:
        assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.dropped) == (5_000, 0)
        assert sum(client.lifetimes(KEYS).values()) == 5_000
    assert not spool.exists()


def test_a_client_that_is_killed_again_and_again_counts_each_written_hit_once(serve: Serve, tmp_path: Path) -> None:
    """It is killed while it sends: what was on its way is sent again by the next life, under the same id."""
    server, spool = serve(), tmp_path / "clicks.spool"
    command = reporter(server.url, spool, 1_000_000, 100)
    chance = random.Random(5)
    total = left = 0
    for life in range(KILLS):
        with running(command, tmp_path / f"reporter-{life}.log") as program:
            wanted = chance.randrange(500, 5_000)
            program.until(lambda program=program, wanted=wanted: said(program) >= wanted)  # type: ignore[misc]
            program.kill()
        total += written(spool) - left
        left = spooled(spool)
    with Client(server.url, spool=spool) as clicks, Clickcurve(server.url) as client:
        assert clicks.flush(WITHIN_S)
        assert (clicks.delivered, clicks.dropped) == (left, 0)
        assert sum(client.lifetimes(KEYS).values()) == total
    assert total > KILLS * 500
