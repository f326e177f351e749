"""A flush of 30,000 links on one node, cold and warm, beside the bare driver writing as many rows of the same size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean, median
from threading import Semaphore
from time import perf_counter, time

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile

from bench.cassandra_node import make_keyspace
from bench.table import Line, spread
from buckets.codec import encode
from buckets.ladder import CLICKS, DAY_S, fold_day
from buckets.row import EMPTY, Delta, apply
from ingest.batch import Batch
from storage.cassandra_uri import Address, parse
from storage.from_uri import open_store
from tests.cassandra.node import Node
from tests.ingest.world import Node as OwnerNode
from tests.ingest.world import TrackedDisk

KEYS = 30_000
WRITE = "UPDATE rows USING TIMESTAMP ? SET data = ? WHERE short_key = ? AND owner = 1"
STAMP = 1  # below all that an owner writes


@dataclass(frozen=True, slots=True)
class Flushed:
    """One flush, or one run of the bare driver: how long it took, and with how many requests."""

    took_s: float
    requests: int


def flushes(node: Node, folder: Path, rounds: int) -> list[Line]:
    """Each round: the bare driver, then a flush of a store that was just opened, then one whose rows are in memory."""
    uri = make_keyspace(node, "flushes")
    now = int(time()) // 60 * 60
    rows = _rows(now)
    runs: list[tuple[Flushed, Flushed, Flushed]] = []
    with _bare(parse(uri)) as write_all:
        for turn in range(rounds):
            bare = write_all(rows)
            cold, warm = asyncio.run(_owner_flushes(uri, folder / "journal", list(rows), now + 60 * turn))
            runs.append((bare, cold, warm))
    return list(_lines(runs, mean(map(len, rows.values()))))


def _lines(runs: Sequence[tuple[Flushed, Flushed, Flushed]], row_bytes: float) -> Iterator[Line]:
    names = ("bare driver, as many writes", "flush, rows not in memory", "flush, rows in memory")
    bares = [bare for bare, _, _ in runs]
    for name, column in zip(names, zip(*runs, strict=True), strict=True):
        took_s = [run.took_s for run in column]
        ratio = median(run.took_s / bare.took_s for run, bare in zip(column, bares, strict=True))
        requests = f"{column[0].requests / KEYS:.1f} requests a link"
        apart = f"{KEYS / median(took_s):,.0f} links/s, rounds within {spread(took_s)}"
        beside = f"{ratio:.1f} times the bare driver, {requests}, {apart}" if column[0] is not bares[0] else apart
        yield Line(f"{name}: {KEYS:,} links of {row_bytes:.0f} B", f"{median(took_s):.2f} s", beside)


def _rows(now: int) -> dict[str, bytes]:
    """30,000 packed rows of links with some traffic: today's, the last weeks' and the last year's."""
    chance = Random(4)
    rows = {}
    for number in range(KEYS):
        ages_s = [chance.randrange(DAY_S // 2) for _ in range(20)]
        ages_s += [chance.randrange(DAY_S, 30 * DAY_S) for _ in range(60)]
        ages_s += [chance.randrange(30 * DAY_S, 360 * DAY_S) for _ in range(30)]
        hits = {(now - age_s) // 60 * 60: chance.randint(1, 9) for age_s in ages_s}
        row = apply(EMPTY, Delta(hits, {}), 1, fold_day(now), 0, CLICKS)
        rows[f"f{number:05d}"] = encode(row)
    return rows


async def _owner_flushes(uri: str, folder: Path, keys: Sequence[str], now: int) -> tuple[Flushed, Flushed]:
    """The first flush of an owner after its start, and the second, of the same links."""
    moment = float(now)
    store = open_store(uri, str(CLICKS))
    try:
        owner = OwnerNode(folder, store, lambda: moment, alone=False, disk=TrackedDisk()).owner
        await owner.flush()  # claims the owner
        flushed = []
        for _ in range(2):
            await owner.accept(Batch(people={now: dict.fromkeys(keys, 1)}))
            before, begun = store.measures()["store_requests_total"], perf_counter()
            await owner.flush()
            took_s = perf_counter() - begun
            flushed.append(Flushed(took_s, int(store.measures()["store_requests_total"] - before)))
            moment += 15
        await owner.close()
    finally:
        store.close()
    return flushed[0], flushed[1]


@contextmanager
def _bare(address: Address) -> Iterator[Callable[[Mapping[str, bytes]], Flushed]]:
    """What the driver alone needs to write rows, with as many requests in flight as the store has."""
    profile = ExecutionProfile(consistency_level=ConsistencyLevel.QUORUM)
    cluster = Cluster(
        address.hosts, port=address.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, protocol_version=5
    )
    try:
        session = cluster.connect(address.keyspace)
        prepared = session.prepare(WRITE)

        def write_all(rows: Mapping[str, bytes]) -> Flushed:
            gate, failed = Semaphore(address.in_flight), list[Exception]()

            def ended(_: object) -> None:
                gate.release()

            def lost(error: Exception) -> None:
                failed.append(error)
                gate.release()

            begun = perf_counter()
            for key, data in rows.items():
                gate.acquire()
                session.execute_async(prepared, (STAMP, data, key)).add_callbacks(ended, lost)
            for _ in range(address.in_flight):
                gate.acquire()
            took_s = perf_counter() - begun
            if failed:
                raise failed[0]
            return Flushed(took_s, len(rows))

        yield write_all
    finally:
        cluster.shutdown()
