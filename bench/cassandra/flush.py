"""A flush, cold and warm, next to the bare driver writing as many rows of the same size: on one node and on three.

Then a flush of links whose hits have attributes, next to one of counts alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import sub
from pathlib import Path
from random import Random
from statistics import mean, median
from threading import Semaphore
from time import perf_counter, process_time, time
from typing import NamedTuple

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile

from bench.cassandra.node import make_keyspace
from bench.command import Options
from bench.measure import Line, in_turn, spread, times
from bench.micro.attributes import ALL, DIMENSIONS, NOW, link_batches, reader_of
from bench.micro.rows import row_of
from bench.servers import used_s
from bench.visitors import Visitors
from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from ingest.attributes.profile import NO_DIMENSIONS
from ingest.batch import Batch
from storage.cassandra.uri import Address, parse
from storage.from_uri import open_store
from testing.cassandra.node import Node
from testing.owner_process import OwnerProcess, TrackedDisk

KEYS, KEYS_OF_RING, KEYS_WITH_ATTRIBUTES = 30_000, 6_000, 10_000
WRITE = "UPDATE rows USING TIMESTAMP ? SET data = ? WHERE short_key = ? AND owner = 1"
STAMP = 1  # below all that an owner writes
NO_MEMORY = "?row_cache_mib=0"


class Spent(NamedTuple):
    """What a piece of work costs on a cluster: time, requests, processor time of this process and of the nodes."""

    took_s: float
    requests: float
    process_s: float
    nodes_s: float

    @classmethod
    def until_now(cls, nodes: Sequence[Node], requests: float = 0.0) -> Spent:
        return cls(perf_counter(), requests, process_time(), sum(used_s(node.pid) for node in nodes))

    def since(self, before: Spent) -> Spent:
        return Spent(*map(sub, self, before))


def _middle(runs: Sequence[Spent]) -> Spent:
    return Spent(*map(median, zip(*runs, strict=True)))


def _times(of: Sequence[Spent], beside: Sequence[Spent]) -> Spent:
    """Returns the medians of how many times a run cost what the run beside it did."""
    return Spent(*map(times, zip(*of, strict=True), zip(*beside, strict=True)))


class Flusher:
    """An owner with a store of its own, and what its flushes cost."""

    def __init__(self, nodes: Sequence[Node], uri: str, folder: Path, now: float, closing: ExitStack) -> None:
        self._nodes, self._now = nodes, now
        self._store = open_store(uri, CLICKS)
        closing.callback(self._store.close)
        self._run = closing.enter_context(asyncio.Runner()).run
        clock = lambda: self._now  # noqa: E731
        self._owner = OwnerProcess(folder, self._store, clock, alone=False, disk=TrackedDisk()).owner
        closing.callback(lambda: self._run(self._owner.close()))

    def flush(self, batches: Sequence[Batch]) -> Spent:
        """Accepts these and flushes them, 15 seconds after the flush before."""
        self._now += 15
        return self._run(self._flush(batches))

    async def _flush(self, batches: Sequence[Batch]) -> Spent:
        for batch in batches:
            await self._owner.accept(batch)
        before = self._spent()
        await self._owner.flush()
        return self._spent().since(before)

    def _spent(self) -> Spent:
        return Spent.until_now(self._nodes, self._store.measures()["store_requests_total"])


def flush(nodes: Sequence[Node], options: Options) -> Iterator[Line]:
    """30,000 links on one node, 6,000 on three: the bare driver, a flush with rows in memory, one without, in turn."""
    keys = KEYS if len(nodes) == 1 else KEYS_OF_RING
    uri = make_keyspace(nodes, "flushes")
    now = int(time()) // 60 * 60
    rows = _rows(now, options.of(keys))
    batches = [Batch(people={now: dict.fromkeys(rows, 1)})]
    with ExitStack() as closing:
        write_all = partial(closing.enter_context(_bare(nodes, parse(uri))), rows)
        write_all()
        flushers = [
            Flusher(nodes, uri + memory, options.folder / f"flushes{number}", float(now), closing)
            for number, memory in enumerate(("", NO_MEMORY))
        ]
        for each in flushers:
            each.flush([])  # claims the owner
            each.flush(batches)  # makes its rows
        turns = [write_all, *(partial(each.flush, batches) for each in flushers)]
        bare, warm, cold = in_turn(min(options.rounds, 3), *turns)
    what = f"{len(rows):,} links of {mean(map(len, rows.values())):.0f} B"
    where = "" if len(nodes) == 1 else f", {len(nodes)} replicas"
    yield Line(f"bare driver writes rows of {what}{where}", f"{_middle(bare).took_s:.2f} s", _apart(bare))
    for memory, runs, aim in (("all", warm, "0.7"), ("none", cold, "1.0")):
        ratio = f"{_times(runs, bare).took_s:.2f} times the bare driver, {runs[0].requests:,.0f} requests"
        took = f"{_middle(runs).took_s:.2f} s"
        yield Line(f"flush of {what}{where}, {memory} in memory", took, f"{ratio}, {_apart(runs)}", f"<= {aim} of it")


def _apart(runs: Sequence[Spent]) -> str:
    spent = _middle(runs)
    within = f"rounds within {spread([run.took_s for run in runs])}"
    return f"{within}, processor {spent.process_s:.1f} s, nodes {spent.nodes_s:.1f} s"


def _rows(now: int, keys: int) -> dict[str, bytes]:
    """Returns so many packed rows of links with some traffic: today's, the last weeks' and the last year's."""
    chance = Random(4)
    rows = {}
    for number in range(keys):
        ages_s = [chance.randrange(DAY_S // 2) for _ in range(20)]
        ages_s += [chance.randrange(DAY_S, 30 * DAY_S) for _ in range(60)]
        ages_s += [chance.randrange(30 * DAY_S, 360 * DAY_S) for _ in range(30)]
        hits = {(now - age_s) // 60 * 60: chance.randint(1, 9) for age_s in ages_s}
        rows[f"f{number:05d}"] = encode(row_of(hits, day=fold_day(now), mark=1))
    return rows


@contextmanager
def _bare(nodes: Sequence[Node], address: Address) -> Iterator[Callable[[Mapping[str, bytes]], Spent]]:
    """Yields what writes rows by the driver alone, with as many requests in flight as the store has."""
    profile = ExecutionProfile(consistency_level=ConsistencyLevel.QUORUM)
    profiles = {EXEC_PROFILE_DEFAULT: profile}
    cluster = Cluster(address.hosts, port=address.port, execution_profiles=profiles, protocol_version=5)
    try:
        session = cluster.connect(address.keyspace)
        prepared = session.prepare(WRITE)

        def write_all(rows: Mapping[str, bytes]) -> Spent:
            gate, failed = Semaphore(address.in_flight), list[Exception]()

            def lost(error: Exception) -> None:
                failed.append(error)
                gate.release()

            before = Spent.until_now(nodes)
            for key, data in rows.items():
                gate.acquire()
                session.execute_async(prepared, (STAMP, data, key)).add_callbacks(lambda _: gate.release(), lost)
            for _ in range(address.in_flight):
                gate.acquire()
            if failed:
                raise failed[0]
            return Spent.until_now(nodes).since(before)

        yield write_all
    finally:
        cluster.shutdown()


def attributes(nodes: Sequence[Node], options: Options) -> Iterator[Line]:
    """Links with two hits each, with and without three dimensions, in turn; their rows in memory, then not."""
    links, visitors = options.of(KEYS_WITH_ATTRIBUTES), Visitors()
    readers = (NO_DIMENSIONS, reader_of(*DIMENSIONS[:3]))
    batches = [link_batches(visitors, links, ALL, reader) for reader in readers]
    for number, (memory, query) in enumerate((("all in memory", ""), ("none in memory", NO_MEMORY))):
        with ExitStack() as closing:
            turns = []
            for kind, some in enumerate(batches):
                name = f"attributes{kind}_{number}"
                uri = make_keyspace(nodes, name) + query
                turns.append(partial(Flusher(nodes, uri, options.folder / name, float(NOW), closing).flush, some))
            in_turn(1, *turns)  # makes the rows
            beside, runs = in_turn(min(options.rounds, 3), *turns)
        more, spent = _times(runs, beside), _middle(runs)
        requests = f"requests {spent.requests:,.0f} beside {_middle(beside).requests:,.0f}"
        process = f"processor {more.process_s:.1f} times ({spent.process_s:.2f} s)"
        of_node = f"of the node {more.nodes_s:.1f} times ({spent.nodes_s:.2f} s)"
        compared = f"{more.took_s:.1f} times counts alone; {requests}; {process}, {of_node}"
        yield Line(f"flush of {links:,} links with 3 dimensions, {memory}", f"{spent.took_s:.2f} s", compared)
