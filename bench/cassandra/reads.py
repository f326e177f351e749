"""Totals and curves over HTTP from one Cassandra node, next to the same server with SQLite and the same hits."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import perf_counter, sleep, time

from bench import servers
from bench.cassandra.node import make_keyspace
from bench.measure import Line, spread
from bench.reads import QUERIES, post
from bench.workload import Workload
from bench.wrk import Requests, Round, drive
from testing.cassandra.node import Node
from testing.client import Clickcurve

LINKS, HITS = 10_000, 1_000_000  # a tenth of what the other reads are measured with
LOADED_WITHIN_S = 300


def reads(node: Node, folder: Path, rounds: int, seconds: int) -> list[Line]:
    """p50 and p99 of each query at one connection, keys by popularity; both servers in turn in each round."""
    workload = Workload(LINKS, HITS, 400, int(time()) // 3_600 * 3_600)
    paths = {what: folder / f"cluster-{what.replace(' ', '-')}.txt" for what in QUERIES}
    keys = workload.draw(5_000, seed=2)
    for what, query in QUERIES.items():
        paths[what].write_text("".join(f"/v1/links/{key}/{query}\n" for key in keys))
    cassandra = {"CLICKCURVE_STORE": make_keyspace(node, "reads"), "CLICKCURVE_FLUSH_S": "1"}
    with (
        servers.clickcurve(folder / "with-sqlite", {"CLICKCURVE_FLUSH_S": "1"}) as embedded,
        servers.clickcurve(folder / "with-cassandra", cassandra) as clustered,
    ):
        for server in (embedded, clustered):
            _load(server.url, workload)
        lines = [_top_line(embedded.url, clustered.url)]
        for what in QUERIES:
            ask = Requests.paths("GET", paths[what])
            runs = [
                (drive(embedded.url, ask, 1, seconds), drive(clustered.url, ask, 1, seconds)) for _ in range(rounds)
            ]
            lines.append(_line(what, [run for run, _ in runs], [run for _, run in runs]))
    return lines


def _top_line(embedded: str, clustered: str) -> Line:
    """Top links over their lives: the first question reads every link, and its answer is kept for some seconds."""
    took_s = [[_top_s(url, bots) for bots in ("exclude", "include", "only")] for url in (embedded, clustered)]
    sqlite, cassandra = map(median, took_s)
    compared = f"{cassandra / sqlite:.1f} times SQLite's {sqlite * 1000:.0f} ms, within {spread(took_s[1])}"
    return Line(f"top of {LINKS:,} links, read anew, one Cassandra node", f"{cassandra * 1000:.0f} ms", compared)


def _top_s(url: str, bots: str) -> float:
    with Clickcurve(url) as client:
        client.total()
        begun = perf_counter()
        client.top(bots=bots)
        return perf_counter() - begun


def _line(what: str, embedded: list[Round], clustered: list[Round]) -> Line:
    p50_ms, p99_ms = median(run.p50_ms for run in clustered), median(run.p99_ms for run in clustered)
    ratio = median(run.p50_ms / other.p50_ms for run, other in zip(clustered, embedded, strict=True))
    sqlite = f"p50 {median(run.p50_ms for run in embedded):.2f} p99 {median(run.p99_ms for run in embedded):.2f} ms"
    apart = f"p50 within {spread([run.p50_ms for run in clustered])}"
    compared = f"{ratio:.1f} times the p50 of SQLite ({sqlite}), {apart}"
    return Line(f"{what}, c1, one Cassandra node", f"p50 {p50_ms:.2f} p99 {p99_ms:.2f} ms", compared)


def _load(url: str, workload: Workload) -> None:
    """Post the whole workload; returns when all of it is in the store."""
    begun = time()
    with Clickcurve(url) as client:
        for body in workload.bodies(100_000):
            post(client, body)
        while client.metric("clickcurve_buffered_entries"):
            if time() > begun + LOADED_WITHIN_S:
                raise RuntimeError(f"{workload.hits:,} hits were not flushed within {LOADED_WITHIN_S} s")
            sleep(0.2)
        total = client.total()["total"]
    if total != workload.hits:
        raise RuntimeError(f"{workload.hits} hits were posted, {total} counted")
