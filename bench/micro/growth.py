"""What a flush and a fold cost a row as links grow: `python -m bench.micro.growth --links 1000 1000000 10000000`.

Each link has three minutes of hits, two days old; the rows are written as they are, in the order of keys. Then some
links get a hit, and then a day has passed: rows fold, 200,000 at most. Processor time is what to compare.
A million links take some 40 seconds and 50 MB, ten million some minutes and 500 MB.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections.abc import Awaitable, Iterable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, time

from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, MINUTE_S, fold_day
from clickcurve.buckets.row import EMPTY, Delta, apply, next_due
from clickcurve.buckets.upper_bounds import upper_bounds_of
from ingest.batch import Batch
from ingest.flush import Pace
from ingest.journal.journal import Journal
from ingest.owner import Owner
from retention.run import run_pass
from storage.contract import Held, SavedRow
from storage.sqlite.store import SqliteStore

ROWS_PER_SAVE = 20_000
FLUSH_ROWS = 20_000
FOLDED_ROWS = 200_000
ROUNDS = 5


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--links", type=int, nargs="+", default=[50_000, 1_000_000])
    options.add_argument("--folder", type=Path, help="where to put the store (default: the system's temporary folder)")
    chosen = options.parse_args()
    print("     links  flush us/row: processor  wall   fold us/row: processor  wall   bytes a link   made in s")
    for links in chosen.links:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            print(asyncio.run(measure(Path(folder), links)), flush=True)


async def measure(folder: Path, links: int) -> str:
    """Returns the line of a store of so many links."""
    ago_s, begun = [2 * DAY_S], perf_counter()
    store = SqliteStore(folder / "clickcurve.db", None)
    pace = Pace(lambda: 0.0, 15.0, lambda: False)
    journal = Journal.open(folder / "journal-1")
    owner = Owner(journal, store, lambda: time() - ago_s[0], lambda: "bench", pace, "bench", alone=True)
    await owner.accept(Batch({int(time() - ago_s[0]) // MINUTE_S * MINUTE_S: {_key(0, links): 1}}))
    await owner.flush()
    await asyncio.to_thread(_fill, store, links, int(time()) - ago_s[0])
    made_s = perf_counter() - begun
    chance, flushes = random.Random(5), []
    rows = min(FLUSH_ROWS, links)
    for _ in range(ROUNDS):
        minute = int(time() - ago_s[0]) // MINUTE_S * MINUTE_S
        await owner.accept(Batch({minute: {_key(n, links): 1 for n in chance.sample(range(links), rows)}}))
        flushes.append(await _timed(owner.flush(), rows))
    ago_s[0] = 0
    some = min(FOLDED_ROWS, links)
    fold = await _timed(run_pass(_Part(owner, some), fold_day(int(time()))), some)
    await owner.close()
    store.close()
    size = (folder / "clickcurve.db").stat().st_size / links
    flush = [median(each) for each in zip(*flushes, strict=True)]
    return f"{links:10,}{flush[0]:25.1f}{flush[1]:6.1f}{fold[0]:25.1f}{fold[1]:6.1f}{size:15.1f}{made_s:12.0f}"


def _fill(store: SqliteStore, links: int, now: int) -> None:
    """Saves the same row for each link, as its owner would."""
    (record,) = store.owners()
    held = Held(record.owner, record.epoch, record.holder)
    minutes = {now // MINUTE_S * MINUTE_S - MINUTE_S * ago: 1 + ago for ago in range(3)}
    row = apply(EMPTY, Delta(minutes, {}), record.begun, fold_day(now), 0, CLICKS)
    saved = SavedRow(encode(row), next_due(row, CLICKS), upper_bounds=upper_bounds_of(row, CLICKS))
    with store.saving(held, record.begun) as save:
        for first in range(0, links, ROWS_PER_SAVE):
            save(dict.fromkeys((_key(n, links) for n in range(first, min(links, first + ROWS_PER_SAVE))), saved))


class _Part:
    """An owner who says of so many due rows only that they are."""

    def __init__(self, owner: Owner, rows: int) -> None:
        self._owner, self._left = owner, rows
        self.flush = owner.flush

    def revisit(self, keys: Iterable[str]) -> None:
        self._owner.revisit(keys)

    def due(self, fold_day: int, after: str | None, limit: int, /) -> list[str]:
        found = self._owner.due(fold_day, after, min(limit, self._left)) if self._left else []
        self._left -= len(found)
        return found

    def visited(self, fold_day: int, /) -> None:
        """Returns at once: others are due still."""


def _key(n: int, links: int) -> str:
    """Eight signs, in ascending order, evenly scattered."""
    return f"{n * (2**32 // links):08x}"


async def _timed(work: Awaitable[object], rows: int) -> tuple[float, float]:
    """Returns how many microseconds of processor and wall time the work takes for each row."""
    processor, wall = process_time(), perf_counter()
    await work
    return (process_time() - processor) / rows * 1e6, (perf_counter() - wall) / rows * 1e6


if __name__ == "__main__":
    main()
