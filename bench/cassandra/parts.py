"""Measure the Cassandra store part by part, on nodes that are started for it: one, and three for `ring`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.cassandra.attributes import attributes
from bench.cassandra.flush import KEYS, KEYS_OF_RING, flushes
from bench.cassandra.hot_link import hot_link
from bench.cassandra.month import month
from bench.cassandra.node import one_node, three_nodes
from bench.cassandra.reads import reads
from bench.cassandra.writes import writes
from bench.measure import Line
from testing.cassandra.node import Node

RING = "ring"  # `flush` on three nodes
# Each has a keyspace of its own.
ON_ONE_NODE: dict[str, Callable[[Node, Path, int, int], list[Line]]] = {
    "flush": lambda node, folder, rounds, _: flushes([node], folder, rounds, KEYS),
    "hot_link": lambda node, folder, rounds, _: hot_link(node, folder, rounds),
    "attributes": lambda node, folder, rounds, _: attributes(node, folder, rounds),
    "reads": reads,
    "writes": lambda node, folder, *_: writes(node, folder),
    "month": lambda node, folder, *_: month(node, folder),
}
PARTS = (*ON_ONE_NODE, RING)


def measure(folder: Path, rounds: int, seconds: int, parts: Sequence[str] = PARTS) -> list[Line]:
    """Start nodes and measure these parts on them. Raises Missing where a Cassandra node cannot run."""
    lines: list[Line] = []
    rounds = min(rounds, 3)
    if any(part in ON_ONE_NODE for part in parts):
        with one_node(folder / "node") as node:
            for part in parts:
                if part in ON_ONE_NODE:
                    print(f"measuring cassandra {part} ...", flush=True)
                    lines += ON_ONE_NODE[part](node, folder, rounds, seconds)
    if RING in parts:
        print(f"measuring cassandra {RING} ...", flush=True)
        with three_nodes(folder / RING) as nodes:
            lines += flushes(nodes, folder / "of-three", rounds, KEYS_OF_RING)
    return lines
