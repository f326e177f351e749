"""Hits over HTTP with the journal on a disk and in the cluster, side by side: two servers over the same nodes, in turn.

Rates first, from servers that do not flush, so that all requests to the cluster are those of hits. Then hits at moments
of their own, from servers that flush as they do by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from statistics import median
from typing import NamedTuple

from bench import servers
from bench.cassandra.node import make_keyspace
from bench.command import Options
from bench.connection import Sample, open_loop, request
from bench.ingest import batches, by_path, drive_counted, timed
from bench.measure import Line, Percentiles, in_turn, rate, spread, times
from bench.reads import Flush
from bench.wrk import Requests
from testing.cassandra.node import Node
from testing.client import Clickcurve
from testing.server import RunningServer

CONNECTIONS = (1, 32, 256)
BATCH = 1_000
HITS_PER_S, SECONDS = 2_000, 30
# On three nodes that share two cores with all else.
RATE_AIM, BATCHES_AIM, P99_AIM_MS = 15_000, 0.5, 100


class Served(NamedTuple):
    """A server with its journal in one of the two places."""

    server: RunningServer
    client: Clickcurve

    def counts(self) -> tuple[float, ...]:
        """Returns how many requests it has sent, the bytes that its journal holds, and how many frames it has kept."""
        names = ("clickcurve_store_requests_total", "clickcurve_journal_bytes", "clickcurve_frames_total")
        return tuple(map(self.client.metric, names))


class Driven(NamedTuple):
    """A round: hits a second, their milliseconds, the processor's microseconds for a hit; what a group had of each."""

    per_s: float
    took: Percentiles
    hit_us: float
    requests: float
    bytes: float
    hits: float


def journals(nodes: Sequence[Node], options: Options) -> Iterator[Line]:
    """Single hits and batches in a closed loop, then single hits in an open one."""
    where = "one node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    keys = options.workload().draw(20_000, seed=1)
    bodies = batches(options, BATCH, 20)
    with ExitStack() as closing:
        both = _served(nodes, "rates", {"CLICKCURVE_FLUSH_S": "3600"}, options, closing)
        for what, requests, hits in (
            ("hits", by_path(options.folder, keys), 1),
            ("in batches of 1,000", bodies, BATCH),
        ):
            for connections in CONNECTIONS:
                turns = [partial(_drive, each, requests, connections, options.seconds, hits) for each in both]
                disk, cluster = in_turn(options.rounds, *turns)
                yield _rates(f"{what}, c{connections}, {where}", disk, cluster, hits)
    with ExitStack() as closing:
        both = _served(nodes, "moments", {}, options, closing)
        seconds, hits_per_s = options.of(SECONDS), options.of(HITS_PER_S)
        rounds = in_turn(options.rounds, *(partial(_moments, each, keys, hits_per_s, seconds) for each in both))
        for journal, runs in zip(("on a disk", "in the cluster"), rounds, strict=True):
            yield _percentiles(f"{hits_per_s:,} hits/s, {where}, journal {journal}", runs)


def _served(
    nodes: Sequence[Node], name: str, settings: dict[str, str], options: Options, closing: ExitStack
) -> list[Served]:
    """Starts a server with its journal on a disk, and one with it in the cluster."""
    both = []
    for journal in ("disk", "cluster"):
        store = make_keyspace(nodes, f"{name}_{journal}")
        environment = {"CLICKCURVE_STORE": store, "CLICKCURVE_JOURNAL": journal, **settings}
        server = closing.enter_context(servers.clickcurve(options.folder / f"{name}-{journal}", environment))
        both.append(Served(server, closing.enter_context(Clickcurve(server.url))))
    return both


def _drive(served: Served, requests: Requests, connections: int, seconds: float, hits: int) -> Driven:
    before = served.counts()
    drive_it = partial(drive_counted, served.client, served.server.url, requests, connections, seconds, hits)
    run, request_s = timed(served.server.pid, drive_it)
    asked, held, groups = (now - then for now, then in zip(served.counts(), before, strict=True))
    of_group = [figure / (groups or 1) for figure in (asked, held, run.requests * hits)]
    return Driven(run.per_s * hits, run.took, request_s / hits * 1e6, *of_group)


def _rates(what: str, disk: Sequence[Driven], cluster: Sequence[Driven], hits: int) -> Line:
    theirs, mine = ([run.per_s for run in runs] for runs in (disk, cluster))
    beside, took = (Percentiles.middle(run.took for run in runs) for runs in (disk, cluster))
    ratio = f"{times(mine, theirs):.2f} of the disk's {rate(median(theirs))} ({beside})"
    requests, size, members = (median(figures) for figures in zip(*(run[3:] for run in cluster), strict=True))
    group = f"group of {members:,.1f} hits: {requests:.1f} requests, {size:,.0f} B"
    us = [median(run.hit_us for run in runs) for runs in (cluster, disk)]
    processor = f"processor {us[0]:.1f} us a hit, {us[1]:.1f} with the disk"
    aim = f">= {BATCHES_AIM} of it" if hits > 1 else f">= {rate(RATE_AIM)}" if "c256, 3" in what else ""
    return Line(what, rate(median(mine)), f"{took}; {ratio}; {group}; {processor}; within {spread(mine)}", aim)


def _moments(served: Served, keys: Sequence[str], per_s: float, seconds: float) -> tuple[list[Sample], set[Flush]]:
    """Sends hits for so long; returns them, and the flushes meanwhile. When it returns, all is flushed."""
    samples, flushes = list[Sample](), set[Flush]()
    requests = cycle([request("POST", f"/v1/hits/{key}") for key in keys])
    for _ in range(max(1, round(seconds / 5))):
        samples += open_loop("hit", served.server.port, requests, per_s, min(5, seconds))
        flushes.add(Flush.last(served.client))

    def flushed() -> bool:
        flushes.add(Flush.last(served.client))
        return served.client.metric("clickcurve_buffered_entries") == 0

    served.server.wait_until(flushed)
    return samples, flushes


def _percentiles(what: str, runs: Sequence[tuple[list[Sample], set[Flush]]]) -> Line:
    """The second before a flush writes rows is the one in which it began in the cluster, and held hits for that."""
    parted: dict[str, list[float]] = {"beside no flush": [], "while one begins": [], "while one writes": []}
    for samples, flushes in runs:
        for sample in samples:
            begins = any(flush.begun_at - 1 <= sample.at < flush.begun_at for flush in flushes)
            writes = any(flush.holds(sample.at) for flush in flushes)
            when = "while one writes" if writes else "while one begins" if begins else "beside no flush"
            parted[when].append(sample.took_ms)
    took = [Percentiles.of([sample.took_ms for sample in samples]) for samples, _ in runs]
    compared = [f"{when} ({len(some):,} hits) {Percentiles.of(some)}" for when, some in parted.items() if some]
    apart = f"p99 within {spread([each.p99_ms for each in took])}"
    return Line(what, str(Percentiles.middle(took)), "; ".join([*compared, apart]), f"p99 < {P99_AIM_MS} ms")
