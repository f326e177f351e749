"""Hits a second through both POST routes, one by one next to a bare answer, and in batches; two workers beside one.

On a busy machine the ratio of processor times says more than that of rates.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import time

from bench import servers
from bench.command import Options
from bench.measure import Line, in_turn, rate, spread, times
from bench.workload import batch
from bench.wrk import ASGI, SAME, VARYING, Requests, Round, drive
from testing.client import Clickcurve
from testing.server import RunningServer

JSON = "application/json"
NDJSON = "application/x-ndjson"
LIMIT = '[limits.bench]\nby = "user"\nrates = "1000000/s"\nstrategy = "fixed"\n'
COUNTRIES = ("DE", "FR", "US", "GB", "IN", "BR", "JP", "PL", "ES", "IT")
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"
# Hits a second that batches should reach where a bare answer runs at BARE_PER_S; elsewhere in proportion.
BATCH_AIM, BARE_PER_S = 3_000_000, 47_000
WORKERS_AIM = 1.1  # times the processor time of one worker
Timed = tuple[Round, float]  # and the processor time of a request in the server, seconds


def ingest(options: Options) -> Iterator[Line]:
    """Single POSTs and questions with 32 connections, in turn with the bare answer; then batches with four.

    Each with the same head in all requests and with a head of its own in each; a hit by path and a JSON hit also with
    heads that go through ASGI: what the fast path wins.
    """
    folder, keys = options.folder, options.workload().draw(20_000, seed=1)
    one, users = [{"key": key} for key in keys], [{"user": key} for key in keys]
    asked = partial(json_lines, folder, "asked", users, path="/v1/limit/bench")
    with_attributes = partial(json_lines, folder, "attributes", _with_attributes(keys))
    # What is sent, how many hits a request is, how it is made, and the aims by kind of head, of the bare answer's rate.
    kinds: Sequence[tuple[str, int, Callable[..., Requests], Mapping[str, float]]] = (
        ("POST /v1/hits/{key}, c32", 1, partial(by_path, folder, keys), {SAME: 1.3, VARYING: 1.0, ASGI: 0}),
        (
            "POST /v1/hits, one JSON hit, c32",
            1,
            partial(json_lines, folder, "one", one),
            {SAME: 1.1, VARYING: 1.0, ASGI: 0},
        ),
        ("the same with ref, country, ua", 1, with_attributes, {SAME: 0.7}),
        ("POST /v1/limit/{event}, c32", 0, asked, {SAME: 0.4, VARYING: 0.4, ASGI: 0}),
    )
    lines: list[Line] = []
    bare_rates: list[float] = []
    config = folder / "clickcurve.toml"
    config.write_text(LIMIT)
    with (
        servers.clickcurve(folder / "singles", {"CLICKCURVE_CONFIG": str(config)}, pinned=True) as server,
        Clickcurve(server.url) as client,
    ):
        answer = client.http.post("/v1/hits/answered").raise_for_status()
        with servers.bare(answer.text, answer.headers["content-type"], folder / "bare.log") as bare:
            for what, hits, make, aims in kinds:
                for heads, aim in aims.items():
                    requests = make(heads=heads)
                    drive_bare = partial(_drive_bare, server, bare, requests, options.seconds)
                    drive_mine = partial(drive_counted, client, server.url, requests, 32, options.seconds, hits)
                    theirs, mine = in_turn(options.rounds, drive_bare, partial(timed, server.pid, drive_mine))
                    lines.append(_single(what if heads == SAME else f"... {heads}", aim, mine, theirs))
                    if heads == SAME and hits:
                        bare_rates += [run.per_s for run, _ in theirs]
    yield Line("bare ASGI 200, same body, c32", rate(median(bare_rates)), f"rounds within {spread(bare_rates)}")
    yield from lines
    yield from _batches(options, BATCH_AIM * median(bare_rates) / BARE_PER_S)


def by_path(folder: Path, keys: Sequence[str], heads: str = SAME) -> Requests:
    """Returns one hit of each key by path."""
    return Requests.paths("POST", folder / "paths.txt", (f"/v1/hits/{key}" for key in keys), heads)


def json_lines(
    folder: Path, name: str, objects: Sequence[Mapping[str, object]], heads: str = SAME, path: str = "/v1/hits"
) -> Requests:
    """Returns one JSON object a request."""
    return Requests.bodies(path, JSON, folder / f"{name}.txt", map(json.dumps, objects), heads)


def _with_attributes(keys: Sequence[str]) -> list[dict[str, str]]:
    """Returns a hit of each key, as a browser's redirect gives it: fifty referrers, ten countries, eighty agents."""
    chance = random.Random(2)
    return [
        {
            "key": key,
            "ref": "https://{}.example/page".format(f"site{chance.randrange(50)}"),
            "country": chance.choice(COUNTRIES),
            "ua": AGENT.format(version=chance.randrange(60, 140)),
        }
        for key in keys
    ]


