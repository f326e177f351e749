"""Totals and curves over HTTP from one Cassandra node, next to the same server with SQLite and the same hits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from time import perf_counter, time

from bench import servers
from bench.cassandra.node import make_keyspace
from bench.command import Options
from bench.measure import Line, Percentiles, in_turn, spread, times
from bench.reads import post_all, queries_of
from bench.workload import Workload
from bench.wrk import drive
from testing.cassandra.node import Node
from testing.client import Clickcurve

LINKS, HITS = 10_000, 1_000_000  # a tenth of what the other reads are measured with


def reads(nodes: Sequence[Node], options: Options) -> Iterator[Line]:
    """p50 and p99 of each query at one connection, keys by popularity; both servers in turn in each round."""
    workload = Workload(options.of(LINKS), options.of(HITS), 400, int(time()) // 3_600 * 3_600)
    cassandra = {"CLICKCURVE_STORE": make_keyspace(nodes, "reads"), "CLICKCURVE_FLUSH_S": "1"}
    with (
        servers.clickcurve(options.folder / "with-sqlite", {"CLICKCURVE_FLUSH_S": "1"}) as embedded,
        servers.clickcurve(options.folder / "with-cassandra", cassandra) as clustered,
    ):
        urls = (embedded.url, clustered.url)
        for url in urls:
            post_all(url, workload)
        # Over their lives: the first question reads every link, and its answer is kept for some seconds.
        took_s = [[_top_s(url, bots) for bots in ("exclude", "include", "only")] for url in urls]
        sqlite_s, top_s = map(median, took_s)
        beside = f"{top_s / sqlite_s:.1f} times SQLite's {sqlite_s * 1000:.0f} ms, within {spread(took_s[1])}"
        what = f"top of {workload.links:,} links, read anew, one Cassandra node"
        yield Line(what, f"{top_s * 1000:.0f} ms", beside)
        for what, ask in queries_of(options.folder, workload).items():
            turns = [partial(drive, url, ask, 1, options.seconds) for url in urls]
            runs = in_turn(min(options.rounds, 3), *turns)
            theirs, mine = ([run.took for run in of] for of in runs)
            p50s = [took.p50_ms for took in mine]
            ratio = f"{times(p50s, (took.p50_ms for took in theirs)):.1f} times the p50 of SQLite"
            compared = f"{ratio} ({Percentiles.middle(theirs)}), p50 within {spread(p50s)}"
            yield Line(f"{what}, c1, one Cassandra node", str(Percentiles.middle(mine)), compared)


def _top_s(url: str, bots: str) -> float:
    with Clickcurve(url) as client:
        client.total()
        begun = perf_counter()
        client.top(bots=bots)
        return perf_counter() - begun
