"""Prints which build this process runs, then all that a year of flushes and folds writes into a new data folder."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from bench.inside import Owned, read, reader_of
from bench.workload import ATTRIBUTES, DIMENSIONS, Visitors
from clickcurve.buckets.ladder import DAY_S
from clickcurve.keys import breakdown_of
from server.version import program_build

BEGUN = 1_767_268_800
DAYS = (0, 1, 2, 3, 7, 8, 30, 31, 62, 90, 364, 400)
HITS = 400
POPULAR = [f"popular{number}" for number in range(20)]  # each has hits on every day, and many values
SALT = b"a salt of thirty-two bytes length"


def write(folder: Path) -> Path:
    """Counts hits with attributes and visitors, and plain ones; returns the database."""
    file, visitors = Owned.of_file(folder, BEGUN), Visitors()
    for day in DAYS:
        now = file.now = BEGUN + day * DAY_S
        reader = reader_of(*DIMENSIONS, salts={now - now % DAY_S: SALT})
        keys = [POPULAR[number % len(POPULAR)] for number in range(HITS)]
        of_popular = visitors.hits(HITS, (*ATTRIBUTES, "ip"), now, keys)
        for hits in (of_popular, visitors.hits(HITS, ATTRIBUTES, now), visitors.hits(HITS, (), now)):
            file.take(read(json.dumps(hits).encode(), now, reader))
        file.flush(revisit=[*POPULAR, *map(breakdown_of, POPULAR)])
    file.close()
    return folder / "clickcurve.db"


def main(folder: Path) -> None:
    print(program_build())
    with closing(sqlite3.connect(write(folder))) as database:
        for query in (
            "SELECT key, due_day, hex(data) FROM rows ORDER BY key",
            "SELECT * FROM leaders ORDER BY ranking, key",
            "SELECT ranking, leaders, hex(bars), gone FROM bars ORDER BY ranking",
        ):
            for row in database.execute(query):
                print(json.dumps(row))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
