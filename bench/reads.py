"""Reading 100,000 links over HTTP: quiet, and while a flush of 30,000 keys runs; also the size of what is stored."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from time import sleep, time

from bench import servers
from bench.command import Options
from bench.connection import Connection, Sample, request
from bench.measure import Line, Percentiles, in_turn, spread
from bench.workload import Workload, batch
from bench.wrk import Requests, drive
from testing.client import Clickcurve

NDJSON = {"Content-Type": "application/x-ndjson"}
QUERIES = {
    "total": "total",
    "curve 60 min": "curve?last=60m&step=1m",
    "curve 24 h": "curve?last=24h",
    "curve 30 d": "curve?last=30d",
    "curve 12 mo": "curve?last=12mo",
}
AIM, FLUSH_AIM = "p50 < 0.4 p99 < 1.0 ms", 3.0
FILE_AIM_MB = 7.0
FLUSH_KEYS = 30_000
FLUSH_WITHIN_S, LOADED_WITHIN_S = 60, 600  # an interval of 15 seconds, and the flush; a whole workload
POST = "POST /v1/hits/{key}"


def reads(options: Options) -> Iterator[Line]:
    """The size of the file; p50 and p99 of each query at one connection, quiet and beside flushes."""
    folder, workload, rounds = options.folder, options.workload(), min(options.rounds, 3)
    yield loaded(folder / "data", workload)
    with servers.clickcurve(folder / "data") as server:
        for what, requests in queries_of(folder, workload).items():
            (runs,) = in_turn(rounds, partial(drive, server.url, requests, 1, options.seconds))
            within = f"p99 within {spread([run.took.p99_ms for run in runs])}"
            compared = f"{median(run.per_s for run in runs):,.0f} /s, {within}"
            yield Line(f"{what}, c1, quiet", str(Percentiles.middle(run.took for run in runs)), compared, AIM)
        with Clickcurve(server.url) as client, closing(Connection(server.port)) as connection:
            turns = _turns(workload)
            flushes, samples = sampled(client, connection, workload, rounds, partial(_send_hits, client), turns)
    took_s, rows = median(flush.took_s for flush in flushes), flushes[0].rows
    yield Line(f"flush of {rows:,} rows", f"{took_s:.2f} s", f"{rows / took_s:,.0f} rows/s, next to requests at c1")
    yield from (compared_with_quiet(kind, flushes, samples) for kind in (POST, *QUERIES))


def queries_of(folder: Path, workload: Workload) -> dict[str, Requests]:
    """Returns the requests of each query, keys by popularity."""
    keys, named = workload.draw(5_000, seed=2), {}
    for what, query in QUERIES.items():
        paths = (f"/v1/links/{key}/{query}" for key in keys)
        named[what] = Requests.paths("GET", folder / f"{what.replace(' ', '-')}.txt", paths)
    return named


def loaded(data: Path, workload: Workload) -> Line:
    """Copies the loaded store into a part's folder, and loads it first if no part of this run did; returns its size."""
    kept = data.parent.parent / f"loaded-{workload.links}-{workload.hits}-{workload.skew}"
    done = kept.with_suffix(".took")
    if not done.exists():
        begun = time()
        with servers.clickcurve(kept, {"CLICKCURVE_FLUSH_S": "1"}) as server:
            post_all(server.url, workload)
        done.write_text(f"{time() - begun:.0f}")
    shutil.copytree(kept, data)
    size_mb = sum(file.stat().st_size for file in data.glob("clickcurve.db*")) / 1e6
    a_link = (data / "clickcurve.db").stat().st_size / workload.links
    what = f"file of {workload.links:,} links, {workload.hits:,} hits, {workload.days} days"
    compared = f"{a_link:.0f} B a link; loaded in {done.read_text()} s"
    return Line(what, f"{size_mb:.2f} MB", compared, f"<= {FILE_AIM_MB:.0f} MB")


