"""kill -9 of the server and of the import, again and again in the middle of a log: every line counts once."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from ingest.imports.fingerprint import Beginning
from testing.client import Clickcurve
from testing.program import running
from testing.server import RunningServer, command, run
from tests.conftest import Serve
from tests.ingest.imports.import_kit import log_lines
from tests.power import at

LINES = at(quick=45_000, full=90_000)
KEYS = [f"k{n}" for n in range(5)]


def position(server: RunningServer, source: str) -> int:
    with Clickcurve(server.url) as client:
        answer = client.http.get(f"/v1/import/{source}")
        return int(answer.json()["position"]) if answer.is_success else -1


def is_past(server: RunningServer, source: str, reached: int) -> bool:
    return position(server, source) > reached


def test_every_line_counts_once_through_kills_of_either_side(serve: Serve, tmp_path: Path) -> None:
    data = log_lines(LINES)
    log = tmp_path / "access.log"
    log.write_bytes(data)
    beginning = Beginning()
    beginning.feed(0, data)
    source = beginning.families()[0] + "-0"
    server = serve()
    arguments = ("import", str(log), "--url", server.url)
    draw = random.Random(7)
    for victim in ("import", "server", "both", "server")[: at(quick=2, full=4)]:
        reached = position(server, source) + (1 << 20) * draw.randint(0, 1)
        with running(command(*arguments), tmp_path / "import.out") as program:
            program.until(partial(is_past, server, source, reached))
            if victim != "import":
                server.kill()
            if victim != "server":
                program.kill()
            if victim != "import":
                server.start()
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    with Clickcurve(server.url) as client:
        assert Counter(client.lifetimes(KEYS)) == Counter(dict.fromkeys(KEYS, LINES // 5))
        assert position(server, source) == len(data)
    assert "counted 0" in run(*arguments).stdout


@pytest.mark.slow
def test_several_workers_on_one_port_count_a_log_once(serve: Serve, tmp_path: Path) -> None:
    server = serve("--workers", "3")
    log = tmp_path / "access.log"
    for lines in (3_000, 6_000, 6_000):
        log.write_bytes(log_lines(lines))
        done = run("import", str(log), "--url", server.url)
        assert done.returncode == 0, done.stderr
    server.stop()  # each worker flushes what it has
    server.start()
    with Clickcurve(server.url) as client:
        assert Counter(client.lifetimes(KEYS)) == Counter(dict.fromkeys(KEYS, 6_000 // 5))
