"""What a piece of work costs on a cluster: time, requests, and processor time of this process and of the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time

from bench.scale.costs import cpu_s
from testing.cassandra.node import Node


@dataclass(slots=True)
class Spent:
    took_s: float = 0.0
    requests: int = 0
    process_s: float = 0.0
    nodes_s: float = 0.0


@contextmanager
def spending(nodes: Sequence[Node], requests: Callable[[], float]) -> Iterator[Spent]:
    """What the block spends, known when it ends. `requests`: how many there were until now."""

    def now() -> Spent:
        return Spent(perf_counter(), int(requests()), process_time(), sum(cpu_s(node.pid) for node in nodes))

    before, spent = now(), Spent()
    yield spent
    after = now()
    spent.took_s, spent.requests = after.took_s - before.took_s, after.requests - before.requests
    spent.process_s, spent.nodes_s = after.process_s - before.process_s, after.nodes_s - before.nodes_s


def processor(runs: Sequence[Spent]) -> str:
    """The medians of processor time."""
    process_s, nodes_s = median(run.process_s for run in runs), median(run.nodes_s for run in runs)
    return f"processor {process_s:.1f} s, nodes {nodes_s:.1f} s"
