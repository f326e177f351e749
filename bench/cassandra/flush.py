"""A flush of 30,000 links on one node, cold and warm, next to the bare driver writing as many rows of the same size."""

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

from bench.cassandra.node import make_keyspace
from bench.table import Line, spread
from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.row import EMPTY, Delta, apply
from ingest.batch import Batch
from storage.cassandra.uri import Address, parse
from storage.from_uri import open_store
from testing.cassandra.node import Node
from testing.owner_process import OwnerProcess, TrackedDisk

KEYS = 30_000
WRITE = "UPDATE rows USING TIMESTAMP ? SET data = ? WHERE short_key = ? AND owner = 1"
STAMP = 1  # below all that an owner writes


@dataclass(frozen=True, slots=True)
class Flushed:
    """One flush, or one run of the bare driver: how long it took, and with how many requests."""

    took_s: float
    requests: int


def flushes(node: Node, folder: Path, rounds: int) -> list[Line]:
    """A flush of a store that was just opened; then the bare driver and a flush with its rows in memory, in turn."""
    uri = make_keyspace(node, "flushes")
    now = int(time()) // 60 * 60
    rows = _rows(now)
    with _bare(parse(uri)) as write_all:
        write_all(rows)
        cold, runs = asyncio.run(_flushes(uri, folder, list(rows), now, rounds, lambda: write_all(rows)))
    bares, warms = [bare for bare, _ in runs], [warm for _, warm in runs]
    what = f"{KEYS:,} links of {mean(map(len, rows.values())):.0f} B"
    bare_s = median(bare.took_s for bare in bares)
    return [
        Line(f"bare driver writes rows of {what}", f"{bare_s:.2f} s", _rate(bares)),
        _line(f"flush of {what}, all in memory", warms, median(w.took_s / b.took_s for b, w in runs)),
        _line(f"flush of {what}, none in memory", [cold], cold.took_s / bare_s),
    ]


def _line(what: str, runs: Sequence[Flushed], ratio: float) -> Line:
    requests = f"{runs[0].requests / KEYS:.1f} requests a link"
    compared = f"{ratio:.1f} times the bare driver, {requests}, {_rate(runs)}"
    return Line(what, f"{median(run.took_s for run in runs):.2f} s", compared)


def _rate(runs: Sequence[Flushed]) -> str:
    took_s = [run.took_s for run in runs]
    apart = f"rounds within {spread(took_s)}" if len(runs) > 1 else "one run"
    return f"{KEYS / median(took_s):,.0f} links/s, {apart}"


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


async def _flushes(
    uri: str, folder: Path, keys: Sequence[str], now: int, rounds: int, bare: Callable[[], Flushed]
) -> tuple[Flushed, list[tuple[Flushed, Flushed]]]:
    """The first flush of an owner after its start; then the bare driver and another flush of these links, in turn."""
    moment = float(now)
    store = open_store(uri, CLICKS)
    owner = OwnerProcess(folder / "flushes", store, lambda: moment, alone=False, disk=TrackedDisk()).owner

    async def flush() -> Flushed:
        nonlocal moment
        moment += 15
        await owner.accept(Batch(people={now: dict.fromkeys(keys, 1)}))
        before, begun = store.measures()["store_requests_total"], perf_counter()
        await owner.flush()
        return Flushed(perf_counter() - begun, int(store.measures()["store_requests_total"] - before))

    try:
        await owner.flush()  # claims the owner
        cold = await flush()
        runs = [(bare(), await flush()) for _ in range(rounds)]
        await owner.close()
    finally:
        store.close()
    return cold, runs


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
