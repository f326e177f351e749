"""The file of a year of hits, by the number of dimensions that links are broken down by."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import accumulate
from pathlib import Path
from time import process_time

from bench.command import Options
from bench.measure import Line
from bench.micro.attributes import reader_of
from bench.micro.inside import begun_flush, owned_store, read
from bench.visitors import LANGUAGES, Visitors
from bench.workload import zipf
from clickcurve.buckets.ladder import DAY_S
from clickcurve.keys import ALL_LINKS, breakdown_of, is_breakdown, link_key
from ingest.buffer import Buffer

DIMENSIONS = ("ref", "country", "device", "browser", "os", "lang", "source")
DAYS, END, BATCH = 400, 1_767_268_800, 1_000


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
        begun = process_time()
        begun_flush(self._store, self._number, buffer, now, revisit).write()
        self.spent_s += process_time() - begun

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
