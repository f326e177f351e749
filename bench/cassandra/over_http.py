"""Hits over HTTP to servers over Cassandra: journals side by side.

Journals lie on a disk and in the cluster, of two servers over the same nodes, in turn. Rates first, from servers that
do not flush, so that all requests to the cluster are those of hits. Then hits at moments of their own, from servers
that flush as they do by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from operator import sub
from pathlib import Path

from bench import servers
from bench.cassandra.node import make_keyspace
from bench.command import Options
from bench.ingest import batches, counted, links_by_path
from bench.load import Sample, open_loop, request
from bench.measure import Beside, Figures, Percentiles
from bench.reads import Flush
from testing.cassandra.node import Node
from testing.client import Clickcurve
from testing.server import RunningServer

CONNECTIONS = (1, 32, 256)
BATCH = 1_000
HITS_PER_S, SECONDS = 2_000, 30
JOURNALS = {"on a disk": "disk", "in the cluster": "cluster"}
# On three nodes that share two cores with all else.
RATE_AIM, BATCHES_AIM, P99_AIM_MS = 15_000, 0.5, 100
OF_GROUP = ("a group of {} hits", "{} requests a group", "{} B a group")


def journals(nodes: Sequence[Node], options: Options) -> Iterator[Beside]:
    """Single hits and batches in a closed loop, then single hits in an open one."""
    where = "one node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    keys = options.workload().draw(20_000, seed=1)
    kinds = {
        "hits": (links_by_path(options.folder, keys), 1),
        "in batches of 1,000": (batches(options, BATCH, 20), BATCH),
    }
    with ExitStack() as closing:
        both = _served(nodes, "rates", {"CLICKCURVE_FLUSH_S": "3600"}, options, closing)
        for what, (requests, hits) in kinds.items():
            for connections in CONNECTIONS:
                how = requests, connections, options.seconds, hits
                turns = {journal: partial(_drive, server, *how) for journal, server in both.items()}
                aim = f">= {BATCHES_AIM} times" if hits > 1 else f">= {RATE_AIM:,} /s with c256 on three nodes"
                yield Beside(f"{what}, c{connections}, {where}", turns, {"in the cluster": aim})
    with ExitStack() as closing:
        both = _served(nodes, "moments", {}, options, closing)
        seconds, hits_per_s = options.of(SECONDS), options.of(HITS_PER_S)
        turns = {name: partial(_moments, server, keys, hits_per_s, seconds) for name, server in both.items()}
        yield Beside(f"{hits_per_s:,} hits/s, {where}", turns, dict.fromkeys(both, f"p99 < {P99_AIM_MS} ms"))


Served = tuple[RunningServer, Clickcurve]


def _served(
    nodes: Sequence[Node], name: str, settings: Mapping[str, str], options: Options, closing: ExitStack
) -> dict[str, Served]:
    """Starts a server with its journal on a disk, and one with it in the cluster."""
    both = {}
    for what, journal in JOURNALS.items():
        store = make_keyspace(nodes, f"{name}_{journal}")
        environment = {"CLICKCURVE_STORE": store, "CLICKCURVE_JOURNAL": journal, **settings}
        server = closing.enter_context(servers.clickcurve(options.folder / f"{name}-{journal}", environment))
        both[what] = server, closing.enter_context(Clickcurve(server.url))
    return both


def _drive(served: Served, requests: Path, connections: int, seconds: float, hits: int) -> Figures:
    """Returns the rate of a round and its times; in the cluster also what a group had."""
    server, client = served
    before = _counts(client)
    figures = counted(client, server, requests, connections, seconds, hits)
    groups, *of_groups = map(sub, _counts(client), before)
    return {**figures, **{name: figure / groups for name, figure in zip(OF_GROUP, of_groups, strict=True) if groups}}


def _counts(client: Clickcurve) -> list[float]:
    """Returns how many frames the journal in the cluster has kept, hits, requests sent, and bytes that it holds."""
    names = ("clickcurve_frames_total", "clickcurve_store_requests_total", "clickcurve_journal_bytes")
    frames, *others = map(client.metric, names)
    return [frames, client.total()["total"], *others]


def _moments(served: Served, keys: Sequence[str], per_s: float, seconds: float) -> Figures:
    """Sends hits for so long, at moments of their own, and waits until they are flushed; returns how long they took.

    The second before a flush writes rows is the one in which it began in the cluster, and held hits for that.
    """
    server, client = served
    samples, flushes = list[Sample](), set[Flush]()
    requests = cycle([request("POST", f"/v1/hits/{key}") for key in keys])
    for _ in range(max(1, round(seconds / 5))):
        samples += open_loop("hit", server.port, requests, per_s, min(5, seconds))
        flushes.add(Flush.last(client))

    def flushed() -> bool:
        flushes.add(Flush.last(client))
        return client.metric("clickcurve_buffered_entries") == 0

    server.wait_until(flushed)
    parted: dict[str, list[float]] = {
        "": [],
        "beside no flush: ": [],
        "while one begins: ": [],
        "while one writes: ": [],
    }
    for sample in samples:
        begins = any(flush.begun_at - 1 <= sample.at < flush.begun_at for flush in flushes)
        writes = any(flush.holds(sample.at) for flush in flushes)
        when = "while one writes: " if writes else "while one begins: " if begins else "beside no flush: "
        parted[""].append(sample.took_ms)
        parted[when].append(sample.took_ms)
    found: dict[str, float] = {}
    for when, took_ms in parted.items():
        if took_ms:
            found |= Percentiles.of(took_ms).figures(when)
    return found
