"""What the SQLite store costs: `python -m bench.micro.store [--rows 100000] [--folder DIR]`, a few seconds.

Rows have the sizes of a measured workload (100,000 links, 400 days, 10 million hits): p50 33 bytes, p99 200, mean 45.
The file is filled as a server would: links appear in random order with half of their bytes, then every row is replaced.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from storage.contract import OPEN, Held, OwnerRecord, SavedRow
from storage.sqlite.store import SqliteStore

CHUNK = 500
FLUSH_ROWS = 30_000
READS = 20_000
DUE_DAY = 20_400


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument(
        "--folder", type=Path, help="where to put the file (default: a folder in the system's temporary one)"
    )
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        for line in run(Path(folder) / "bench.db", chosen.rows):
            print(line)


def run(path: Path, rows: int) -> Iterator[str]:
    random.seed(7)
    store = SqliteStore(path, None)
    held = Held(1, 1, "bench")
    store.create_owner(OwnerRecord(1, 1, "bench", "bench", "bench", OPEN, 0, 0))
    store.begin(held, 0, 1, 0)
    sizes = {_key(n): _row_bytes() for n in range(rows)}
    keys = list(sizes)

    def save(chosen: list[str], share: float = 1.0) -> None:
        saved = {key: SavedRow(os.urandom(max(9, int(sizes[key] * share))), DUE_DAY) for key in chosen}
        with store.saving(held, 1) as save_some:
            for start in range(0, len(chosen), CHUNK):
                save_some({key: saved[key] for key in chosen[start : start + CHUNK]})

    random.shuffle(keys)
    save(keys, 0.5)
    random.shuffle(keys)
    save(keys)
    yield f"{sum(sizes.values()) / rows:.0f} bytes a row, keys of {sum(map(len, keys)) / rows:.1f} bytes"

    some = sorted(random.sample(keys, min(FLUSH_ROWS, rows)))
    load_s = _seconds(lambda: [store.load_own(1, some[start : start + CHUNK]) for start in range(0, len(some), CHUNK)])
    save_s = _seconds(lambda: save(some))
    yield f"{len(some)} rows in chunks of {CHUNK}: load_own {load_s:.3f} s, saved in {save_s:.3f} s"
    yield f"rows(key): p50 {_reads(store, keys)} us"
    yield f"due: {_seconds(lambda: store.due(1, DUE_DAY - 1, None, 1000)) * 1e3:.1f} ms for a pass that finds nothing"
    yield f"walk: {_seconds(lambda: _walk(store)) / rows * 1e6:.1f} us a link"
    wal = path.with_name(f"{path.name}-wal").stat().st_size
    store.close()
    yield f"file {path.stat().st_size / 1e6:.2f} MB for {rows} links; the WAL next to it stood at {wal / 1e6:.2f} MB"


def _key(n: int) -> str:
    """Six signs of base 62, as shorteners make them."""
    signs = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    n = (n * 2_654_435_761 + 12_345) % 62**6
    return "".join(signs[n // 62**place % 62] for place in range(6))


def _row_bytes() -> int:
    """A size drawn so that p50 is 33, p99 about 200 and the mean about 45 bytes."""
    return min(3_000, max(12, int(random.lognormvariate(3.5, 0.78))))


def _seconds(act: Callable[[], object]) -> float:
    start = perf_counter()
    act()
    return perf_counter() - start


def _reads(store: SqliteStore, keys: list[str]) -> str:
    async def read() -> list[float]:
        spans = []
        for key in random.choices(keys, k=READS):
            start = perf_counter()
            await store.rows(key)
            spans.append(perf_counter() - start)
        return spans

    spans = asyncio.run(read())
    return f"{statistics.median(spans) * 1e6:.1f}, p99 {statistics.quantiles(spans, n=100)[98] * 1e6:.1f}"


def _walk(store: SqliteStore) -> None:
    after = None
    while page := store.walk(after, 1000):
        after = page[-1][0]


if __name__ == "__main__":
    main()
