"""Hits a second through both POST routes, one by one next to a bare answer, and in batches; two workers beside one.

On a busy machine the ratio of processor times says more than that of rates.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import time

from bench import servers
from bench.command import Options
from bench.load import ASGI, RATE, SAME, VARYING, by_body, by_path, drive
from bench.measure import Beside, Figures
from bench.workload import LINKS, Visitors, batch
from testing.client import Clickcurve
from testing.server import RunningServer

JSON = "application/json"
NDJSON = "application/x-ndjson"
LIMIT = '[limits.bench]\nby = "user"\nrates = "1000000/s"\nstrategy = "fixed"\n'
# Hits a second that batches should reach where a bare answer runs at BARE_PER_S; elsewhere in proportion.
BATCH_AIM, BARE_PER_S = 3_000_000, 47_000
WORKERS_AIM = 1.1  # times the processor time of one worker


def ingest(options: Options) -> Iterator[Beside]:
    """Single POSTs and questions with 32 connections, in turn with the bare answer; then batches with four.

    Each with the same head in all requests and with a head of its own in each; a hit by path and a JSON hit also with
    heads that go through ASGI: what the fast path wins.
    """
    folder, keys = options.folder, options.workload().draw(20_000, seed=1)
    one, users = [{"key": key} for key in keys], [{"user": key} for key in keys]
    by_json = partial(json_lines, folder, "one", one)
    # As many addresses as hits: what was remembered of some is forgotten before they come again.
    of_visitors = options.workload().draw(LINKS, seed=1)
    said = Visitors().hits(LINKS, ("ref", "country", "ip", "ua"), int(time()), of_visitors)
    with_attributes = partial(json_lines, folder, "attributes", said)
    asked = partial(json_lines, folder, "asked", users, path="/v1/limit/bench")
    # What is sent, how many hits a request is, how it is made, and the aims by kind of head, of the bare answer's rate.
    kinds: Sequence[tuple[str, int, Callable[..., Path], Mapping[str, float]]] = (
        ("POST /v1/hits/{key}", 1, partial(links_by_path, folder, keys), {SAME: 1.3, VARYING: 1.0, ASGI: 0}),
        ("POST /v1/hits, one JSON hit", 1, by_json, {SAME: 1.1, VARYING: 1.0, ASGI: 0}),
        ("the same with ref, country, ip, ua", 1, with_attributes, {SAME: 0.7, VARYING: 0}),
        ("POST /v1/limit/{event}", 0, asked, {SAME: 0.4, VARYING: 0.4, ASGI: 0}),
    )
    bare_rates: list[float] = []
    config = folder / "clickcurve.toml"
    config.write_text(LIMIT)
    with (
        servers.clickcurve(folder / "singles", {"CLICKCURVE_CONFIG": str(config)}, pinned=True) as server,
        Clickcurve(server.url) as client,
    ):
        answer = client.http.post("/v1/hits/answered").raise_for_status()
        client.send([{"key": "answered", "ua": "Mozilla/5.0"}])  # which makes the reader of agents: 0.4 s and more
        with servers.bare(answer.text, answer.headers["content-type"], folder / "bare.log") as (url, pid):

            def bare(requests: Path) -> Figures:
                """Drives it while Clickcurve stands still: a flush of its would cost the bare one a third."""
                server.signal(signal.SIGSTOP)
                try:
                    figures = drive(url, requests, 32, options.seconds, pid).figures()
                finally:
                    server.signal(signal.SIGCONT)
                bare_rates.append(figures[RATE])
                return figures

            for what, hits, make, aims in kinds:
                for heads, aim in aims.items():
                    requests = make(heads=heads)
                    mine = partial(counted, client, server, requests, 32, options.seconds, hits)
                    turns = {"bare": partial(bare, requests), "Clickcurve": mine}
                    yield Beside(f"{what}, c32, {heads}", turns, {"Clickcurve": f">= {aim:.2f} times" if aim else ""})
    yield from _batches(options, f">= {BATCH_AIM * median(bare_rates) / BARE_PER_S:,.0f} /s")


def links_by_path(folder: Path, keys: Sequence[str], heads: str = SAME) -> Path:
    """Returns one hit of each key by path."""
    return by_path("POST", folder / "paths.txt", (f"/v1/hits/{key}" for key in keys), heads)


def json_lines(
    folder: Path, name: str, objects: Sequence[Mapping[str, object]], heads: str = SAME, path: str = "/v1/hits"
) -> Path:
    """Returns one JSON object a request."""
    return by_body(path, JSON, folder / f"{name}.txt", map(json.dumps, objects), heads)


def counted(
    client: Clickcurve, server: RunningServer, requests: Path, connections: int, seconds: float, hits: int
) -> Figures:
    """Drives Clickcurve by requests of so many hits. Raises RuntimeError unless it counted what wrk saw answered.

    The last ones may be cut off. Some agents are those of bots, whose hits count too.
    """
    before = client.total(bots="include")["total"]
    run = drive(server.url, requests, connections, seconds, server.pid)
    counted = client.total(bots="include")["total"] - before
    if not run.requests * hits <= counted <= (run.requests + 2 * connections) * hits:
        raise RuntimeError(f"{run.requests} requests of {hits} hits were answered, {counted} hits counted")
    return run.figures(hits or 1)


def _batches(options: Options, aim: str) -> Iterator[Beside]:
    """Batches of 1,000 and 100,000 hits as a JSON array and as NDJSON, four connections."""
    with servers.clickcurve(options.folder / "batches", pinned=True) as server, Clickcurve(server.url) as client:
        for size, count in ((1_000, 20), (100_000, 4)):
            for form, media in (("JSON", JSON), ("NDJSON", NDJSON)):
                requests = batches(options, size, count, media)
                drive_it = partial(counted, client, server, requests, 4, options.seconds, size)
                yield Beside(f"batches of {size:,}, {form}, c4", {"": drive_it}, {"": aim}, min(options.rounds, 3))


def batches(options: Options, size: int, count: int, media: str = JSON) -> Path:
    """Returns so many different batches of so many hits, keys by popularity."""
    texts = [batch(options.workload().draw(size, seed=10 + number), int(time()) - 60) for number in range(count)]
    bodies = (f"[{','.join(text)}]" if media == JSON else "\n".join(text) for text in texts)
    return by_body("/v1/hits", media, options.folder / "batches.txt", bodies)


def workers(options: Options) -> Iterator[Beside]:
    """Single hits by path and as JSON over 32 connections a worker, and batches of 1,000 over four.

    Two servers stand side by side, on all cores, and are driven in turn by the same requests. So the load takes its
    share of the cores from both alike, and processor time is compared, not rates.
    """
    folder, keys, hits_each = options.folder, options.workload().draw(20_000, seed=1), 1_000
    one = json_lines(folder, "one", [{"key": key} for key in keys])
    kinds = [
        ("POST /v1/hits/{key}, c32 each", links_by_path(folder, keys), 32, 1),
        ("POST /v1/hits, one JSON hit, c32 each", one, 32, 1),
        (f"batches of {hits_each:,}, JSON, c4 each", batches(options, hits_each, 20), 4, hits_each),
    ]
    both = {}
    for count, what in enumerate(("one worker", "two workers"), 1):
        running = servers.clickcurve(folder / str(count), {"CLICKCURVE_WORKERS": str(count)})
        server = options.closing.enter_context(running)
        both[what] = options.closing.enter_context(Clickcurve(server.url)), server, count
    for kind, requests, connections, hits in kinds:
        turns = {
            what: partial(counted, client, server, requests, connections * count, options.seconds, hits)
            for what, (client, server, count) in both.items()
        }
        yield Beside(kind, turns, {"two workers": f"<= {WORKERS_AIM:.2f} times the processor time"})
