"""What a link costs Clickcurve as links become many: bytes, a flush, a start, a curve.

A store is filled in process, as an owner fills it. Links are alike whatever their number: each has hits at some
moments of 400 days, so that what changes is their number alone.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter, process_time, time
from typing import Any

from bench.peers.peer import on_disk, rss_mb
from bench.wrk import Requests, drive
from clickcurve.buckets.ladder import CLICKS, DAY_S
from ingest.batch import Batch
from server.data_folder import journal_folder
from storage.sqlite.store import SqliteStore
from testing.owner_process import OwnerProcess, TrackedDisk
from testing.server import RunningServer

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MOMENTS = 5  # of each link
FILL = 100_000  # links of a flush while the store is filled
FLUSHED = 10_000  # links of a flush that is measured


def measure(folder: Path, links: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Fill a store with so many links, flush some of them again, start a server on it and ask it for curves."""
    data = folder / "data"
    data.mkdir(parents=True)
    begun = perf_counter()
    flush_us = asyncio.run(_filled(data, links, rounds))
    filled_s = perf_counter() - begun
    size = sum(map(on_disk, data.glob("clickcurve.db*")))
    starts, p50s, p99s = [], [], []
    paths = folder / "paths.txt"
    chance = random.Random(3)
    paths.write_text("".join(f"/v1/links/{_key(chance.randrange(links))}/curve?last=30d\n" for _ in range(20_000)))
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
        "filled_s": filled_s,
        "bytes_a_link": size / links,
        "flush_us": flush_us,
        "start_s": starts,
        "p50": p50s,
        "p99": p99s,
        "rss_mb": rss,
    }


async def _filled(data: Path, links: int, rounds: int) -> list[float]:
    """Processor time of a row of flushes, in microseconds, after the store was filled."""
    now = int(time()) // 60 * 60
    flush_us = []
    with closing(SqliteStore(data / "clickcurve.db", CLICKS)) as store:
        owner = OwnerProcess(journal_folder(data, 1), store, lambda: now, alone=True, disk=TrackedDisk()).owner
        for first in range(0, links, FILL):
            for part in _hits(range(first, min(first + FILL, links)), now):
                await owner.accept(part)
            await owner.flush()
        chance = random.Random(5)
        for _ in range(rounds):
            some = chance.sample(range(links), min(FLUSHED, links))
            await owner.accept(Batch(people={now - 60: {_key(number): 1 for number in some}}))
            begun = process_time()
            await owner.flush()
            flush_us.append((process_time() - begun) / len(some) * 1e6)
        await owner.close()
    return flush_us


def _hits(numbers: range, now: int) -> Iterator[Batch]:
    """Batches of 10,000 links with the hits of their moments."""
    for first in range(numbers.start, numbers.stop, 10_000):
        people: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for number in range(first, min(first + 10_000, numbers.stop)):
            chance = random.Random(number)
            for _ in range(MOMENTS):
                age = int(400 * DAY_S * chance.random() ** 1.35)
                people[(now - age) // 3_600 * 3_600][_key(number)] = 1 + chance.randrange(3)
        yield Batch(people=dict(people))


def _key(number: int) -> str:
    """Six signs, scattered: neighbours in the store are not alike."""
    return f"{number * 7_919_317 % 0xFFFFFF1:06x}"
