"""A flush, cold and warm, next to the bare driver writing as many rows of the same size: on one node and on three."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import mean
from threading import Semaphore
from time import time

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile

from bench.cassandra.attributes import requests_of
from bench.cassandra.node import make_keyspace
from bench.cassandra.spent import Spent, middle, spending, times
from bench.measure import Line, spread
from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.row import EMPTY, Delta, apply
from ingest.batch import Batch
from storage.cassandra.uri import Address, parse
from storage.from_uri import open_store
from testing.cassandra.node import Node
from testing.owner_process import OwnerProcess, TrackedDisk

KEYS, KEYS_OF_RING = 30_000, 6_000
WRITE = "UPDATE rows USING TIMESTAMP ? SET data = ? WHERE short_key = ? AND owner = 1"
STAMP = 1  # below all that an owner writes


def flushes(nodes: Sequence[Node], folder: Path, rounds: int, keys: int) -> list[Line]:
    """The bare driver, a flush with its rows in memory, and one without, in turn; a replica on each node."""
    uri = make_keyspace(nodes[0], "flushes", nodes)
    now = int(time()) // 60 * 60
    rows = _rows(now, keys)
    bare: list[Spent] = []
    with _bare(nodes, parse(uri), bare) as write_all:
        write_all(rows)
        bare.clear()
        warm, cold = asyncio.run(_flushes(nodes, uri, folder, list(rows), now, rounds, lambda: write_all(rows)))
    what = f"{keys:,} links of {mean(map(len, rows.values())):.0f} B"
    where = "" if len(nodes) == 1 else f", {len(nodes)} replicas"
    return [
        Line(f"bare driver writes rows of {what}{where}", f"{middle(bare).took_s:.2f} s", _apart(bare)),
        _line(f"flush of {what}{where}, all in memory", warm, bare, "0.7"),
        _line(f"flush of {what}{where}, none in memory", cold, bare, "1.0"),
    ]


def _apart(runs: Sequence[Spent]) -> str:
    spent = middle(runs)
    within = f"rounds within {spread([run.took_s for run in runs])}"
    return f"{within}, processor {spent.process_s:.1f} s, nodes {spent.nodes_s:.1f} s"


def _line(what: str, runs: Sequence[Spent], bare: Sequence[Spent], aim: str) -> Line:
    ratio = f"{times(runs, bare).took_s:.2f} times the bare driver, {runs[0].requests:,.0f} requests"
    return Line(what, f"{middle(runs).took_s:.2f} s", f"{ratio}, {_apart(runs)}", f"<= {aim} of it")


def _rows(now: int, keys: int) -> dict[str, bytes]:
    """So many packed rows of links with some traffic: today's, the last weeks' and the last year's."""
    chance = Random(4)
    rows = {}
    for number in range(keys):
        ages_s = [chance.randrange(DAY_S // 2) for _ in range(20)]
        ages_s += [chance.randrange(DAY_S, 30 * DAY_S) for _ in range(60)]
        ages_s += [chance.randrange(30 * DAY_S, 360 * DAY_S) for _ in range(30)]
        hits = {(now - age_s) // 60 * 60: chance.randint(1, 9) for age_s in ages_s}
        rows[f"f{number:05d}"] = encode(apply(EMPTY, Delta(hits, {}), 1, fold_day(now), 0, CLICKS))
    return rows


async def _flushes(
    nodes: Sequence[Node], uri: str, folder: Path, keys: Sequence[str], now: int, rounds: int, bare: Callable[[], None]
) -> tuple[list[Spent], list[Spent]]:
    """The bare driver, a flush of an owner that has the rows in memory, and of one that keeps none, in turn."""
    moment = float(now)
    stores = [open_store(uri, CLICKS), open_store(f"{uri}?row_cache_mib=0", CLICKS)]
    runs: tuple[list[Spent], list[Spent]] = ([], [])
    owners = [
        OwnerProcess(folder / f"flushes-{number}", store, lambda: moment, alone=False, disk=TrackedDisk()).owner
        for number, store in enumerate(stores)
    ]

    async def flush(number: int) -> None:
        nonlocal moment
        moment += 15
        await owners[number].accept(Batch(people={now: dict.fromkeys(keys, 1)}))
        with spending(nodes, lambda: requests_of(stores[number]), runs[number]):
            await owners[number].flush()

    try:
        for number, owner in enumerate(owners):
            await owner.flush()  # claims the owner
            await flush(number)  # makes its rows
        for _ in range(rounds):
            bare()
            await flush(0)
            await flush(1)
        for owner in owners:
            await owner.close()
    finally:
        for store in stores:
            store.close()
    return runs[0][1:], runs[1][1:]


@contextmanager
def _bare(
    nodes: Sequence[Node], address: Address, into: list[Spent]
) -> Iterator[Callable[[Mapping[str, bytes]], None]]:
    """What the driver alone needs to write rows, with as many requests in flight as the store has."""
    profile = ExecutionProfile(consistency_level=ConsistencyLevel.QUORUM)
    cluster = Cluster(
        address.hosts, port=address.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, protocol_version=5
    )
    try:
        session = cluster.connect(address.keyspace)
        prepared = session.prepare(WRITE)

        def write_all(rows: Mapping[str, bytes]) -> None:
            gate, failed = Semaphore(address.in_flight), list[Exception]()

            def lost(error: Exception) -> None:
                failed.append(error)
                gate.release()

            with spending(nodes, lambda: 0, into):
                for key, data in rows.items():
                    gate.acquire()
                    session.execute_async(prepared, (STAMP, data, key)).add_callbacks(lambda _: gate.release(), lost)
                for _ in range(address.in_flight):
                    gate.acquire()
            if failed:
                raise failed[0]

        yield write_all
    finally:
        cluster.shutdown()
