"""How large a file of a year is by what is kept of hits: `python -m bench.micro.breakdown_file [--every N]`.

A life of 400 days in front of one owner for each number of dimensions: the hits of a day are read as a server reads
them, in batches, and flushed at its end, so rows grow and are folded as in life; a last pass folds those that fell
quiet. Hits as `bench.said` draws them, links by Zipf 1.2, half of the hits in the last two fifths of the days. Bytes of
the files after a checkpoint; what `POST` would sync to a journal is left out.

`--every 20` keeps each twentieth link of the order by popularity (the 10th, the 30th, ...) with the hits that it has
among all: rows are as large as in the whole, in a twentieth of the time. It leaves out the nine most popular links.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path

from bench.micro.breakdown import LANGUAGES, zipf
from bench.micro.flushed import begun_flush
from bench.micro.words import read
from bench.said import Visitors
from clickcurve.buckets.ladder import DAY_S
from clickcurve.keys import ALL_LINKS, breakdown_of, is_breakdown, link_key
from ingest.attributes.country import country_reader
from ingest.attributes.profile import ProfileReader
from ingest.buffer import Buffer
from storage.contract import OPEN, Held, OwnerRecord
from storage.sqlite.store import SqliteStore

DIMENSIONS = ("ref", "country", "device", "browser", "os", "lang", "source")
WIDTHS = (0, 3, 5, 7)
DAYS, END = 400, 1_767_268_800
BATCH = 1_000
SAID = ("ref", "country", "ua", "source")


class YearFile:
    """A file, and the owner in front of it; `spent_s`: processor time of its flushes."""

    def __init__(self, path: Path, dimensions: Sequence[str]) -> None:
        self.path = path
        self.spent_s = 0.0
        self._reader = ProfileReader(dimensions, country_reader("builtin"), frozenset())
        self._store = SqliteStore(path, None)
        self._held, self._number = Held(1, 1, "bench"), 0
        self._store.create_owner(OwnerRecord(1, 1, "bench", "bench", "bench", OPEN, 0, 0))

    def live(self, bodies: Sequence[bytes], now: int, revisit: frozenset[str] = frozenset()) -> None:
        """Takes the bodies of a day and flushes them at its end, `now`."""
        day = now - now % DAY_S
        buffer = Buffer(day)
        for body in bodies:
            buffer.add_batch(read(body, self._reader, now), self._number + 1, visible=True)
        begun = time.process_time()
        self._number += 1
        begun_flush(self._store, self._held, self._number, buffer, now, revisit).write()
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


def days_of_hits(links: int, hits: int, every: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yields the end of each day, and its hits on each `every`-th of the links as bodies."""
    chance, visitors = random.Random(5), Visitors()
    kept = range((every - 1) // 2, links, every)
    shares = [1 / (link + 1) ** 1.2 for link in kept]
    popular, languages = list(accumulate(shares)), zipf(len(LANGUAGES), 1.2)
    hits = round(hits * popular[-1] / zipf(links, 1.2)[-1])
    edges = [hits * (1 - ((DAYS - day) / DAYS) ** (1 / 1.35)) for day in range(DAYS + 1)]
    for day in range(DAYS):
        now = END - (DAYS - 1 - day) * DAY_S
        some = visitors.hits(round(edges[day + 1]) - round(edges[day]), SAID, now)
        for hit in some:
            link = chance.choices(kept, cum_weights=popular)[0]
            hit["key"] = f"k{link * 7_919 % links:05d}"
            hit["ts"] = now - 1 - chance.randrange(DAY_S)
            hit["lang"] = LANGUAGES[chance.choices(range(len(languages)), cum_weights=languages)[0]]
        yield now, [json.dumps(some[n : n + BATCH]).encode() for n in range(0, len(some), BATCH)]


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m bench.micro.breakdown_file", description=__doc__)
    asked.add_argument("--links", type=int, default=100_000)
    asked.add_argument("--hits", type=int, default=10_000_000)
    asked.add_argument("--every", type=int, default=1)
    arguments = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = {width: YearFile(Path(folder) / f"{width}.db", DIMENSIONS[:width]) for width in WIDTHS}
        met: set[str] = set()
        for now, bodies in days_of_hits(arguments.links, arguments.hits, arguments.every):
            for file in files.values():
                file.live(bodies, now)
            met.update(hit["key"] for body in bodies for hit in json.loads(body))
        stored = [ALL_LINKS, *map(link_key, met)]
        for width, file in files.items():
            quiet = stored if not width else [*stored, *map(breakdown_of, stored)]
            file.live((), END + DAY_S, frozenset(quiet))
            size = file.close()
            rows, together = file.breakdown_bytes()
            print(
                f"{width} dimensions: {size / 1e6:6.2f} MB, {size / len(met):4.0f} B a link; breakdown rows "
                f"{rows / len(met):4.0f} B a link, {together:,} B of all together; flushes {file.spent_s:.0f} s"
            )
        print(f"{len(met):,} links")


if __name__ == "__main__":
    main()
