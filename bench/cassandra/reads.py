"""Totals and curves over HTTP from one Cassandra node, next to the same server with SQLite and the same hits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle
from time import perf_counter, time

from bench import servers
from bench.cassandra.node import make_keyspace
from bench.command import Options
from bench.measure import Beside, Figures
from bench.reads import asked, post_all, queries_of
from bench.workload import Workload
from testing.cassandra.node import Node
from testing.client import Clickcurve

LINKS, HITS = 10_000, 1_000_000  # a tenth of what the other reads are measured with


def reads(nodes: Sequence[Node], options: Options) -> Iterator[Beside]:
    """p50 and p99 of each query at one connection, keys by popularity; both servers in turn in each round."""
    workload = Workload(options.of(LINKS), options.of(HITS), 400, int(time()) // 3_600 * 3_600)
    stores = {"SQLite": {}, "Cassandra": {"CLICKCURVE_STORE": make_keyspace(nodes, "reads")}}
    urls = {}
    for name, settings in stores.items():
        server = servers.clickcurve(options.folder / name, {"CLICKCURVE_FLUSH_S": "1", **settings})
        urls[name] = options.closing.enter_context(server).url
        post_all(urls[name], workload)
    # Over their lives: the first question reads every link, and its answer is kept for some seconds.
    tops = {name: partial(_top, url, cycle(("exclude", "include", "only"))) for name, url in urls.items()}
    yield Beside(f"top of {workload.links:,} links, read anew", tops, rounds=3)
    for what, ask in queries_of(options.folder, workload).items():
        turns = {name: partial(asked, url, ask, options.seconds) for name, url in urls.items()}
        yield Beside(f"{what}, c1", turns, rounds=min(options.rounds, 3))


def _top(url: str, bots: Iterator[str]) -> Figures:
    with Clickcurve(url) as client:
        client.total()
        begun = perf_counter()
        client.top(bots=next(bots))
        return {"{} ms": (perf_counter() - begun) * 1_000}
