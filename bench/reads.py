"""Reading 100,000 links over HTTP: quiet, and while a flush of 30,000 keys runs; the size of what is stored; the page.

`reads` asks for totals and curves, `breakdowns` for attributes of hits, `page` for the page as browsers do.
"""

from __future__ import annotations

import gc
import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from time import perf_counter, sleep, time

import httpx

from bench import servers
from bench.command import Options
from bench.ingest import JSON, NDJSON
from bench.load import RATE, Connection, Sample, by_path, drive, request
from bench.measure import Beside, Figures, Line, Percentiles, ready
from bench.workload import ATTRIBUTES, Visitors, Workload, batch
from clickcurve.buckets.ladder import DAY_S
from testing.client import Clickcurve, http_client
from testing.server import RunningServer

QUERIES = {
    "total": "total",
    "curve 60 min": "curve?last=60m&step=1m",
    "curve 24 h": "curve?last=24h",
    "curve 30 d": "curve?last=30d",
    "curve 12 mo": "curve?last=12mo",
}
AIM, FLUSH_AIM = "p50 < 0.4 p99 < 1.0 ms", 3.0
FILE_AIM_MB = 7.0
BY = {"by ref, life": "by/ref", "by country, 30 d": "by/country?last=30d"}
ONCE = "by ref, life, 2,000 links once"  # what was asked before makes no difference: popular or not does
BY_AIM = "p50 < 1.0 p99 < 3.0 ms"
HITS_EACH, DAYS = 5, 60  # of a link with attributes, on average; popular ones have most of them
FLUSH_KEYS = 30_000
FLUSH_WITHIN_S, LOADED_WITHIN_S = 60, 600  # an interval of 15 seconds, and the flush; a whole workload
POST = "POST /v1/hits/{key}"


def reads(options: Options) -> Iterator[Beside | Line]:
    """The size of the file; p50 and p99 of each query at one connection, quiet and beside flushes."""
    folder, workload, rounds = options.folder, options.workload(), min(options.rounds, 3)
    yield loaded(folder / "data", workload)
    with servers.clickcurve(folder / "data") as server:
        for what, requests in queries_of(folder, workload).items():
            ask = partial(asked, server.url, requests, options.seconds)
            yield Beside(f"{what}, c1, quiet", {"": ask}, {"": AIM}, rounds)
        yield from _beside_flushes(server, workload, rounds, _send_plain, QUERIES)


def asked(url: str, requests: Path, seconds: float) -> Figures:
    """Asks one after the other for so long; returns how long it took."""
    run = drive(url, requests, 1, seconds)
    return {**run.took.figures(), RATE: run.per_s}


def queries_of(folder: Path, workload: Workload) -> dict[str, Path]:
    """Returns the requests of each query, keys by popularity."""
    keys, named = workload.draw(5_000, seed=2), {}
    for what, query in QUERIES.items():
        paths = (f"/v1/links/{key}/{query}" for key in keys)
        named[what] = by_path("GET", folder / f"{what.replace(' ', '-')}.txt", paths)
    return named


def loaded(data: Path, workload: Workload) -> Line:
    """Loads the store over HTTP; returns its size."""
    begun = time()
    with servers.clickcurve(data, {"CLICKCURVE_FLUSH_S": "1"}) as server:
        post_all(server.url, workload)
    took_s = time() - begun
    size_mb = sum(file.stat().st_size for file in data.glob("clickcurve.db*")) / 1e6
    a_link = (data / "clickcurve.db").stat().st_size / workload.links
    what = f"file of {workload.links:,} links, {workload.hits:,} hits, {workload.days} days"
    compared = f"{a_link:.0f} B a link; loaded in {took_s:.0f} s"
    return Line(what, f"{size_mb:.2f} MB", compared, f"<= {FILE_AIM_MB:.0f} MB")


def breakdowns(options: Options) -> Iterator[Beside | Line]:
    """Loads what visitors of popular links say, asks for it, and flushes more of it."""
    workload, rounds, send = options.workload(), min(options.rounds, 3), partial(_send_attributes, Visitors())
    with servers.clickcurve(options.folder / "data") as server, Clickcurve(server.url) as client:
        now, chance = int(time()), random.Random(3)
        for start in range(0, workload.links * HITS_EACH, 5_000):
            send(client, workload.draw(5_000, seed=1_000 + start), now - chance.randrange(DAYS * DAY_S))
        wait_flushed(client)
        with closing(Connection(server.port)) as connection:  # not before: while it loads, an idle one is closed
            popular, different = workload.draw(2_000, seed=4), workload.distinct(min(2_000, workload.links), seed=5)
            asked = [(what, query, rounds * popular) for what, query in BY.items()]
            for what, query, keys in (*asked, (ONCE, "by/ref", different)):
                took_ms = [connection.time(what, request("GET", f"/v1/links/{key}/{query}")).took_ms for key in keys]
                yield Line(f"{what}, c1, quiet", str(Percentiles.of(took_ms)), f"{len(took_ms):,} asked", BY_AIM)
        yield from _beside_flushes(server, workload, rounds, send, {})


def post_all(url: str, workload: Workload) -> None:
    """Posts the whole workload; returns when all of it is in the store. Raises RuntimeError if it is not all there."""
    with Clickcurve(url) as client:
        for body in workload.bodies(100_000):
            post(client, body)
        wait_flushed(client)
        total = client.total()["total"]
    if total != workload.hits:
        raise RuntimeError(f"{workload.hits} hits were posted, {total} counted")