def post_all(url: str, workload: Workload) -> None:
    """Posts the whole workload; returns when all of it is in the store. Raises RuntimeError if it is not all there."""
    until = time() + LOADED_WITHIN_S
    with Clickcurve(url) as client:
        for body in workload.bodies(100_000):
            post(client, body)
        while client.metric("clickcurve_buffered_entries"):
            if time() > until:
                raise RuntimeError(f"{workload.hits:,} hits were not flushed within {LOADED_WITHIN_S} s")
            sleep(0.2)
        total = client.total()["total"]
    if total != workload.hits:
        raise RuntimeError(f"{workload.hits} hits were posted, {total} counted")


def post(client: Clickcurve, body: bytes) -> None:
    """Posts one batch; a server that is behind counted nothing and is asked again after a moment."""
    while (answer := client.send_body(body, NDJSON)).status_code in (429, 503):
        sleep(0.1)
    answer.raise_for_status()


def _send_hits(client: Clickcurve, keys: list[str]) -> None:
    post(client, "\n".join(batch(keys, int(time()))).encode())


@dataclass(frozen=True, slots=True)
class Flush:
    """A flush as the server tells it: when it began (epoch seconds), how long it took, how many rows it wrote."""

    begun_at: float
    took_s: float
    rows: int

    @classmethod
    def last(cls, client: Clickcurve) -> Flush:
        names = ("clickcurve_flush_at_seconds", "clickcurve_flush_seconds", "clickcurve_flush_rows")
        begun_at, took_s, rows = map(client.metric, names)
        return cls(begun_at, took_s, int(rows))

    def holds(self, at: float) -> bool:
        return self.begun_at <= at < self.begun_at + self.took_s


def sampled(
    client: Clickcurve,
    connection: Connection,
    workload: Workload,
    rounds: int,
    send: Callable[[list[str]], None],
    turns: Sequence[tuple[str, bytes]],
) -> tuple[list[Flush], list[Sample]]:
    """Has FLUSH_KEYS different keys sent and flushed, round by round; returns the flushes, and requests meanwhile."""
    flushes: list[Flush] = []
    samples: list[Sample] = []
    keys = min(FLUSH_KEYS, workload.links)
    requests = cycle(turns)
    for number in range(rounds):
        send(workload.distinct(keys, seed=50 + number))
        sent_at = time()
        gc.disable()
        while not flushes or flushes[-1].begun_at < sent_at:
            samples += [connection.time(*next(requests)) for _ in range(1_200)]
            last = Flush.last(client)
            if time() > sent_at + FLUSH_WITHIN_S:
                raise RuntimeError(f"{keys} keys were not flushed within {FLUSH_WITHIN_S} s")
            if last.begun_at >= sent_at and last.rows >= keys:
                flushes.append(last)
        gc.enable()
    return flushes, samples


def compared_with_quiet(kind: str, flushes: Sequence[Flush], samples: Sequence[Sample]) -> Line:
    """Returns the percentiles of the requests of a kind during these flushes, beside those outside of them."""
    parted: dict[bool, list[float]] = {True: [], False: []}
    for sample in samples:
        if sample.kind == kind:
            parted[any(flush.holds(sample.at) for flush in flushes)].append(sample.took_ms)
    if min(map(len, parted.values())) < 20:
        raise RuntimeError(f"only {len(parted[True])} requests fell into flushes, {len(parted[False])} beside them")
    during, quiet = Percentiles.of(parted[True]), Percentiles.of(parted[False])
    beside = f"{during.p99_ms / quiet.p99_ms:.1f} times the p99 outside flushes ({quiet})"
    aim = f"p99 < {FLUSH_AIM:.0f} times" if kind == POST else ""
    return Line(f"{kind}, c1, during a flush", str(during), beside, aim)


def _turns(workload: Workload) -> list[tuple[str, bytes]]:
    """Returns requests of every kind in turn, keys by popularity."""
    turns = []
    for key in workload.draw(4_000, seed=3):
        turns.append((POST, request("POST", f"/v1/hits/{key}")))
        turns += [(what, request("GET", f"/v1/links/{key}/{query}")) for what, query in QUERIES.items()]
    return turns
