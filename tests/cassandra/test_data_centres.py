"""A data centre that is lost, on a real ring of three with a node and a replica each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clickcurve.buckets.errors import StoreMismatch, StoreUnavailable
from storage.cassandra.schema import TABLES, apply_schema
from storage.cassandra.session import connect
from storage.cassandra.uri import parse
from storage.contract import Store
from storage.from_uri import open_store
from testing.cassandra.node import Node
from testing.cassandra.question import Refused
from testing.cassandra.ring import Ring, place_three, running
from testing.client import Clickcurve
from testing.server import RunningServer, run
from tests.conftest import Serve
from tests.storage.flushes import Flusher, hits
from tests.storage.stores import rows

pytestmark = pytest.mark.long  # another ring of three, for a minute

CENTRES = ("dc1", "dc2", "dc3")
SETTINGS = ("--flush-s", "3600")  # only starts and stops flush


@pytest.fixture(scope="module")
def centres(cassandra_program: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ring]:
    with running(place_three(tmp_path_factory.mktemp("centres"), data_centres=CENTRES)) as ring:
        yield ring


@pytest.fixture
def breakable_centres(centres: Ring) -> Iterator[Ring]:
    yield centres
    centres.heal()


@pytest.fixture(scope="module")
def everywhere(centres: Ring) -> str:
    """The address, without dc, of a keyspace in which owner 1 has flushed a hit of `launch`."""
    uri = made(centres, "everywhere", "?timeout_s=4")
    store = opened(uri)
    Flusher(store).flush({"launch": hits((1, 1))})
    store.close()
    return uri


def made(ring: Ring, keyspace: str, query: str) -> str:
    """The address of a keyspace with one replica in each data centre; the first one's node comes first."""
    uri = f"cassandra://{','.join(ring.addresses)}:{ring.port}/{keyspace}{query}"
    session = connect(parse(uri))
    apply_schema(session, None, replication=1)
    session.close()
    return uri


def opened(uri: str) -> Store:
    return open_store(uri)


def hit(server: RunningServer, key: str, count: int, id_: str | None = None) -> None:
    with Clickcurve(server.url) as client:
        assert client.send({"key": key, "count": count, **({"id": id_} if id_ else {})})["counted"] == count


def total(server: RunningServer, key: str) -> int:
    with Clickcurve(server.url) as client:
        return int(client.total(key)["total"])


def takes(node: Node, statement: str) -> bool:
    try:
        node.ask(statement, "QUORUM")
    except Refused:
        return False
    return True


def agreed(node: Node, keyspace: str) -> bool:
    """Whether a round of conditional updates' repair ended; a node that came back a moment ago may miss its time."""
    try:
        node.nodetool("repair", "--paxos-only", keyspace)
    except AssertionError as error:
        if "TIMEOUT failure response" in str(error):
            return False
        raise
    return True


def test_without_dc_a_store_goes_on_when_its_first_data_centre_is_lost(
    breakable_centres: Ring, everywhere: str
) -> None:
    store = opened(everywhere)
    owner = Flusher(store, 2)
    owner.flush({"a": hits((1, 1))})

    breakable_centres.nodes[0].kill()
    owner.flush({"a": hits((2, 1)), "b": hits((2, 1))})
    assert store.claim_ids(owner.held, 2, {"visit": 100}, 50) == set()
    assert len(rows(store, "b").rows) == 1
    late = opened(everywhere)  # a server that starts now, with the lost node's address before the others
    assert [record.begun for record in late.owners()] == [1, 2]
    late.close()

    # Two data centres are not enough: a quorum of two replicas is both.
    two = {"class": "NetworkTopologyStrategy", "dc1": "1", "dc2": "1"}
    breakable_centres.nodes[1].ask(f"ALTER KEYSPACE everywhere WITH replication = {two}")
    with pytest.raises(StoreUnavailable):
        owner.flush({"a": hits((3, 1))})
    store.close()


def test_moving_to_another_data_centre_loses_what_had_not_reached_it(
    breakable_centres: Ring, everywhere: str, keyspace: str, serve: Serve
) -> None:
    """The other keyspace is there to be mistaken for this one by nodes that start while another one is down."""
    first, *others = breakable_centres.nodes
    here = made(breakable_centres, keyspace, "?dc=dc1")
    there = here.replace("dc1", "dc2")
    server = serve("--store", here, *SETTINGS)
    hit(server, "launch", 1)
    hit(server, "gone", 32)
    assert server.stop() == 0
    for table in TABLES:  # a read from all gives all what it has found
        first.ask(f"SELECT * FROM {keyspace}.{table.name}", "ALL")

    for node in others:
        node.kill()
    server.start()
    hit(server, "launch", 2)
    hit(server, "launch", 4, "visit")
    hit(server, "quiet", 8)
    with Clickcurve(server.url) as client:
        client.erase("gone")
    assert server.stop() == 0  # flushed: the first data centre has it, and it alone
    first.kill()
    for node in others:
        node.start()
    for node in others:
        node.wait_ready()

    move = f"UPDATE {keyspace}.meta SET value = '{{}}' WHERE name = 'dc'"
    with pytest.raises(StoreMismatch, match=r"is used with \?dc=dc1 .* stop all and put another value: UPDATE"):
        opened(there)
    others[0].until(lambda: takes(others[0], move.format("dc2")))  # as soon as they see each other
    moved = serve("--store", there, *SETTINGS)
    assert (total(moved, "launch"), total(moved, "quiet"), total(moved, "gone")) == (1, 0, 32)
    hit(moved, "launch", 4, "visit")  # the claim of this id was lost too
    hit(moved, "launch", 16)
    assert moved.stop() == 0

    first.start().wait_ready()
    breakable_centres.wait_whole()
    first.until(lambda: agreed(first, keyspace))
    first.nodetool("repair", "--full", keyspace)
    first.ask(move.format("dc1"), "ALL")
    server = serve("--store", here, *SETTINGS)
    found = (total(server, "launch"), total(server, "quiet"), total(server, "gone"))
    assert found == (1 + 4 + 16, 8, 0), "newer rows win, others come back, and so does the deletion"
    assert server.stop() == 0
    output = run("verify", "--store", here)
    assert output.returncode == 1
    assert "this row counts 53 people, the links' rows together 61 (erased ones included)" in output.stdout