def wait_flushed(client: Clickcurve) -> None:
    """Waits until no hit is buffered. Raises RuntimeError if that takes too long."""
    until = time() + LOADED_WITHIN_S
    while client.metric("clickcurve_buffered_entries"):
        if time() > until:
            raise RuntimeError(f"hits were not flushed within {LOADED_WITHIN_S} s")
        sleep(0.2)


def post(client: Clickcurve, body: bytes, media: str = NDJSON) -> None:
    """Posts one batch; a server that is behind counted nothing and is asked again after a moment."""
    while (answer := client.send_body(body, {"Content-Type": media})).status_code in (429, 503):
        sleep(0.1)
    answer.raise_for_status()


def _send_plain(client: Clickcurve, keys: list[str], at: int) -> None:
    post(client, "\n".join(batch(keys, at)).encode())


def _send_attributes(visitors: Visitors, client: Clickcurve, keys: list[str], at: int) -> None:
    for start in range(0, len(keys), 5_000):
        some = keys[start : start + 5_000]
        post(client, json.dumps(visitors.hits(len(some), ATTRIBUTES, at, some)).encode(), JSON)


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


def _beside_flushes(
    server: RunningServer,
    workload: Workload,
    rounds: int,
    send: Callable[[Clickcurve, list[str], int], None],
    queries: Mapping[str, str],
) -> Iterator[Beside | Line]:
    """Has FLUSH_KEYS keys sent and flushed, round by round; meanwhile asks for hits and queries in turn."""
    flushes, samples, turns = list[Flush](), list[Sample](), list[tuple[str, bytes]]()
    for key in workload.draw(4_000, seed=3):
        turns.append((POST, request("POST", f"/v1/hits/{key}")))
        turns += [(what, request("GET", f"/v1/links/{key}/{query}")) for what, query in queries.items()]
    requests, keys = cycle(turns), min(FLUSH_KEYS, workload.links)
    with Clickcurve(server.url) as client, closing(Connection(server.port)) as connection:
        for number in range(rounds):
            send(client, workload.distinct(keys, seed=50 + number), int(time()))
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
    took_s, rows = median(flush.took_s for flush in flushes), flushes[0].rows
    yield Line(f"flush of {rows:,} rows", f"{took_s:.2f} s", f"{rows / took_s:,.0f} rows/s, next to requests at c1")
    for kind in (POST, *queries):
        parted: dict[str, list[float]] = {"outside flushes": [], "during a flush": []}
        for sample in samples:
            if sample.kind == kind:
                is_during = any(flush.holds(sample.at) for flush in flushes)
                parted["during a flush" if is_during else "outside flushes"].append(sample.took_ms)
        if min(map(len, parted.values())) < 20:
            raise RuntimeError(f"requests outside flushes and during them: {[*map(len, parted.values())]}")
        figures = {when: Percentiles.of(took_ms).figures() for when, took_ms in parted.items()}
        aims = {"during a flush": f"p99 < {FLUSH_AIM:.0f} times"} if kind == POST else {}
        yield Beside(f"{kind}, c1", {when: ready(each) for when, each in figures.items()}, aims, rounds=1)


# --- the page ---------------------------------------------------------------------------------------------------------
AIM_MS, AIM_KB = 1_000, 60
_FILES = ("/static/page.css", "/static/page.js", "/static/icon.svg", "/static/world.svg")
_SKEW = 0.5  # flat enough that of a million links and twice as many hits the last link has a hit
_RANKED = 'table class="links"'
_BY_CHANGE = "/links?last=30d&sort=change"


def page(options: Options) -> Iterator[Line]:
    """The first views that must rank links, then each kind of page; on a server that was just started."""
    workload, data = replace(options.workload(), skew=_SKEW), options.folder / "data"
    loaded(data, workload)
    with servers.clickcurve(data) as server, http_client(server.url) as http:
        for what, path in {"all links": "/", "links by change": _BY_CHANGE}.items():
            begun = perf_counter()
            first_ms = _ms(answer := http.get(path))
            while _RANKED not in answer.text:
                answer = http.get(path).raise_for_status()
            ranked = f"ranked after {perf_counter() - begun:.1f} s"
            yield Line(f"page of {what}, first", f"{first_ms:.0f} ms", ranked, f"< {AIM_MS:,} ms")
        link = f"/links/{workload.draw(1, seed=3)[0]}"
        views = {
            "all links": "/",
            "links by change": _BY_CHANGE,
            "search": "/links?q=a",
            "a link": link,
            "a link, 48 h": f"{link}?last=48h",
        }
        files = sum(_sent(http.get(path)) for path in _FILES)
        for what, path in views.items():
            found = [http.get(path) for _ in range(20 * min(options.rounds, 3))]
            sent = f"{(_sent(found[-1]) + files) / 1_000:.1f} kB with style, script and map"
            yield Line(f"page of {what}, c1", f"{median(map(_ms, found)):.1f} ms", sent, f"< {AIM_KB} kB")


def _ms(answer: httpx.Response) -> float:
    return answer.raise_for_status().elapsed.total_seconds() * 1_000


def _sent(answer: httpx.Response) -> int:
    return int(answer.headers["content-length"])
