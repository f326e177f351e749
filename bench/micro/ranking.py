"""Measure `top` over many links while flushes of 30,000 rows go on: `python -m bench.micro.ranking [--links 1000000]`.

The file is made directly through the store, in two minutes for a million links. Shapes: `popular`, links as they are
used, the n-th with 1/n of the hits, each over its own part of the last 400 days; `equal`, 30 hits each; `near`, a
million and some hits each, all different; `burst`, a thousand hits 13 months ago and a few since.
Each line: how long a ranking takes in wall time and in processor time, and how many links it reads.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time

from bench.micro.flushed import begun_flush
from clickcurve.buckets.codec import encode
from clickcurve.buckets.ladder import CLICKS, DAY_S, MINUTE_S, fold_day
from clickcurve.buckets.row import EMPTY, Delta, Row, add, next_due
from clickcurve.buckets.upper_bounds import upper_bounds_of
from ingest.buffer import Buffer
from query.lists.key_kind import LINK
from query.lists.listing import Listing
from query.parameters import parse_parameters
from storage.contract import OPEN, Held, OwnerRecord, Ranking, SavedRow
from storage.sqlite.store import SqliteStore

NOW = 1_772_407_680  # 2026-03-01T23:28:00Z
CHUNK = 500
FLUSH_ROWS = 30_000
QUESTIONS = ("", "last=1d", "last=7d", "last=30d", "last=12mo", "last=60m", "last=24h", "last=30d&bots=include")
LIMITS = (20, 1_000)
Shape = Callable[[random.Random, int, int], dict[int, int]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--links", type=int, default=1_000_000)
    options.add_argument("--shape", choices=SHAPES, default="popular")
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--folder", type=Path, help="where to put the file (default: the system's temporary folder)")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        for line in run(Path(folder) / "bench.db", chosen.links, SHAPES[chosen.shape], chosen.rounds):
            print(line, flush=True)


def run(path: Path, links: int, shape: Shape, rounds: int) -> Iterator[str]:
    store, held = SqliteStore(path, CLICKS), Held(1, 1, "bench")
    store.create_owner(OwnerRecord(1, 1, "bench", "bench", "bench", OPEN, 0, 0))
    begun = perf_counter()
    keys = fill(store, held, links, shape)
    yield f"{links:,} links, {path.stat().st_size / links:.1f} B each, made in {perf_counter() - begun:.0f} s"
    drawn = random.Random(2)
    questions = [f"{query}&limit={limit}" for query in QUESTIONS for limit in LIMITS]
    spans: dict[str, list[tuple[float, float, int]]] = {question: [] for question in questions}
    flushes = []
    for number in range(1, rounds + 1):
        now = NOW + 15 * number
        some = drawn.sample(keys, min(FLUSH_ROWS, links))
        began = process_time()
        flush(store, held, number, some, now)
        flushes.append((process_time() - began) / len(some) * 1e6)
        for question in questions:
            spans[question].append(ask(store, question, now))
    yield f"flushes of {min(FLUSH_ROWS, links):,} rows: {statistics.median(flushes):.1f} us of processor time a row"
    yield f"{'question':<32}{'p50 ms':>10}{'p99 ms':>10}{'cpu ms':>10}{'links read':>12}"
    for question, found in spans.items():
        wall, cpu, read = (sorted(values) for values in zip(*found, strict=True))
        yield f"{question:<32}{median(wall):>10.1f}{wall[-1]:>10.1f}{median(cpu):>10.1f}{median(read):>12,.0f}"
    store.close()


median = statistics.median


def fill(store: SqliteStore, held: Held, links: int, shape: Shape) -> list[str]:
    """Saves a row for each link, with the shape's hits; returns the keys."""
    drawn = random.Random(1)
    store.begin(held, 0, 1, 0)
    keys = [_key(n) for n in range(links)]
    rows: dict[str, SavedRow] = {}
    for rank, key in sorted(enumerate(keys, 1), key=lambda each: each[1]):
        row = _row(shape(drawn, rank, links))
        rows[key] = SavedRow(encode(row), next_due(row, CLICKS), None, upper_bounds=upper_bounds_of(row, CLICKS))
        if len(rows) == CHUNK:
            store.save_own(held, 1, rows, {})
            rows = {}
    store.save_own(held, 1, rows, {})
    return keys


