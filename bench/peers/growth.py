"""What a link costs Clickcurve as links become many: bytes, a flush, a start, a curve.

Links are alike whatever their number: each has hits at some moments of 400 days.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.micro.growth import grow, key_of, moments
from bench.peers.peer import on_disk, rss_mb
from bench.wrk import Requests, drive
from testing.server import RunningServer

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MOMENTS = 5  # of each link
FLUSHED = 10_000  # links of a flush that is measured


def measure(folder: Path, links: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Fill a store with so many links, flush some of them again, start a server on it and ask it for curves."""
    data = folder / "data"
    data.mkdir(parents=True)
    grown = asyncio.run(grow(data, links, moments(MOMENTS), FLUSHED, rounds))
    size = sum(map(on_disk, data.glob("clickcurve.db*")))
    starts, p50s, p99s = [], [], []
    paths = folder / "paths.txt"
    chance = random.Random(3)
    keys = [key_of(chance.randrange(links), links) for _ in range(20_000)]
    paths.write_text("".join(f"/v1/links/{key}/curve?last=30d\n" for key in keys))
    for _ in range(rounds):
        begun = perf_counter()
        with RunningServer(data) as server:
            starts.append(perf_counter() - begun)
            run = drive(server.url, Requests.paths("GET", paths), 1, max(1, round(seconds)))
            p50s.append(run.p50_ms)
            p99s.append(run.p99_ms)
            rss = rss_mb([server.pid])
    shutil.rmtree(folder)
    return {
        "links": links,
        "filled_s": grown.made_s,
        "bytes_a_link": size / links,
        "flush_us": [processor for processor, _ in grown.flush_us],
        "start_s": starts,
        "p50": p50s,
        "p99": p99s,
        "rss_mb": rss,
    }
