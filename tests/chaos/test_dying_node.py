"""A node of three that has just died or stands still, while everybody still takes it for alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.cassandra.session import connect
from storage.cassandra.statements import STATEMENTS
from storage.cassandra.store import CassandraStore
from storage.cassandra.uri import parse
from testing.cassandra.ring import Ring
from testing.client import Clickcurve
from tests.chaos.campaign import make_tables
from tests.conftest import Serve
from tests.server.conftest import events
from tests.storage.stores import in_flush


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


@pytest.mark.parametrize("still", range(3))
def test_conditional_updates_go_on_by_way_of_other_nodes(breakable_nodes: Ring, keyspace: str, still: int) -> None:
    """Whichever node it is: one of them is the first replica of the record, and would be asked again and again."""
    uri = f"cassandra://{','.join(breakable_nodes.addresses)}:{breakable_nodes.port}/{keyspace}"
    make_tables(uri)
    session = connect(parse(f"{uri}?timeout_s=1"))
    session.use(STATEMENTS.values())
    store = CassandraStore(session)
    try:
        breakable_nodes.nodes[still].suspend()
        in_flush(store)
    finally:
        store.close()
