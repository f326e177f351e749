"""What a link costs Clickcurve as links become many: bytes, a flush, a start, a curve.

Links are alike whatever their number: each has hits at some moments of 400 days.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.micro.growth import grow, key_of, moments
from bench.peers.peer import on_disk
from bench.servers import rss_mb
from bench.wrk import Requests, drive
from testing.server import RunningServer

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MOMENTS = 5  # of each link
FLUSHED = 10_000  # links of a flush that is measured


def measure(folder: Path, links: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Fills a store with so many links, flushes some of them again, starts a server on it and asks it for curves."""
    data = folder / "data"
    data.mkdir(parents=True)
    grown = grow(data, links, moments(MOMENTS), FLUSHED, rounds)
    size = sum(map(on_disk, data.glob("clickcurve.db*")))
    chance, starts, took = random.Random(3), [], []
    keys = [key_of(chance.randrange(links), links) for _ in range(20_000)]
    curves = Requests.paths("GET", folder / "paths.txt", (f"/v1/links/{key}/curve?last=30d" for key in keys))
    for _ in range(rounds):
        begun = perf_counter()
        with RunningServer(data) as server:
            starts.append(perf_counter() - begun)
            took.append(drive(server.url, curves, 1, seconds).took)
            rss = rss_mb([server.pid])
    shutil.rmtree(folder)
    return {
        "links": links,
        "filled_s": grown.made_s,
        "bytes_a_link": size / links,
        "flush_us": [processor for processor, _ in grown.flush_us],
        "start_s": starts,
        "p50": [each.p50_ms for each in took],
        "p99": [each.p99_ms for each in took],
        "rss_mb": rss,
    }