def _row(hits: dict[int, int]) -> Row:
    return add(EMPTY._replace(fold_day=fold_day(NOW)), Delta(hits, {}), CLICKS)


def flush(store: SqliteStore, held: Held, number: int, keys: list[str], now: int) -> None:
    buffer = Buffer(0)
    buffer.add_singles(now // MINUTE_S * MINUTE_S, keys, now * 1_000_000)
    begun_flush(store, held, number + 1, buffer, now).write()


def ask(store: SqliteStore, question: str, now: int) -> tuple[float, float, int]:
    """Returns the milliseconds of one ranking, by the wall and of the processor, and how many links it read."""
    counting = _Counting(store)
    links = Listing(LINK, counting, lambda key: [], dict, lambda: 0)  # type: ignore[arg-type]
    query = dict(part.split("=") for part in question.split("&") if part)
    parameters = parse_parameters(query)
    began, cpu = perf_counter(), process_time()
    asyncio.run(links.rankings.best(parameters, now))
    return (perf_counter() - began) * 1e3, (process_time() - cpu) * 1e3, counting.read


class _Counting:
    """A store that counts the links which rankings read."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.read = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def ranked(self, ranking: Ranking) -> _CountingView:
        return _CountingView(self, self._store.ranked(ranking))


class _CountingView:
    def __init__(self, counting: _Counting, ranked: object) -> None:
        self._counting, self._ranked = counting, ranked

    def __enter__(self) -> _CountingView:
        self._links = self._ranked.__enter__()  # type: ignore[attr-defined]
        assert self._links is not None
        return self

    def __exit__(self, *error: object) -> None:
        self._ranked.__exit__(*error)  # type: ignore[attr-defined]

    def candidates(self) -> object:
        return self._links.candidates()

    def links(self, keys: list[str]) -> object:
        self._counting.read += len(keys)
        return self._links.links(keys)


def _key(n: int) -> str:
    """Six signs of base 62, as shorteners make them."""
    signs = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    n = (n * 2_654_435_761 + 12_345) % 62**6
    return "".join(signs[n // 62**place % 62] for place in range(6))


def _minutes_ago(days: float) -> int:
    return (NOW - int(days * DAY_S)) // MINUTE_S * MINUTE_S


def _popular(drawn: random.Random, rank: int, links: int) -> dict[int, int]:
    total = 1 + 3 * links // rank
    begun, length = drawn.random() * 400, drawn.choice((1, 7, 30, 400))
    pieces = min(total, 200)
    hits: dict[int, int] = {}
    for _ in range(pieces):
        minute = _minutes_ago(max(0.0, begun - drawn.random() * length))
        hits[minute] = hits.get(minute, 0) + total // pieces
    return hits


def _equal(drawn: random.Random, rank: int, links: int) -> dict[int, int]:
    return {_minutes_ago(day * 1.3 + 0.02): 3 for day in range(10)}


def _near(drawn: random.Random, rank: int, links: int) -> dict[int, int]:
    return {_minutes_ago(day * 1.3 + 0.02): 100_000 + (rank if day == 3 else 0) for day in range(10)}


def _burst(drawn: random.Random, rank: int, links: int) -> dict[int, int]:
    last = drawn.random() * 60
    return {_minutes_ago(400): 1_000 + rank % 500, _minutes_ago(last + 20): 2 + rank % 7, _minutes_ago(last): 1}


SHAPES: dict[str, Shape] = {"popular": _popular, "equal": _equal, "near": _near, "burst": _burst}

if __name__ == "__main__":
    main()
