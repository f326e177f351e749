"""Reading 100,000 links over HTTP: quiet, and while a flush of 30,000 keys runs; also the size of what is stored."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles
from time import sleep, time

from bench import servers
from bench.connection import Connection, Sample, request
from bench.measure import Line, spread
from bench.workload import Workload, batch
from bench.wrk import Requests, drive
from testing.client import Clickcurve
from testing.server import RunningServer

NDJSON = {"Content-Type": "application/x-ndjson"}
QUERIES = {
    "total": "total",
    "curve 60 min": "curve?last=60m&step=1m",
    "curve 24 h": "curve?last=24h",
    "curve 30 d": "curve?last=30d",
    "curve 12 mo": "curve?last=12mo",
}
P50_AIM_MS, P99_AIM_MS, FLUSH_AIM = 0.4, 1.0, 3.0
FILE_AIM_MB = 7.0
FLUSH_KEYS = 30_000
FLUSH_WITHIN_S = 60  # an interval of 15 seconds, and the flush
POST = "POST /v1/hits/{key}"


def load(data: Path, workload: Workload) -> list[Line]:
    """Post the whole workload to a fresh server and stop it, unless the folder is loaded already; the file's size."""
    done = data.parent / f"{data.name}.loaded"
    if not done.exists():
        begun = time()
        with servers.clickcurve(data, settings={"CLICKCURVE_FLUSH_S": "1"}) as server, Clickcurve(server.url) as client:
            for body in workload.bodies(100_000):
                post(client, body)
            while client.metric("clickcurve_buffered_entries"):
                sleep(0.2)
            total = client.total()["total"]
        if total != workload.hits:
            raise RuntimeError(f"{workload.hits} hits were posted, {total} counted")
        done.write_text(f"{time() - begun:.0f}\n")
    database = data / "clickcurve.db"
    size_mb = sum(file.stat().st_size for file in data.glob("clickcurve.db*")) / 1e6
    what = f"file of {workload.links:,} links, {workload.hits:,} hits, {workload.days} days"
    compared = f"{database.stat().st_size / workload.links:.0f} B a link; loaded in {done.read_text().strip()} s"
    return [Line(what, f"{size_mb:.2f} MB", compared, f"<= {FILE_AIM_MB:.0f} MB")]


def post(client: Clickcurve, body: bytes) -> None:
    """One batch; a server that is behind counted nothing and is asked again after a moment."""
    while (answer := client.send_body(body, NDJSON)).status_code in (429, 503):
        sleep(0.1)
    answer.raise_for_status()


def quiet(folder: Path, server: RunningServer, workload: Workload, rounds: int, seconds: int) -> list[Line]:
    """p50 and p99 of each query at one connection, keys by popularity."""
    lines = []
    keys = workload.draw(5_000, seed=2)
    for what, query in QUERIES.items():
        paths = folder / f"{what.replace(' ', '-')}.txt"
        paths.write_text("".join(f"/v1/links/{key}/{query}\n" for key in keys))
        runs = [drive(server.url, Requests.paths("GET", paths), 1, seconds) for _ in range(rounds)]
        p50s, p99s = [run.p50_ms for run in runs], [run.p99_ms for run in runs]
        figure = f"p50 {median(p50s):.2f} p99 {median(p99s):.2f} ms"
        compared = f"{median(run.per_s for run in runs):,.0f} /s, p99 within {spread(p99s)}"
        lines.append(Line(f"{what}, c1, quiet", figure, compared, f"p50 < {P50_AIM_MS} p99 < {P99_AIM_MS} ms"))
    return lines


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


def during_flush(server: RunningServer, workload: Workload, rounds: int) -> list[Line]:
    """p99 of POST and queries while a flush of 30,000 keys runs, next to the same requests outside of flushes."""
    with Clickcurve(server.url) as client, Connection(server.port) as connection:

        def send(keys: list[str]) -> None:
            post(client, "\n".join(batch(keys, int(time()))).encode())

        flushes, samples = sampled(client, connection, workload, rounds, send, _turns(workload))
    return [_flush_line(flushes), *(compared(kind, flushes, samples) for kind in (POST, *QUERIES))]


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
    in_turn = cycle(turns)
    for number in range(rounds):
        send(workload.distinct(keys, seed=50 + number))
        sent_at = time()
        gc.disable()
        while not flushes or flushes[-1].begun_at < sent_at:
            samples += [connection.time(*next(in_turn)) for _ in range(1_200)]
            found = Flush.last(client)
            if time() > sent_at + FLUSH_WITHIN_S:
                raise RuntimeError(f"{keys} keys were not flushed within {FLUSH_WITHIN_S} s")
            if found.begun_at >= sent_at and found.rows >= keys:
                flushes.append(found)
        gc.enable()
    return flushes, samples


def _flush_line(flushes: list[Flush]) -> Line:
    took_s, rows = median(flush.took_s for flush in flushes), flushes[0].rows
    return Line(f"flush of {rows:,} rows", f"{took_s:.2f} s", f"{rows / took_s:,.0f} rows/s, next to requests at c1")


def compared(kind: str, flushes: list[Flush], samples: list[Sample]) -> Line:
    """Returns the percentiles of the requests of a kind during these flushes, beside those outside of them."""
    during = [sample.took_ms for sample in samples if sample.kind == kind and _in_any(flushes, sample)]
    outside = [sample.took_ms for sample in samples if sample.kind == kind and not _in_any(flushes, sample)]
    (p50, p99), (quiet_p50, quiet_p99) = percentiles(during), percentiles(outside)
    beside = f"{p99 / quiet_p99:.1f} times the p99 outside flushes (p50 {quiet_p50:.2f} p99 {quiet_p99:.2f} ms)"
    aim = f"p99 < {FLUSH_AIM:.0f} times" if kind == POST else ""
    return Line(f"{kind}, c1, during a flush", f"p50 {p50:.2f} p99 {p99:.2f} ms", beside, aim)


def _in_any(flushes: list[Flush], sample: Sample) -> bool:
    return any(flush.holds(sample.at) for flush in flushes)


def percentiles(values_ms: list[float]) -> tuple[float, float]:
    """Returns p50 and p99."""
    if len(values_ms) < 20:
        raise RuntimeError(f"only {len(values_ms)} requests fell there: no percentiles")
    cuts = quantiles(values_ms, n=100)
    return cuts[49], cuts[98]


def _turns(workload: Workload) -> list[tuple[str, bytes]]:
    """Requests of every kind in turn, keys by popularity."""
    turns = []
    for key in workload.draw(4_000, seed=3):
        turns.append((POST, request("POST", f"/v1/hits/{key}")))
        turns += [(what, request("GET", f"/v1/links/{key}/{query}")) for what, query in QUERIES.items()]
    return turns
