"""Keeps hits as raw rows in ClickHouse, and asks: `raw_clickhouse.py FOLDER CSV KEYS START END`, which prints JSON.

It runs in the environment of the peers, which has chdb and nothing of ours.
"""

from __future__ import annotations

import json
import sys
from statistics import median
from time import perf_counter
from typing import Any

ROUNDS = 5


def main(folder: str, csv: str, keys: str, start: str, end: str) -> None:
    """Loads a CSV of key, time, ref, country, device, one line a hit; prints bytes and milliseconds."""
    from chdb.session import Session

    db: Any = Session(f"{folder}/raw")
    db.query("CREATE DATABASE c ENGINE = Atomic")
    word = "LowCardinality(String)"
    db.query(
        f"CREATE TABLE c.hits (key String CODEC(ZSTD), ts UInt32 CODEC(Delta, ZSTD), ref {word} CODEC(ZSTD),"
        f" country {word} CODEC(ZSTD), device {word} CODEC(ZSTD))"
        " ENGINE = MergeTree ORDER BY (key, ts) SETTINGS index_granularity = 1024"
    )
    shape = "key String, ts UInt32, ref String, country String, device String"
    db.query(f"INSERT INTO c.hits SELECT * FROM file('{csv}', 'CSV', '{shape}')")
    db.query("OPTIMIZE TABLE c.hits FINAL")
    (size,) = str(db.query("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'hits'")).split()
    span = f"ts >= {start} AND ts < {end}"
    by = "SELECT {what}, count() AS n FROM c.hits WHERE {where} GROUP BY {what} ORDER BY n DESC LIMIT 20"

    def took_ms(what: str, *wheres: str) -> float:
        times = []
        for where in wheres:
            begun = perf_counter()
            str(db.query(by.format(what=what, where=where)))
            times.append((perf_counter() - begun) * 1000)
        return median(times)

    links = [f"key = '{key}' AND {span}" for key in keys.split(",")]
    figures = {
        "bytes": int(size),
        "rows": int(str(db.query("SELECT count() FROM c.hits"))),
        "ref, one link": took_ms("ref", *links * ROUNDS),
        "ref, all links": took_ms("ref", *[span] * ROUNDS),
        "ref and country, one link": took_ms("ref, country", *links * ROUNDS),
        "ref and country, all links": took_ms("ref, country", *[span] * ROUNDS),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
