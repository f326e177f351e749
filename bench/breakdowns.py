"""Attributes of hits, over HTTP: `by` at one connection, and single POSTs while a flush of 30,000 such links runs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from time import sleep, time

from bench import servers
from bench.command import Options
from bench.connection import Connection, request
from bench.measure import Line, Percentiles
from bench.reads import FLUSH_KEYS, POST, compared_with_quiet, sampled
from bench.visitors import Visitors
from bench.workload import Workload
from testing.client import Clickcurve

JSON = {"Content-Type": "application/json"}
ATTRIBUTES = ("ref", "country", "ua", "source")
HITS_EACH = 5  # of a loaded link, on average; popular ones have most of them
DAYS = 60
BATCH = 5_000
AIM = "p50 < 1.0 p99 < 3.0 ms"
BY = {"by ref, life": "by/ref", "by country, 30 d": "by/country?last=30d"}
ONCE = "by ref, life, 2,000 links once"  # what was asked before makes no difference: popular or not does


def breakdowns(options: Options) -> Iterator[Line]:
    """Loads what visitors of popular links say, asks for it, and flushes more of it."""
    visitors, workload, rounds = Visitors(), options.workload(), min(options.rounds, 3)
    with (
        servers.clickcurve(options.folder / "data", {"CLICKCURVE_FLUSH_S": "15"}) as server,
        Clickcurve(server.url) as client,
    ):
        _load(client, visitors, workload)
        with closing(Connection(server.port)) as connection:  # not before: while it loads, an idle one is closed
            popular, different = workload.draw(2_000, seed=4), workload.distinct(min(2_000, workload.links), seed=5)
            asked = [(what, query, rounds * popular) for what, query in BY.items()]
            for what, query, keys in (*asked, (ONCE, "by/ref", different)):
                took_ms = [connection.time(what, request("GET", f"/v1/links/{key}/{query}")).took_ms for key in keys]
                yield Line(f"{what}, c1, quiet", str(Percentiles.of(took_ms)), f"{len(took_ms):,} asked", AIM)
            posts = [(POST, request("POST", f"/v1/hits/{key}")) for key in workload.draw(4_000, seed=3)]
            send = partial(_send_now, client, visitors)
            flushes, samples = sampled(client, connection, workload, rounds, send, posts)
    took = ", ".join(f"{flush.took_s:.2f} s for {flush.rows:,} rows" for flush in flushes)
    yield Line(f"flushes of {FLUSH_KEYS:,} links with attributes", took, "beside requests at c1")
    yield compared_with_quiet(POST, flushes, samples)


def _load(client: Clickcurve, visitors: Visitors, workload: Workload) -> None:
    now, chance = int(time()), random.Random(3)
    for start in range(0, workload.links * HITS_EACH, BATCH):
        _send(client, visitors, workload.draw(BATCH, seed=1_000 + start), now - chance.randrange(DAYS * 86_400))
    while client.metric("clickcurve_buffered_entries"):
        sleep(0.5)


def _send_now(client: Clickcurve, visitors: Visitors, keys: list[str]) -> None:
    for start in range(0, len(keys), BATCH):
        _send(client, visitors, keys[start : start + BATCH], int(time()))


def _send(client: Clickcurve, visitors: Visitors, keys: list[str], at: int) -> None:
    hits = [
        hit | {"key": key, "ts": at} for hit, key in zip(visitors.hits(len(keys), ATTRIBUTES, at), keys, strict=True)
    ]
    while (answer := client.send_body(json.dumps(hits).encode(), JSON)).status_code in (429, 503):
        sleep(0.1)
    answer.raise_for_status()
