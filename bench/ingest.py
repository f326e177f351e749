"""Hits a second through both POST routes, one by one next to a bare answer, and in batches.

On a busy machine the ratio of processor times says more than that of rates.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
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
# Of the bare answer's rate.
BY_PATH_AIM, JSON_AIM, VARYING_AIM, ATTRIBUTES_AIM, QUESTION_AIM = 1.3, 1.1, 1.0, 0.7, 0.4
QUESTION = "/v1/limit/bench"
LIMIT = '[limits.bench]\nby = "user"\nrates = "1000000/s"\nstrategy = "fixed"\n'
COUNTRIES = ("DE", "FR", "US", "GB", "IN", "BR", "JP", "PL", "ES", "IT")
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"
# Hits a second that batches should reach where a bare answer runs at BARE_PER_S; elsewhere in proportion.
BATCH_AIM, BARE_PER_S = 3_000_000, 47_000
Timed = tuple[Round, float]  # and the processor time of a request in the server, seconds


def ingest(options: Options) -> Iterator[Line]:
    """Single POSTs and questions with 32 connections, in turn with the bare answer; then batches with four.

    Each with the same head in all requests and with a head of its own in each; a hit by path and a JSON hit also with
    heads that go through ASGI: what the fast path wins.
    """
    folder, keys = options.folder, options.workload().draw(20_000, seed=1)
    path, one = by_path(folder, keys), json_lines(folder, "bodies", [{"key": key} for key in keys])
    attributes = json_lines(folder, "attributes", _with_attributes(keys))
    asked = json_lines(folder, "asked", [{"user": key} for key in keys], QUESTION)
    kinds = [
        ("POST /v1/hits/{key}, c32", BY_PATH_AIM, path),
        ("... heads vary", VARYING_AIM, replace(path, heads=VARYING)),
        ("... heads vary, through ASGI", 0.0, replace(path, heads=ASGI)),
        ("POST /v1/hits, one JSON hit, c32", JSON_AIM, one),
        ("... heads vary", VARYING_AIM, replace(one, heads=VARYING)),
        ("... heads vary, through ASGI", 0.0, replace(one, heads=ASGI)),
        ("the same with ref, country, ua", ATTRIBUTES_AIM, attributes),
        ("POST /v1/limit/{event}, c32", QUESTION_AIM, asked),
        ("... heads vary", QUESTION_AIM, replace(asked, heads=VARYING)),
        ("... heads vary, through ASGI", 0.0, replace(asked, heads=ASGI)),
    ]
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
            for what, aim, requests in kinds:
                hits = 0 if QUESTION in requests.what else 1
                drive_mine = partial(drive_counted, client, server.url, requests, 32, options.seconds, hits)
                theirs, mine = in_turn(
                    options.rounds,
                    partial(_drive_bare, server, bare, requests, options.seconds),
                    partial(timed, server.pid, drive_mine),
                )
                lines.append(_single(what, aim, mine, theirs))
                if requests.heads == SAME and hits:
                    bare_rates += [run.per_s for run, _ in theirs]
    yield Line("bare ASGI 200, same body, c32", rate(median(bare_rates)), f"rounds within {spread(bare_rates)}")
    yield from lines
    yield from _batches(options, BATCH_AIM * median(bare_rates) / BARE_PER_S)


def by_path(folder: Path, keys: Sequence[str]) -> Requests:
    """Returns one hit of each key by path."""
    return Requests.paths("POST", folder / "paths.txt", (f"/v1/hits/{key}" for key in keys))


def json_lines(folder: Path, name: str, objects: Sequence[Mapping[str, object]], path: str = "/v1/hits") -> Requests:
    """Returns one JSON object a request."""
    return Requests.lines(path, JSON, folder / f"{name}.txt", map(json.dumps, objects))


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
        return timed(pid, lambda: drive(url, requests, 32, seconds))
    finally:
        server.signal(signal.SIGCONT)


def _single(what: str, aim: float, mine: Sequence[Timed], theirs: Sequence[Timed]) -> Line:
    runs, rates = [run for run, _ in mine], [run.per_s for run, _ in mine]
    ratio = times(rates, (run.per_s for run, _ in theirs))
    processor = times((spent_s for _, spent_s in mine), (spent_s for _, spent_s in theirs))
    p99_ms = median(run.took.p99_ms for run in runs)
    apart = f"p99 {p99_ms:.1f} ms, rounds within {spread(rates)}"
    compared = f"{ratio:.2f} of bare, {processor:.2f} of its processor time, {apart}"
    return Line(what, rate(median(rates)), compared, f">= {aim:.2f} of bare" if aim else "")


def _batches(options: Options, aim_per_s: float) -> Iterator[Line]:
    """Batches of 1,000 and 100,000 hits as a JSON array and as NDJSON, four connections."""
    workload, folder = options.workload(), options.folder
    with servers.clickcurve(folder / "batches", pinned=True) as server, Clickcurve(server.url) as client:
        for size, files in ((1_000, 20), (100_000, 4)):
            texts = [batch(workload.draw(size, seed=10 + number), int(time()) - 60) for number in range(files)]
            forms = {
                "JSON": (JSON, [f"[{','.join(text)}]" for text in texts]),
                "NDJSON": (NDJSON, ["\n".join(text) for text in texts]),
            }
            for form, (media, bodies) in forms.items():
                requests = Requests.bodies("/v1/hits", media, folder / f"{form}-{size}", bodies)
                drive_it = partial(drive_counted, client, server.url, requests, 4, options.seconds, size)
                (runs,) = in_turn(min(options.rounds, 3), drive_it)
                rates = [run.per_s * size for run in runs]
                compared = f"hits, rounds within {spread(rates)}"
                yield Line(f"batches of {size:,}, {form}, c4", rate(median(rates)), compared, f">= {rate(aim_per_s)}")


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
