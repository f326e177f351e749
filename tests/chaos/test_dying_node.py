"""A node of three that has just died, while the others still take it for alive."""

from __future__ import annotations

from pathlib import Path

from tests.cassandra.ring import Ring
from tests.chaos.campaign import make_tables
from tests.client import Clickcurve
from tests.conftest import Serve
from tests.server.conftest import events


def test_a_server_starts_again_and_flushes_what_its_journal_holds(
    breakable_nodes: Ring, keyspace: str, serve: Serve, tmp_path: Path
) -> None:
    store = f"cassandra://{','.join(breakable_nodes.addresses)}:{breakable_nodes.port}/{keyspace}"
    make_tables(store)
    server = serve("--store", store, "--flush-s", "3600")
    with Clickcurve(server.url) as client:
        client.hit("launch")
    server.kill()
    breakable_nodes.nodes[1].kill()
    server.start()
    assert [line["hits_recovered"] for line in events(server, "listening")] == [0, 1]
    assert [line["hits"] for line in events(server, "flush")] == [1]
    assert events(server, "store unavailable") == events(server, "first flush failed") == []
    with Clickcurve(server.url) as client:
        assert client.total("launch")["total"] == 1