def timed(pid: int, drive_it: Callable[[], Round]) -> Timed:
    """Drives a server once; returns also what it took of the processors for a request."""
    before = servers.processor_s(pid)
    run = drive_it()
    return run, (servers.processor_s(pid) - before) / run.requests


def _drive_bare(server: RunningServer, bare: tuple[str, int], requests: Requests, seconds: float) -> Timed:
    """Drives the bare answer while Clickcurve stands still: a flush of its would cost the bare one a third."""
    url, pid = bare
    server.signal(signal.SIGSTOP)
    try:
        return timed(pid, partial(drive, url, requests, 32, seconds))
    finally:
        server.signal(signal.SIGCONT)


def _single(what: str, aim: float, mine: Sequence[Timed], theirs: Sequence[Timed]) -> Line:
    rates, beside = ([run.per_s for run, _ in runs] for runs in (mine, theirs))
    processor = times((spent_s for _, spent_s in mine), (spent_s for _, spent_s in theirs))
    p99_ms = median(run.took.p99_ms for run, _ in mine)
    apart = f"p99 {p99_ms:.1f} ms, rounds within {spread(rates)}"
    compared = f"{times(rates, beside):.2f} of bare, {processor:.2f} of its processor time, {apart}"
    return Line(what, rate(median(rates)), compared, f">= {aim:.2f} of bare" if aim else "")


def _batches(options: Options, aim_per_s: float) -> Iterator[Line]:
    """Batches of 1,000 and 100,000 hits as a JSON array and as NDJSON, four connections."""
    folder = options.folder
    with servers.clickcurve(folder / "batches", pinned=True) as server, Clickcurve(server.url) as client:
        for size, count in ((1_000, 20), (100_000, 4)):
            for form, media in (("JSON", JSON), ("NDJSON", NDJSON)):
                requests = batches(options, size, count, media)
                drive_it = partial(drive_counted, client, server.url, requests, 4, options.seconds, size)
                (runs,) = in_turn(min(options.rounds, 3), drive_it)
                rates = [run.per_s * size for run in runs]
                compared = f"hits, rounds within {spread(rates)}"
                yield Line(f"batches of {size:,}, {form}, c4", rate(median(rates)), compared, f">= {rate(aim_per_s)}")


def batches(options: Options, size: int, count: int, media: str = JSON) -> Requests:
    """Returns so many different batches of so many hits, keys by popularity."""
    texts = [batch(options.workload().draw(size, seed=10 + number), int(time()) - 60) for number in range(count)]
    bodies = (f"[{','.join(text)}]" if media == JSON else "\n".join(text) for text in texts)
    return Requests.bodies("/v1/hits", media, options.folder / "batches.txt", bodies)


def drive_counted(
    client: Clickcurve, url: str, requests: Requests, connections: int, seconds: float, hits: int
) -> Round:
    """Drives Clickcurve. Raises RuntimeError unless it counted what wrk saw answered; the last ones may be cut off."""
    before = client.total()["total"]
    run = drive(url, requests, connections, seconds)
    counted = client.total()["total"] - before
    if not run.requests * hits <= counted <= (run.requests + 2 * connections) * hits:
        raise RuntimeError(f"{run.requests} requests of {hits} hits were answered, {counted} hits counted")
    return run


def workers(options: Options) -> Iterator[Line]:
    """Single hits by path and as JSON over 32 connections a worker, and batches of 1,000 over four.

    Two servers stand side by side, on all cores, and are driven in turn by the same requests. So the load takes its
    share of the cores from both alike, and processor time is compared, not rates.
    """
    folder, keys, hits_each = options.folder, options.workload().draw(20_000, seed=1), 1_000
    one = json_lines(folder, "one", [{"key": key} for key in keys])
    kinds = [
        ("POST /v1/hits/{key}, c32 each", by_path(folder, keys), 32, 1),
        ("POST /v1/hits, one JSON hit, c32 each", one, 32, 1),
        (f"batches of {hits_each:,}, JSON, c4 each", batches(options, hits_each, 20), 4, hits_each),
    ]
    with (
        servers.clickcurve(folder / "one") as of_one,
        servers.clickcurve(folder / "two", {"CLICKCURVE_WORKERS": "2"}) as of_two,
        Clickcurve(of_one.url) as client_of_one,
        Clickcurve(of_two.url) as client_of_two,
    ):
        for what, requests, connections, hits in kinds:
            turns = []
            for count, server, client in ((1, of_one, client_of_one), (2, of_two, client_of_two)):
                drive_it = partial(drive_counted, client, server.url, requests, connections * count)
                turns.append(partial(timed, server.pid, partial(drive_it, options.seconds, hits)))
            one_us, two_us = ([spent_s / hits * 1e6 for _, spent_s in runs] for runs in in_turn(options.rounds, *turns))
            beside = f"{times(two_us, one_us):.2f} of one worker's {median(one_us):.2f}"
            aim = f"<= {WORKERS_AIM:.2f} of one's"
            yield Line(f"two workers: {what}", f"{median(two_us):.2f} us a hit", beside, aim)
