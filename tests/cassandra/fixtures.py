"""Real nodes for all suites: each kind is started once a session, when the first test asks for it, and shared.

Make a keyspace of your own (`keyspace` gives a name) and leave the nodes as you found them; a test that breaks them
asks for one of the `breakable` ones, which are mended afterwards.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from clickcurve.buckets.ladder import CLICKS
from testing.cassandra.jars import Missing
from testing.cassandra.node import Node
from testing.cassandra.prepare import prepare
from testing.cassandra.ring import Ring, place_one, place_three, running
from testing.cassandra.tables import make_tables
from tests.cassandra.front import Front, fronted
from tests.storage.cassandra.cassandra_kit import Keyspace


@pytest.fixture(scope="session")
def cassandra_program() -> None:
    """Fails, with one sentence, where a real Cassandra cannot run."""
    try:
        prepare()
    except Missing as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def one_node(cassandra_program: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A single node on 127.0.0.1 that syncs each write before it answers."""
    with running([place_one(tmp_path_factory.mktemp("one-node"))]) as ring:
        yield ring.nodes[0]


@pytest.fixture(scope="session")
def three_nodes(cassandra_program: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ring]:
    """Three nodes on 127.0.0.1 to 127.0.0.3 that sync the writes of 5 ms together before they answer."""
    with running(place_three(tmp_path_factory.mktemp("three-nodes"))) as ring:
        yield ring


@pytest.fixture(scope="module")
def proxied_nodes(cassandra_program: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """Three other nodes, each behind a proxy that can lose its answers. They go with the module, as few need them."""
    with fronted(tmp_path_factory.mktemp("proxied-nodes")) as front:
        yield front


@pytest.fixture
def breakable_node(one_node: Node) -> Iterator[Node]:
    """The single node, for a test that kills or suspends it."""
    yield one_node
    one_node.heal()


@pytest.fixture
def breakable_nodes(three_nodes: Ring) -> Iterator[Ring]:
    """The three nodes, for a test that kills or suspends some."""
    yield three_nodes
    three_nodes.heal()


@pytest.fixture
def breakable_proxied_nodes(proxied_nodes: Front) -> Iterator[Front]:
    """The three nodes behind proxies, for a test that loses answers, kills or suspends."""
    yield proxied_nodes
    proxied_nodes.heal()


@pytest.fixture
def keyspace() -> str:
    """A name that no other keyspace has."""
    return f"test_{secrets.token_hex(6)}"


@pytest.fixture
def cassandra_uri(one_node: Node, keyspace: str) -> str:
    """The address of a store on the single node, whose tables are made."""
    uri = f"cassandra://{one_node.address}:{one_node.port}/{keyspace}"
    make_tables(uri)
    return uri


@pytest.fixture(scope="session")
def cassandra_keyspace(one_node: Node) -> Iterator[Keyspace]:
    """On a real node; tests that use it empty it first."""
    keyspace = Keyspace(one_node, f"test_{secrets.token_hex(6)}", CLICKS)
    yield keyspace
    keyspace.close()
