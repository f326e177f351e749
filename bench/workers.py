"""What a hit takes of the processors with two workers beside one, together: `make bench ARGS=workers`.

Two servers stand side by side, on all cores, and are driven in turn by the same requests. So the load takes its share
of the cores from both alike, and processor time is compared, not rates.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median
from time import time

from bench import servers
from bench.command import Options
from bench.ingest import JSON, Timed, by_path, drive_counted, json_lines, timed
from bench.measure import Line, in_turn, times
from bench.workload import batch
from bench.wrk import Requests
from testing.client import Clickcurve

AIM = 1.1  # times the processor time of one worker
HITS = 1_000  # in a batch


def workers(options: Options) -> Iterator[Line]:
    """Single hits by path and as JSON over 32 connections a worker, and batches of 1,000 over four."""
    folder, workload = options.folder, options.workload()
    keys = workload.draw(20_000, seed=1)
    bodies = [f"[{','.join(batch(workload.draw(HITS, seed=10 + number), int(time()) - 60))}]" for number in range(20)]
    batches = Requests.bodies("/v1/hits", JSON, folder / "batch", bodies)
    kinds = [
        ("POST /v1/hits/{key}, c32 each", by_path(folder, keys), 32, 1),
        ("POST /v1/hits, one JSON hit, c32 each", json_lines(folder, "bodies", [{"key": key} for key in keys]), 32, 1),
        (f"batches of {HITS:,}, JSON, c4 each", batches, 4, HITS),
    ]
    with (
        servers.clickcurve(folder / "one") as one,
        servers.clickcurve(folder / "two", {"CLICKCURVE_WORKERS": "2"}) as two,
        Clickcurve(one.url) as client_of_one,
        Clickcurve(two.url) as client_of_two,
    ):
        for what, requests, connections, hits in kinds:

            def turn(count: int, requests: Requests = requests, each: int = connections, hits: int = hits) -> Timed:
                server, client = (one, client_of_one) if count == 1 else (two, client_of_two)
                drive = partial(drive_counted, client, server.url, requests, each * count, options.seconds, hits)
                return timed(server.pid, drive)

            runs = in_turn(options.rounds, partial(turn, 1), partial(turn, 2))
            of_one, of_two = ([spent_s / hits * 1e6 for _, spent_s in of] for of in runs)
            beside = f"{times(of_two, of_one):.2f} of one worker's {median(of_one):.2f}"
            yield Line(f"two workers: {what}", f"{median(of_two):.2f} us a hit", beside, f"<= {AIM:.2f} of one's")
