"""Real Cassandra nodes for the measurements: started in a folder of their own, ended with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.command import Options, Part
from bench.measure import Line
from clickcurve.buckets.ladder import CLICKS
from storage.cassandra.requests import Requests
from storage.cassandra.schema import apply_schema
from storage.cassandra.session import connect
from storage.cassandra.statements import STATEMENTS
from storage.cassandra.uri import parse
from testing.cassandra.node import Node
from testing.cassandra.prepare import prepare
from testing.cassandra.ring import place_one, place_three, running

# A thread of concurrent_writes sleeps until its group is synced, so a node takes at most threads / window writes a
# second: 25,600 with these and 5 ms. Eight threads took 1,600, whatever asked, and hid what the program costs.
POOLS = {"concurrent_writes": "128", "native_transport_max_threads": "128"}


@contextmanager
def started(folder: Path, count: int = 1) -> Iterator[Sequence[Node]]:
    """One node or three as a cluster: commit logs synced every 5 ms, pools that set no result. Raises Missing."""
    prepare()
    places = [place_one(folder, "group")] if count == 1 else place_three(folder)
    with running([replace(place, settings=POOLS) for place in places]) as ring:
        yield ring.nodes


def on_one_node(measured: Callable[[Node, Options], Iterable[Line]]) -> Part:
    """Returns a part that starts a node for what it measures."""
    return on_nodes(1, lambda nodes, options: measured(nodes[0], options))


def on_nodes(count: int, measured: Callable[[Sequence[Node], Options], Iterable[Line]]) -> Part:
    """Returns a part that starts one node or three."""

    def part(options: Options) -> Iterator[Line]:
        with started(options.folder / "nodes", count) as nodes:
            yield from measured(nodes, options)

    return part


def make_keyspace(node: Node, name: str, replicas: Sequence[Node] = ()) -> str:
    """A keyspace with Clickcurve's tables, on `node` or with a replica on each of these; the store's address."""
    addresses = ",".join([each.address for each in replicas] or [node.address])
    uri = f"cassandra://{addresses}:{node.port}/{name}"
    session = connect(parse(uri))
    try:
        apply_schema(session, CLICKS, replication=len(replicas) or 1)
    finally:
        session.close()
    return uri


@contextmanager
def connection(uri: str) -> Iterator[Requests]:
    """A connection to such a keyspace, ready for the store's statements."""
    address = parse(uri)
    session = connect(address)
    try:
        session.use(STATEMENTS.values())
        yield Requests(lambda: session, address.in_flight)
    finally:
        session.close()
