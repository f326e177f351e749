"""What a hit takes of the processors with two workers beside one, together: `make bench ARGS=workers`.

Two servers stand side by side, on all cores, and are driven in turn by the same requests. So the load takes its share
of the cores from both alike, and processor time is compared, not rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import time

from bench import servers
from bench.ingest import JSON, Counted, Timed, by_path, json_lines, timed, written
from bench.measure import Line
from bench.workload import Workload, batch
from bench.wrk import Requests
from testing.client import Clickcurve

AIM = 1.1  # times the processor time of one worker
HITS = 1_000  # in a batch


def measure(folder: Path, workload: Workload, rounds: int, seconds: int) -> list[Line]:
    """Single hits by path and as JSON over 32 connections a worker, and batches of 1,000 over four."""
    keys = workload.draw(20_000, seed=1)
    bodies = [f"[{','.join(batch(workload.draw(HITS, seed=10 + number), int(time()) - 60))}]" for number in range(20)]
    kinds = [
        ("POST /v1/hits/{key}, c32 each", by_path(folder, keys), 32, 1),
        ("POST /v1/hits, one JSON hit, c32 each", json_lines(folder, "bodies", [{"key": key} for key in keys]), 32, 1),
        (
            f"batches of {HITS:,}, JSON, c4 each",
            Requests.bodies("/v1/hits", JSON, written(folder, "batch", bodies)),
            4,
            HITS,
        ),
    ]
    lines = []
    with (
        servers.clickcurve(folder / "one") as one,
        servers.clickcurve(folder / "two", {"CLICKCURVE_WORKERS": "2"}) as two,
        Clickcurve(one.url) as asks_one,
        Clickcurve(two.url) as asks_two,
    ):
        ways = [(1, one, Counted(asks_one)), (2, two, Counted(asks_two))]
        for what, requests, connections, hits in kinds:
            runs = [
                [
                    timed(server.pid, partial(counted.drive, server.url, requests, connections * count, seconds, hits))
                    for count, server, counted in ways
                ]
                for _ in range(rounds)
            ]
            lines.append(_compared(what, hits, runs))
    return lines


def _compared(what: str, hits: int, runs: Sequence[Sequence[Timed]]) -> Line:
    of_one, of_two = (median(each[way][1] for each in runs) / hits * 1e6 for way in (0, 1))
    ratio = median(two_s / one_s for (_, one_s), (_, two_s) in runs)
    figure = f"{of_two:.2f} us a hit"
    return Line(f"two workers: {what}", figure, f"{ratio:.2f} of one worker's {of_one:.2f}", f"<= {AIM:.2f} of one's")
