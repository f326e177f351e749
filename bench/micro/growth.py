"""What a flush and a fold cost a row as links grow: `python -m bench.micro.growth --links 50000 1000000`.

Each link has three minutes of hits, two days old. Then some links get a hit, and then a day has passed: all rows fold.
Processor time is what to compare; a million links take some minutes and 40 MB, ten million ten times that.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections.abc import Awaitable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, time

from clickcurve.buckets.ladder import DAY_S, MINUTE_S, fold_day
from ingest.batch import Batch
from ingest.flush import Pace
from ingest.journal.journal import Journal
from ingest.owner import Owner
from retention.run import run_pass
from storage.sqlite.store import SqliteStore

LINKS_PER_BATCH = 100_000
FLUSH_ROWS = 20_000
ROUNDS = 5


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--links", type=int, nargs="+", default=[50_000, 1_000_000])
    options.add_argument("--folder", type=Path, help="where to put the store (default: the system's temporary folder)")
    chosen = options.parse_args()
    print("     links  flush us/row: processor  wall   fold us/row: processor  wall   bytes a link")
    for links in chosen.links:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            print(asyncio.run(measure(Path(folder), links)), flush=True)


async def measure(folder: Path, links: int) -> str:
    """Returns the line of a store of so many links."""
    ago_s = [2 * DAY_S]
    store = SqliteStore(folder / "clickcurve.db", None)
    pace = Pace(lambda: 0.0, 15.0, lambda: False)
    journal = Journal.open(folder / "journal-1")
    owner = Owner(journal, store, lambda: time() - ago_s[0], lambda: "bench", pace, "bench", alone=True)
    for batch in _batches(links, int(time()) - ago_s[0]):
        await owner.accept(batch)
        await owner.flush()
    chance, flushes = random.Random(5), []
    rows = min(FLUSH_ROWS, links)
    for _ in range(ROUNDS):
        minute = int(time() - ago_s[0]) // MINUTE_S * MINUTE_S
        await owner.accept(Batch({minute: {_key(n): 1 for n in chance.sample(range(links), rows)}}))
        flushes.append(await _timed(owner.flush(), rows))
    ago_s[0] = 0
    fold = await _timed(run_pass(owner, fold_day(int(time()))), links)
    await owner.close()
    store.close()
    size = (folder / "clickcurve.db").stat().st_size / links
    flush = [median(each) for each in zip(*flushes, strict=True)]
    return f"{links:10,}{flush[0]:25.1f}{flush[1]:6.1f}{fold[0]:25.1f}{fold[1]:6.1f}{size:15.1f}"


def _batches(links: int, now: int) -> Iterator[Batch]:
    for first in range(0, links, LINKS_PER_BATCH):
        keys = [_key(n) for n in range(first, min(links, first + LINKS_PER_BATCH))]
        yield Batch({now // MINUTE_S * MINUTE_S - MINUTE_S * ago: dict.fromkeys(keys, 1 + ago) for ago in range(3)})


def _key(n: int) -> str:
    """Eight signs, scattered: neighbours in the store are not alike."""
    return f"{n * 2_654_435_761 % 2**32:08x}"


async def _timed(work: Awaitable[object], rows: int) -> tuple[float, float]:
    """Returns how many microseconds of processor and wall time the work takes for each row."""
    processor, wall = process_time(), perf_counter()
    await work
    return (process_time() - processor) / rows * 1e6, (perf_counter() - wall) / rows * 1e6


if __name__ == "__main__":
    main()
