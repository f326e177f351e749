"""A flush, cold and warm, next to the bare driver writing as many rows of the same size: on one node and on three.

Then a flush of links whose hits have attributes, next to one of counts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import mean
from threading import Semaphore
from time import perf_counter, process_time, time

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile

from bench.cassandra.node import make_keyspace
from bench.command import Options
from bench.inside import Owned, Spent, reader_of
from bench.measure import Beside, Figures
from bench.micro.attributes import NOW, link_batches
from bench.micro.growth import moments
from bench.rows import row_of
from bench.servers import used_s
from bench.workload import ATTRIBUTES, DIMENSIONS, Visitors
from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, fold_day
from ingest.attributes.profile import NO_DIMENSIONS
from ingest.batch import Batch
from storage.cassandra.uri import Address, parse
from storage.from_uri import open_store
from testing.cassandra.node import Node

KEYS, KEYS_OF_RING, KEYS_WITH_ATTRIBUTES = 30_000, 6_000, 10_000
WRITE = "UPDATE rows USING TIMESTAMP ? SET data = ? WHERE short_key = ? AND owner = 1"
STAMP = 1  # below all that an owner writes
MEMORIES = {"all in memory": "", "none in memory": "?row_cache_mib=0"}


def flush(nodes: Sequence[Node], options: Options) -> Iterator[Beside]:
    """30,000 links on one node, 6,000 on three: the bare driver, a flush with rows in memory, one without, in turn."""
    keys = KEYS if len(nodes) == 1 else KEYS_OF_RING
    uri = make_keyspace(nodes, "flushes")
    now, hits_of = int(time()) // 60 * 60, moments(110)
    rows = {f"f{n:05d}": encode(row_of(hits_of(n, now), day=fold_day(now), mark=1)) for n in range(options.of(keys))}
    write_all = partial(options.closing.enter_context(_bare_driver(parse(uri))), rows)
    write_all()
    turns = {"bare driver": lambda: _cost(nodes, write_all)}
    for memory, query in MEMORIES.items():
        turns[f"flush, {memory}"] = _flushes(nodes, uri + query, now, [Batch({now: dict.fromkeys(rows, 1)})], options)
    aims = {"flush, all in memory": "<= 0.7 times", "flush, none in memory": "<= 1.0 times"}
    where = "" if len(nodes) == 1 else f", {len(nodes)} replicas"
    yield Beside(
        f"rows of {len(rows):,} links of {mean(map(len, rows.values())):.0f} B{where}",
        turns,
        aims,
        min(options.rounds, 3),
    )


def attributes(nodes: Sequence[Node], options: Options) -> Iterator[Beside]:
    """Links with two hits each, with and without three dimensions, in turn; their rows in memory, then not."""
    links, visitors = options.of(KEYS_WITH_ATTRIBUTES), Visitors()
    readers = {"counts alone": NO_DIMENSIONS, "3 dimensions": reader_of(*DIMENSIONS[:3])}
    for number, (memory, query) in enumerate(MEMORIES.items()):
        turns = {}
        for kind, (what, reader) in enumerate(readers.items()):
            uri = make_keyspace(nodes, f"attributes{kind}_{number}") + query
            turns[what] = _flushes(nodes, uri, NOW, link_batches(visitors, links, ATTRIBUTES, reader), options)
        yield Beside(f"flush of {links:,} links, {memory}", turns, rounds=min(options.rounds, 3))


def _flushes(
    nodes: Sequence[Node], uri: str, now: int, batches: Sequence[Batch], options: Options
) -> Callable[[], Figures]:
    """Returns what counts these hits and flushes them, 15 seconds after the flush before; once they were flushed."""
    number = len(list(options.folder.iterdir()))
    owned = Owned(options.folder / f"owner{number}", open_store(uri, CLICKS), now, alone=False)
    options.closing.callback(owned.close)
    owned.flush()  # claims the owner

    def flush() -> Figures:
        owned.now += 15
        owned.take(*batches)
        before = owned.store.measures()["store_requests_total"]
        figures = _cost(nodes, owned.flush)
        return {**figures, "{} requests": owned.store.measures()["store_requests_total"] - before}

    flush()  # makes the rows
    return flush


def _cost(nodes: Sequence[Node], work: Callable[[], Spent]) -> Figures:
    """Does a piece of work; returns what it cost this process and the nodes."""
    before = sum(used_s(node.pid) for node in nodes)
    spent = work()
    nodes_s = sum(used_s(node.pid) for node in nodes) - before
    return {"{} s": spent.wall_s, "processor {} s": spent.processor_s, "nodes {} s": nodes_s}


@contextmanager
def _bare_driver(address: Address) -> Iterator[Callable[[Mapping[str, bytes]], Spent]]:
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

            processor, wall = process_time(), perf_counter()
            for key, data in rows.items():
                gate.acquire()
                session.execute_async(prepared, (STAMP, data, key)).add_callbacks(lambda _: gate.release(), lost)
            for _ in range(address.in_flight):
                gate.acquire()
            if failed:
                raise failed[0]
            return Spent(process_time() - processor, perf_counter() - wall)

        yield write_all
    finally:
        cluster.shutdown()
