"""Hits a second through both POST routes, one by one next to a bare answer, and in batches."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import time

from bench import servers
from bench.table import Line, rate, spread
from bench.workload import Workload, batch
from bench.wrk import Requests, Round, drive
from testing.client import Clickcurve
from testing.server import RunningServer

JSON = "application/json"
NDJSON = "application/x-ndjson"
SINGLE_AIM = 0.65
# Hits a second that batches should reach where a bare answer runs at BARE_PER_S; elsewhere in proportion.
BATCH_AIMS = {1_000: 1_200_000, 100_000: 2_000_000}
BARE_PER_S = 40_000


def singles(folder: Path, workload: Workload, rounds: int, seconds: int) -> tuple[list[Line], float]:
    """Both single POSTs with 32 connections, in turn with the bare answer; also the bare rate by path."""
    keys = workload.draw(20_000, seed=1)
    paths, bodies = folder / "paths.txt", folder / "bodies.txt"
    paths.write_text("".join(f"/v1/hits/{key}\n" for key in keys))
    bodies.write_text("".join(json.dumps({"key": key}) + "\n" for key in keys))
    with servers.clickcurve(folder / "singles", pinned=True) as server, Clickcurve(server.url) as client:
        answer = client.http.post("/v1/hits/first").raise_for_status()
        counted = _Counted(client)
        with servers.bare(answer.text, answer.headers["content-type"]) as bare_url:
            by_path, by_body = Requests.paths("POST", paths), Requests.lines("/v1/hits", JSON, bodies)
            runs = [
                (
                    _bare(server, bare_url, by_path, seconds),
                    counted.drive(server.url, by_path, 32, seconds, hits=1),
                    _bare(server, bare_url, by_body, seconds),
                    counted.drive(server.url, by_body, 32, seconds, hits=1),
                )
                for _ in range(rounds)
            ]
    bare_path, path, bare_body, body = ([run[column] for run in runs] for column in range(4))
    lines = [
        Line("bare ASGI 200, same body, c32", *_rates(bare_path, lambda run: run.per_s)),
        *_single("POST /v1/hits/{key}, c32", path, bare_path),
        *_single("POST /v1/hits, one JSON hit, c32", body, bare_body),
    ]
    return lines, median(run.per_s for run in bare_path)


def _bare(server: RunningServer, url: str, requests: Requests, seconds: int) -> Round:
    """The bare answer while Clickcurve stands still: the flush of its last round would cost the bare one a third."""
    server.signal(signal.SIGSTOP)
    try:
        return drive(url, requests, 32, seconds)
    finally:
        server.signal(signal.SIGCONT)


def _single(what: str, ours: list[Round], theirs: list[Round]) -> list[Line]:
    ratio = median(mine.per_s / bare.per_s for mine, bare in zip(ours, theirs, strict=True))
    figure, apart = _rates(ours, lambda run: run.per_s)
    p99_ms = median(run.p99_ms for run in ours)
    return [Line(what, figure, f"{ratio:.2f} of bare, p99 {p99_ms:.1f} ms, {apart}", f">= {SINGLE_AIM:.2f} of bare")]


def batches(folder: Path, workload: Workload, rounds: int, seconds: int, bare_per_s: float) -> list[Line]:
    """Batches of 1,000 and 100,000 hits as a JSON array and as NDJSON, four connections."""
    lines = []
    with servers.clickcurve(folder / "batches", pinned=True) as server, Clickcurve(server.url) as client:
        counted = _Counted(client)
        for size, files in ((1_000, 20), (100_000, 4)):
            texts = [batch(workload.draw(size, seed=10 + number), int(time()) - 60) for number in range(files)]
            forms = {
                "JSON": (JSON, [f"[{','.join(text)}]" for text in texts]),
                "NDJSON": (NDJSON, ["\n".join(text) for text in texts]),
            }
            for form, (media, bodies) in forms.items():
                requests = Requests.bodies("/v1/hits", media, _write(folder, f"{form}-{size}", bodies))
                runs = [counted.drive(server.url, requests, 4, seconds, hits=size) for _ in range(rounds)]
                figure, apart = _rates(runs, lambda run, size=size: run.per_s * size)  # type: ignore[misc]
                aim = f">= {rate(BATCH_AIMS[size] * bare_per_s / BARE_PER_S)}"
                lines.append(Line(f"batches of {size:,}, {form}, c4", figure, f"hits, {apart}", aim))
    return lines


def _write(folder: Path, name: str, bodies: list[str]) -> list[Path]:
    files = [folder / f"{name}-{number}" for number in range(len(bodies))]
    for file, body in zip(files, bodies, strict=True):
        file.write_text(body)
    return files


def _rates(runs: list[Round], value: Callable[[Round], float]) -> tuple[str, str]:
    values = [value(run) for run in runs]
    return rate(median(values)), f"rounds within {spread(values)}"


class _Counted:
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
