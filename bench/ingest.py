"""Hits a second through both POST routes, one by one next to a bare answer, and in batches.

On a busy machine the ratio of processor times says more than that of rates.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from time import time

from bench import servers
from bench.measure import Line, rate, spread
from bench.workload import Workload, batch
from bench.wrk import ASGI, SAME, VARYING, Requests, Round, drive
from testing.client import Clickcurve
from testing.server import RunningServer

JSON = "application/json"
NDJSON = "application/x-ndjson"
# Of the bare answer's rate.
BY_PATH_AIM, JSON_AIM, VARYING_AIM, ATTRIBUTES_AIM, QUESTION_AIM = 1.3, 1.1, 1.0, 0.7, 0.4
LIMIT = '[limits.bench]\nby = "user"\nrates = "1000000/s"\nstrategy = "fixed"\n'
SITES = [f"site{number}" for number in range(50)]
COUNTRIES = ("DE", "FR", "US", "GB", "IN", "BR", "JP", "PL", "ES", "IT")
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"
# Hits a second that batches should reach where a bare answer runs at BARE_PER_S; elsewhere in proportion.
BATCH_AIMS = {1_000: 3_000_000, 100_000: 3_000_000}
BARE_PER_S = 47_000


def singles(folder: Path, workload: Workload, rounds: int, seconds: int) -> tuple[list[Line], float]:
    """Single POSTs and questions with 32 connections, in turn with the bare answer; also the bare rate by path.

    Each with the same head in all requests and with a head of its own in each; a hit by path and a JSON hit also with
    heads that go through ASGI: what the fast path wins.
    """
    keys = workload.draw(20_000, seed=1)
    path, one = by_path(folder, keys), json_lines(folder, "bodies", [{"key": key} for key in keys])
    attributes = json_lines(folder, "attributes", _with_attributes(keys))
    asked = json_lines(folder, "asked", [{"user": key} for key in keys], "/v1/limit/bench")
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
        answer = client.http.post("/v1/hits/first").raise_for_status()
        counted = Counted(client)
        with servers.bare(answer.text, answer.headers["content-type"]) as bare:
            for what, aim, requests in kinds:
                hits = 0 if requests.what[1] == "/v1/limit/bench" else 1
                runs = [
                    (
                        _bare(server, bare, requests, seconds),
                        timed(server.pid, partial(counted.drive, server.url, requests, 32, seconds, hits)),
                    )
                    for _ in range(rounds)
                ]
                lines.append(_single(what, aim, runs))
                if requests.heads == SAME and hits:
                    bare_rates += [theirs.per_s for (theirs, _), _ in runs]
    bare_line = Line("bare ASGI 200, same body, c32", rate(median(bare_rates)), f"rounds within {spread(bare_rates)}")
    return [bare_line, *lines], median(bare_rates)


def by_path(folder: Path, keys: list[str]) -> Requests:
    """One hit of each key by path."""
    file = folder / "paths.txt"
    file.write_text("".join(f"/v1/hits/{key}\n" for key in keys))
    return Requests.paths("POST", file)


def json_lines(folder: Path, name: str, objects: Sequence[Mapping[str, str]], path: str = "/v1/hits") -> Requests:
    """One JSON object a request."""
    file = folder / f"{name}.txt"
    file.write_text("".join(json.dumps(each) + "\n" for each in objects))
    return Requests.lines(path, JSON, file)


def _with_attributes(keys: list[str]) -> list[dict[str, str]]:
    """A hit of each key, as a browser's redirect gives it: fifty referrers, ten countries, eighty agents."""
    chance = random.Random(2)
    return [
        {
            "key": key,
            "ref": f"https://{chance.choice(SITES)}.example/page",
            "country": chance.choice(COUNTRIES),
            "ua": AGENT.format(version=chance.randrange(60, 140)),
        }
        for key in keys
    ]


Timed = tuple[Round, float]  # and the processor time of a request in the server, seconds


def timed(pid: int, drive_it: Callable[[], Round]) -> Timed:
    """Drives a server once, and says what it took of the processors for a request."""
    before = servers.processor_s(pid)
    run = drive_it()
    return run, (servers.processor_s(pid) - before) / run.requests


def _bare(server: RunningServer, bare: servers.Bare, requests: Requests, seconds: int) -> Timed:
    """The bare answer while Clickcurve stands still: the flush of its last round would cost the bare one a third."""
    server.signal(signal.SIGSTOP)
    try:
        return timed(bare.pid, lambda: drive(bare.url, requests, 32, seconds))
    finally:
        server.signal(signal.SIGCONT)


def _single(what: str, aim: float, runs: list[tuple[Timed, Timed]]) -> Line:
    ratio = median(mine.per_s / bare.per_s for (bare, _), (mine, _) in runs)
    processor = median(mine_s / bare_s for (_, bare_s), (_, mine_s) in runs)
    figure, apart = _rates([mine for _, (mine, _) in runs], lambda run: run.per_s)
    p99_ms = median(mine.p99_ms for _, (mine, _) in runs)
    compared = f"{ratio:.2f} of bare, {processor:.2f} of its processor time, p99 {p99_ms:.1f} ms, {apart}"
    return Line(what, figure, compared, f">= {aim:.2f} of bare" if aim else "")


def batches(folder: Path, workload: Workload, rounds: int, seconds: int, bare_per_s: float) -> list[Line]:
    """Batches of 1,000 and 100,000 hits as a JSON array and as NDJSON, four connections."""
    lines = []
    with servers.clickcurve(folder / "batches", pinned=True) as server, Clickcurve(server.url) as client:
        counted = Counted(client)
        for size, files in ((1_000, 20), (100_000, 4)):
            texts = [batch(workload.draw(size, seed=10 + number), int(time()) - 60) for number in range(files)]
            forms = {
                "JSON": (JSON, [f"[{','.join(text)}]" for text in texts]),
                "NDJSON": (NDJSON, ["\n".join(text) for text in texts]),
            }
            for form, (media, bodies) in forms.items():
                requests = Requests.bodies("/v1/hits", media, written(folder, f"{form}-{size}", bodies))
                runs = [counted.drive(server.url, requests, 4, seconds, hits=size) for _ in range(rounds)]
                figure, apart = _rates(runs, lambda run, size=size: run.per_s * size)  # type: ignore[misc]
                aim = f">= {rate(BATCH_AIMS[size] * bare_per_s / BARE_PER_S)}"
                lines.append(Line(f"batches of {size:,}, {form}, c4", figure, f"hits, {apart}", aim))
    return lines


def written(folder: Path, name: str, bodies: Sequence[str]) -> list[Path]:
    """Writes each body to a file of its own."""
    files = [folder / f"{name}-{number}" for number in range(len(bodies))]
    for file, body in zip(files, bodies, strict=True):
        file.write_text(body)
    return files


def _rates(runs: list[Round], value: Callable[[Round], float]) -> tuple[str, str]:
    values = [value(run) for run in runs]
    return rate(median(values)), f"rounds within {spread(values)}"


class Counted:
    """Drives Clickcurve and checks that it counted what wrk saw answered; the last requests may be cut off."""

    def __init__(self, client: Clickcurve) -> None:
        self._client = client

    def drive(self, url: str, requests: Requests, connections: int, seconds: int, hits: int) -> Round:
        before = self._client.total()["total"]
        run = drive(url, requests, connections, seconds)
        counted = self._client.total()["total"] - before
        if not run.requests * hits <= counted <= (run.requests + 2 * connections) * hits:
            raise RuntimeError(f"{run.requests} requests of {hits} hits were answered, {counted} hits counted")
        return run
