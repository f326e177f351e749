"""`make cassandra` gives a node to try, and takes it away again."""

from __future__ import annotations

import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from testing.cassandra import question
from testing.cassandra.jars import cache
from testing.program import running

USUAL_PORT = 9042
TRIES = 30_000  # ten minutes


@pytest.fixture
def usual_port_taken() -> Iterator[None]:
    with socket.socket() as other, suppress(OSError):  # OSError: it is taken by another program already
        other.bind(("127.0.0.1", USUAL_PORT))
        other.listen()
        yield
        return
    yield


def test_a_throw_away_node_serves_until_it_is_ended_and_leaves_nothing(
    cassandra_program: None, usual_port_taken: None, tmp_path: Path
) -> None:
    settings = {"TMPDIR": str(tmp_path), "CASSANDRA_CACHE": str(cache().parent)}
    with running([sys.executable, "-m", "testing.cassandra"], tmp_path / "log", settings) as program:
        program.until(lambda: "serve --store" in program.output(), tries=TRIES)
        match = re.search(r"serve --store cassandra://127\.0\.0\.1:(\d+)/clickcurve\n", program.output())
        assert match is not None
        assert int(match[1]) > USUAL_PORT
        tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'clickcurve'"
        assert [b"rows"] in question.ask("127.0.0.1", int(match[1]), tables)
        assert len(list(tmp_path.glob("clickcurve-cassandra-*"))) == 1
        assert program.stop(signal.SIGINT) == 0
        assert list(tmp_path.glob("clickcurve-cassandra-*")) == []
