"""Real Cassandra nodes for the measurements: started in a folder of their own, ended with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from bench.command import Options, Part
from bench.measure import Beside, Line
from testing.cassandra.node import Node
from testing.cassandra.prepare import prepare
from testing.cassandra.ring import place_one, place_three, running
from testing.cassandra.tables import make_tables

# A thread of concurrent_writes sleeps until its group is synced, so a node takes at most threads / window writes a
# second: 25,600 with these and 5 ms. Eight threads took 1,600, whatever asked, and hid what the program costs.
POOLS = {"concurrent_writes": "128", "native_transport_max_threads": "128"}


def on_nodes(count: int, measured: Callable[[Sequence[Node], Options], Iterable[Beside | Line]]) -> Part:
    """Returns a part on a cluster of one node or three: commit logs synced every 5 ms, pools that set no result.

    The part raises Missing without Java.
    """

    def part(options: Options) -> Iterator[Beside | Line]:
        prepare()
        folder = options.folder / "nodes"
        places = [place_one(folder, "group")] if count == 1 else place_three(folder)
        # What the part opens ends before the nodes: an owner that is closed tells its store.
        with running([replace(place, settings=POOLS) for place in places]) as ring, ExitStack() as closing:
            yield from measured(ring.nodes, replace(options, closing=closing))

    return part


def make_keyspace(nodes: Sequence[Node], name: str) -> str:
    """Makes a keyspace with Clickcurve's tables and a replica on each of these nodes; returns the store's address."""
    uri = f"cassandra://{','.join(node.address for node in nodes)}:{nodes[0].port}/{name}"
    make_tables(uri, len(nodes))
    return uri
