"""A node of three that has just died or stands still, while everybody still takes it for alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from storage.cassandra.requests import Requests
from storage.cassandra.session import Session, connect
from storage.cassandra.statements import STATEMENTS
from storage.cassandra.store import CassandraStore
from storage.cassandra.uri import parse
from testing.cassandra.node import Node
from testing.cassandra.ring import Ring
from testing.cassandra.tables import make_tables
from testing.client import Clickcurve
from tests.conftest import Serve
from tests.power import one_in
from tests.server.conftest import events
from tests.storage.stores import in_flush, saved


def uri_of(ring: Ring, keyspace: str) -> str:
    return f"cassandra://{','.join(ring.addresses)}:{ring.port}/{keyspace}"


@contextmanager
def store_on(ring: Ring, keyspace: str, timeout_s: int) -> Iterator[tuple[CassandraStore, Session]]:
    """A store in a new keyspace of the ring, and its connection."""
    uri = uri_of(ring, keyspace)
    make_tables(uri, replication=3)
    address = parse(f"{uri}?timeout_s={timeout_s}")
    session = connect(address)
    session.use(STATEMENTS.values())
    store = CassandraStore(Requests(lambda: session, address.in_flight))
    try:
        yield store, session
    finally:
        store.close()


@pytest.mark.parametrize("goes", one_in(2, [Node.suspend, Node.kill]), ids=["still", "dead"])
def test_a_server_starts_again_and_flushes_what_its_journal_holds(
    breakable_nodes: Ring, keyspace: str, serve: Serve, goes: Callable[[Node], None]
) -> None:
    store = uri_of(breakable_nodes, keyspace)
    make_tables(store, replication=3)
    server = serve("--store", store, "--flush-s", "3600")
    with Clickcurve(server.url) as client:
        client.hit("launch")
    server.kill()
    goes(breakable_nodes.nodes[1])
    server.start()
    assert [line["hits_recovered"] for line in events(server, "listening")] == [0, 1]
    assert [line["hits"] for line in events(server, "flush")] == [1]
    assert events(server, "store unavailable") == events(server, "first flush failed") == []
    with Clickcurve(server.url) as client:
        assert client.total("launch")["total"] == 1


@pytest.mark.parametrize("still", one_in(3, range(3)))
def test_conditional_updates_go_on_by_way_of_other_nodes(breakable_nodes: Ring, keyspace: str, still: int) -> None:
    """Whichever node it is: one of them is the first replica of the record, and would be asked again and again."""
    with store_on(breakable_nodes, keyspace, 1) as (store, _):
        breakable_nodes.nodes[still].suspend()
        in_flush(store)


def test_a_node_that_stands_still_is_asked_no_more(breakable_nodes: Ring, keyspace: str) -> None:
    """Whatever is read and written: each request that waits for it takes a hedge's time, and a flush has many."""
    with store_on(breakable_nodes, keyspace, 8) as (store, session):
        held = in_flush(store)
        breakable_nodes.nodes[1].suspend()
        keys = [f"link-{number}" for number in range(200)]
        for number in range(0, 200, 10):
            store.load_own(held.owner, keys[number : number + 10])
            store.save_own(held, 1, saved(*keys[number : number + 10]), {})
        (waiting,) = [
            state["in_flights"]
            for host, state in session._session.get_pool_state().items()
            if host.address == breakable_nodes.addresses[1]
        ]
        assert sum(waiting) < 12, "of some 90 requests, a third of which it would have got"
