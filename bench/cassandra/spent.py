"""What a piece of work costs on a cluster: time, requests, and processor time of this process and of the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

from bench.servers import used_s
from testing.cassandra.node import Node


class Spent(NamedTuple):
    took_s: float
    requests: float
    process_s: float
    nodes_s: float


@contextmanager
def spending(nodes: Sequence[Node], requests: Callable[[], float], into: list[Spent]) -> Iterator[None]:
    """Adds to `into` what the block spends. `requests`: how many there were until now."""

    def now() -> Spent:
        return Spent(perf_counter(), requests(), process_time(), sum(used_s(node.pid) for node in nodes))

    before = now()
    yield
    into.append(Spent(*(after - earlier for after, earlier in zip(now(), before, strict=True))))


def middle(runs: Sequence[Spent]) -> Spent:
    """The medians of each cost."""
    return Spent(*(median(each) for each in zip(*runs, strict=True)))


def times(of: Sequence[Spent], beside: Sequence[Spent]) -> Spent:
    """The medians of how many times a run cost what the run beside it did."""
    pairs = zip(of, beside, strict=True)
    return middle([Spent(*(cost / (other or 1) for cost, other in zip(*pair, strict=True))) for pair in pairs])
