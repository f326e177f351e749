"""Attributes of hits, over HTTP: `by` at one connection, and single POSTs while a flush of 30,000 such links runs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from time import sleep, time

from bench import servers
from bench.connection import Connection, request
from bench.measure import Line
from bench.reads import FLUSH_KEYS, POST, compared, percentiles, sampled
from bench.visitors import Visitors
from bench.workload import Workload
from testing.client import Clickcurve

JSON = {"Content-Type": "application/json"}
SAID = ("ref", "country", "ua", "source")
HITS_EACH = 5  # of a loaded link, on average; popular ones have most of them
DAYS = 60
BATCH = 5_000
BY_AIM_MS = (1.0, 3.0)
BY = {"by ref, life": "by/ref", "by country, 30 d": "by/country?last=30d"}
BY_ONCE = {"by ref, life, 2,000 links once": "by/ref"}  # what was asked before makes no difference: popular or not does


def measure(folder: Path, workload: Workload, rounds: int) -> list[Line]:
    """Loads what visitors of popular links say, asks for it, and flushes more of it."""
    visitors = Visitors()
    with (
        servers.clickcurve(folder / "breakdowns", settings={"CLICKCURVE_FLUSH_S": "15"}) as server,
        Clickcurve(server.url) as client,
    ):
        _load(client, visitors, workload)
        with Connection(server.port) as connection:  # not before: while it loads, an idle one is closed
            asked = _quiet(connection, BY, workload.draw(2_000, seed=4), rounds)
            once = _quiet(connection, BY_ONCE, workload.distinct(min(2_000, workload.links), seed=5), 1)
            return [*asked, *once, *_during_flush(client, connection, visitors, workload, rounds)]


def _quiet(connection: Connection, questions: dict[str, str], keys: list[str], rounds: int) -> list[Line]:
    lines = []
    for what, query in questions.items():
        asked = [request("GET", f"/v1/links/{key}/{query}") for key in keys]
        times = [connection.time(what, each).took_ms for _ in range(rounds) for each in asked]
        p50, p99 = percentiles(times)
        aim = f"p50 < {BY_AIM_MS[0]} p99 < {BY_AIM_MS[1]} ms"
        lines.append(Line(f"{what}, c1, quiet", f"p50 {p50:.2f} p99 {p99:.2f} ms", f"{len(times):,} asked", aim))
    return lines


def _load(client: Clickcurve, visitors: Visitors, workload: Workload) -> None:
    now, chance = int(time()), random.Random(3)
    for start in range(0, workload.links * HITS_EACH, BATCH):
        _send(
            client, visitors, workload.draw(BATCH, seed=1_000 + start), [now - chance.randrange(DAYS * 86_400)] * BATCH
        )
    while client.metric("clickcurve_buffered_entries"):
        sleep(0.5)


def _send(client: Clickcurve, visitors: Visitors, keys: list[str], moments: list[int]) -> None:
    hits = visitors.hits(len(keys), SAID, int(time()))
    for hit, key, moment in zip(hits, keys, moments, strict=True):
        hit |= {"key": key, "ts": moment}
    while (answer := client.send_body(json.dumps(hits).encode(), JSON)).status_code in (429, 503):
        sleep(0.1)
    answer.raise_for_status()


def _during_flush(
    client: Clickcurve, connection: Connection, visitors: Visitors, workload: Workload, rounds: int
) -> list[Line]:
    def send(keys: list[str]) -> None:
        for start in range(0, len(keys), BATCH):
            some = keys[start : start + BATCH]
            _send(client, visitors, some, [int(time())] * len(some))

    posts = [(POST, request("POST", f"/v1/hits/{key}")) for key in workload.draw(4_000, seed=3)]
    flushes, samples = sampled(client, connection, workload, rounds, send, posts)
    took = ", ".join(f"{flush.took_s:.2f} s for {flush.rows:,} rows" for flush in flushes)
    flushed = Line(f"flushes of {FLUSH_KEYS:,} links with attributes", took, "beside requests at c1")
    return [flushed, compared(POST, flushes, samples)]
