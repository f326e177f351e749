"""Measure the Cassandra store on one node that is started for it, part by part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.cassandra.flush import flushes
from bench.cassandra.hot_link import hot_link
from bench.cassandra.month import month
from bench.cassandra.node import one_node
from bench.cassandra.reads import reads
from bench.cassandra.writes import writes
from bench.table import Line
from testing.cassandra.node import Node

# Each has a keyspace of its own.
PARTS: dict[str, Callable[[Node, Path, int, int], list[Line]]] = {
    "flush": lambda node, folder, rounds, _: flushes(node, folder, rounds),
    "hot_link": lambda node, folder, rounds, _: hot_link(node, folder, rounds),
    "reads": reads,
    "writes": lambda node, folder, *_: writes(node, folder),
    "month": lambda node, folder, *_: month(node, folder),
}


def measure(folder: Path, rounds: int, seconds: int, parts: Sequence[str] = tuple(PARTS)) -> list[Line]:
    """Start a node and measure these parts on it. Raises Missing where a Cassandra node cannot run."""
    lines: list[Line] = []
    with one_node(folder / "node") as node:
        for part in parts:
            print(f"measuring cassandra {part} ...", flush=True)
            lines += PARTS[part](node, folder, min(rounds, 3), seconds)
    return lines
