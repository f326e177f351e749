"""The journal, the file of rows, and both as links and days become many."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import accumulate
from pathlib import Path

from bench.measure import Line, Measure, call_each, ready
from bench.micro.attributes import reader_of
from bench.micro.growth import base62_key, grow, three_minutes
from bench.micro.inside import HELD, begun_flush, owned_store, read
from bench.options import Options
from bench.visitors import LANGUAGES, Visitors, zipf
from clickcurve.buckets.ladder import DAY_S
from clickcurve.keys import ALL_LINKS, breakdown_of, is_breakdown, link_key
from ingest.buffer import Buffer
from ingest.journal.disk import Disk
from ingest.journal.journal import Journal
from storage.contract import SavedRow
from storage.sqlite.store import SqliteStore

PAYLOAD = b"k" * 40
CHUNK, DUE_DAY = 500, 20_400
DIMENSIONS = ("ref", "country", "device", "browser", "os", "lang", "source")
DAYS, END, BATCH = 400, 1_767_268_800, 1_000


class _WriteThenSync(Disk):
    """As on a kernel without synced writes."""

    def __init__(self) -> None:
        super().__init__()
        self._write_and_sync = 0


def journal(options: Options) -> Iterator[Line]:
    """Groups a second by one synced write, by a write and an fdatasync, and without sync; then recovery."""
    for name, disk, always in (
        ("synced write", Disk(), True),
        ("write, fdatasync", _WriteThenSync(), True),
        ("no sync", Disk(), False),
    ):
        for payloads in (1, 32):
            opened = Journal.open(options.folder / f"{name}-{payloads}", disk, sync="always" if always else "off")
            took_s, end = list[float](), time.perf_counter() + 0.5 * options.scale
            while (began := time.perf_counter()) < end or len(took_s) < 2:
                opened.append([PAYLOAD] * payloads, 1_700_000_000_000_000)
                took_s.append(time.perf_counter() - began)
            opened.close()
            p50, p99 = (sorted(took_s)[int(len(took_s) * share)] * 1e6 for share in (0.5, 0.99))
            figure = f"{len(took_s) / sum(took_s):,.0f} groups/s"
            yield Line(f"journal, {name}, {payloads} payloads", figure, f"p50 {p50:,.0f} p99 {p99:,.0f} us")
    filled = Journal.open(options.folder / "recovery", sync="off")
    while filled.bytes_held < options.of(30_000_000):
        filled.append([PAYLOAD] * 32, 1_700_000_000_000_000)
    filled.close()
    began = time.perf_counter()
    again = Journal.open(options.folder / "recovery")
    opened_s = time.perf_counter() - began
    frames = sum(1 for _ in again.frames())
    took = f"opened in {opened_s:.2f} s, read in {time.perf_counter() - began - opened_s:.2f} s"
    yield Line(f"recovery of {again.bytes_held / 1e6:.0f} MB", f"{frames:,} frames", took)
    again.close()


def store(options: Options) -> Iterator[Measure | Line]:
    """The file of 100,000 rows of the sizes that rows have; half of each is saved first, then all of it."""
    path, rows = options.folder / "bench.db", options.of(100_000)
    opened, chance = owned_store(path), random.Random(7)
    options.closing.callback(opened.close)
    opened.begin(HELD, 0, 1, 0)
    sizes = {base62_key(n): min(3_000, max(12, int(chance.lognormvariate(3.5, 0.78)))) for n in range(rows)}
    keys = list(sizes)

    def save(chosen: list[str], share: float = 1.0) -> None:
        saved = {key: SavedRow(os.urandom(max(9, int(sizes[key] * share))), DUE_DAY) for key in chosen}
        with opened.saving(HELD, 1) as save_some:
            for start in range(0, len(chosen), CHUNK):
                save_some({key: saved[key] for key in chosen[start : start + CHUNK]})

    for share in (0.5, 1.0):
        chance.shuffle(keys)
        save(keys, share)
    some = sorted(chance.sample(keys, min(options.of(30_000), rows)))
    chunks = [some[start : start + CHUNK] for start in range(0, len(some), CHUNK)]
    load = [partial(opened.load_own, 1, chunk) for chunk in chunks]
    yield Measure(f"{len(some):,} rows loaded", ready(load), call_each, "us a row", len(some))
    yield Measure(f"{len(some):,} rows saved", ready(some), save, "us a row", len(some))
    asked = chance.choices(keys, k=options.of(20_000))
    yield Measure("rows(key)", ready(asked), lambda made: asyncio.run(_rows_of(opened, made)), "us", len(asked))
    yield Measure("due, nothing found", ready(opened), lambda it: it.due(1, DUE_DAY - 1, None, 1_000), "ms")
    yield Measure("walk", ready(opened), _walk, "us a link", rows)
    wal = path.with_name(f"{path.name}-wal").stat().st_size / 1e6
    mean = f"{statistics.mean(sizes.values()):.0f} B a row; the WAL next to it stands at {wal:.2f} MB"
    yield Line(f"file of {rows:,} links", f"{path.stat().st_size / 1e6:.2f} MB", mean)


async def _rows_of(opened: SqliteStore, keys: Sequence[str]) -> None:
    for key in keys:
        await opened.rows(key)


def _walk(opened: SqliteStore) -> None:
    after = None
    while page := opened.walk(after, 1_000):
        after = page[-1][0]


def growth(options: Options) -> Iterator[Line]:
    """A flush and a fold among few links and many, each with three minutes of hits."""
    for links in options.links or [options.of(50_000), options.of(1_000_000)]:
        data = options.folder / str(links)
        data.mkdir()
        grown = asyncio.run(grow(data, links, three_minutes, 20_000, options.rounds))
        yield Line(f"{links:,} links", *grown.line(links, (data / "clickcurve.db").stat().st_size))


def breakdown_file(options: Options) -> Iterator[Line]:
    """The file of a year by the number of dimensions, flushed at each day's end; a last pass folds what fell quiet.

    Each `--every`-th link by popularity with the hits that it has among all 10 million: rows are as large as in the
    whole. Bytes after a checkpoint, without the journal.
    """
    links = options.links[0] if options.links else options.of(100_000)
    files = [_YearFile(options.folder / f"{width}.db", DIMENSIONS[:width]) for width in (0, 3, 5, 7)]
    met: set[str] = set()
    for now, bodies in _days_of_hits(links, 100 * links, options.every, max(2, options.of(DAYS))):
        for file in files:
            file.live(bodies, now)
        met.update(hit["key"] for body in bodies for hit in json.loads(body))
    stored = [ALL_LINKS, *map(link_key, met)]
    for file in files:
        quiet = [*stored, *map(breakdown_of, stored)] if file.dimensions else stored
        file.live((), END + DAY_S, frozenset(quiet))
        size = file.close()
        rows, together = file.breakdown_bytes()
        of_rows = f"breakdown rows {rows / len(met):.0f} B a link, {together:,} B of all together"
        compared = f"{size / len(met):.0f} B of {len(met):,} links; {of_rows}; flushes {file.spent_s:.0f} s"
        yield Line(f"{len(file.dimensions)} dimensions, a year", f"{size / 1e6:.2f} MB", compared)


class _YearFile:
    """A file, and the owner in front of it; `spent_s`: processor time of its flushes."""

    def __init__(self, path: Path, dimensions: Sequence[str]) -> None:
        self.path, self.dimensions, self.spent_s = path, dimensions, 0.0
        self._reader, self._store, self._number = reader_of(*dimensions), owned_store(path), 0

    def live(self, bodies: Sequence[bytes], now: int, revisit: frozenset[str] = frozenset()) -> None:
        """Takes the bodies of a day and flushes them at its end, `now`."""
        buffer = Buffer(now - now % DAY_S)
        self._number += 1
        for body in bodies:
            buffer.add_batch(read(body, now, self._reader), self._number, visible=True)
        begun = time.process_time()
        begun_flush(self._store, self._number, buffer, now, revisit).write()
        self.spent_s += time.process_time() - begun

    def close(self) -> int:
        """Closes the file; returns its bytes."""
        self._store.close()
        return sum(file.stat().st_size for file in self.path.parent.glob(f"{self.path.name}*"))

    def breakdown_bytes(self) -> tuple[int, int]:
        """Returns the bytes of all links' breakdown rows, and those of the one of all links together."""
        with closing(sqlite3.connect(self.path)) as db:
            sizes = dict(db.execute("SELECT key, length(data) FROM rows"))
        together = sizes.get(breakdown_of(ALL_LINKS), 0)
        return sum(size for key, size in sizes.items() if is_breakdown(key)) - together, together


def _days_of_hits(links: int, hits: int, every: int, days: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yields the end of each day, and its hits on each `every`-th of the links as bodies; half in the last 2/5."""
    chance, visitors = random.Random(5), Visitors()
    kept = range((every - 1) // 2, links, every)
    popular, languages = list(accumulate(1 / (link + 1) ** 1.2 for link in kept)), zipf(len(LANGUAGES), 1.2)
    hits = round(hits * popular[-1] / zipf(links, 1.2)[-1])
    edges = [round(hits * (1 - ((days - day) / days) ** (1 / 1.35))) for day in range(days + 1)]
    language = partial(chance.choices, LANGUAGES, cum_weights=languages)
    for day in range(days):
        now = END - (days - 1 - day) * DAY_S
        some = visitors.hits(edges[day + 1] - edges[day], ("ref", "country", "ua", "source"), now)
        for hit in some:
            link = chance.choices(kept, cum_weights=popular)[0]
            hit |= {"key": f"k{link * 7_919 % links:05d}", "ts": now - 1 - chance.randrange(DAY_S)}
            hit["lang"] = language()[0]
        yield now, [json.dumps(some[n : n + BATCH]).encode() for n in range(0, len(some), BATCH)]
