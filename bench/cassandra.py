"""The Cassandra store, on one node that is started for it: `make bench ARGS=cassandra`, or a part by its own name:

python -m bench.cassandra flush hot_link --rounds 3
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.cassandra_flush import flushes
from bench.cassandra_hot_link import hot_link
from bench.cassandra_month import month
from bench.cassandra_node import one_node
from bench.cassandra_reads import reads
from bench.cassandra_writes import writes
from bench.table import Line, render
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
    """What was measured. Raises Missing where a Cassandra node cannot run."""
    lines: list[Line] = []
    with one_node(folder / "node") as node:
        for part in parts:
            print(f"measuring cassandra {part} ...", flush=True)
            lines += PARTS[part](node, folder, min(rounds, 3), seconds)
    return lines


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("parts", nargs="*", choices=PARTS, help="what to measure; everything if none is named")
    asked.add_argument("--rounds", type=int, default=3, help="rounds of each measurement, 3 at most")
    asked.add_argument("--seconds", type=int, default=2, help="seconds of each round of reads")
    arguments = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="clickcurve-bench-") as folder:
        print(render(measure(Path(folder), arguments.rounds, arguments.seconds, arguments.parts or tuple(PARTS))))


if __name__ == "__main__":
    main()
