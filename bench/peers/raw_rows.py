"""Counts beside raw rows: bytes and milliseconds of the same hits here and in ClickHouse, one row a hit."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, time

from bench.command import Options
from bench.measure import Line
from bench.peers.measure import running
from bench.peers.over_http import OwnPeer
from bench.peers.peer import ClickHouse
from bench.reads import post
from bench.workload import age_s, values, zipf
from clickcurve.buckets.ladder import DAY_S
from testing.client import Clickcurve

NOW = int(time()) // DAY_S * DAY_S
START, END = NOW - 30 * DAY_S, NOW
LINKS, ASKED, BATCH, ROUNDS = 10_000, 20, 50_000, 5
DIMENSIONS = ("ref", "country", "device")
FLAGS = (
    *("--breakdown-dimensions", ",".join(DIMENSIONS), "--breakdown-visitors", "off"),
    *("--breakdown-ref-aliases", "off", "--flush-s", "5"),
)
AGENTS = {
    "phone": "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148 Safari/604.1",
    "desktop": "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0",
    "tablet": "Mozilla/5.0 (iPad; CPU OS 17_0 like Mac OS X) Mobile/15E148 Safari/604.1",
    "tv": "Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) AppleWebKit/537.36 TV Safari/537.36",
}
WORD = "LowCardinality(String)"
TABLE = f"""
    CREATE TABLE c.raw (key String CODEC(ZSTD), ts UInt32 CODEC(Delta, ZSTD), ref {WORD} CODEC(ZSTD),
    country {WORD} CODEC(ZSTD), device {WORD} CODEC(ZSTD))
    ENGINE = MergeTree ORDER BY (key, ts) SETTINGS index_granularity = 1024"""
LOAD = """
    INSERT INTO c.raw SELECT * FROM
    file('{path}', 'CSV', 'key String, ts UInt32, ref String, country String, device String')"""
SIZE = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'c' AND table = 'raw'"
BEST = "SELECT {by}, count() AS n FROM c.raw WHERE {of} GROUP BY {by} ORDER BY n DESC LIMIT 20"
Row = tuple[str, int, str, str, str]


def rows(hits: int) -> list[Row]:
    """Draws hits of 400 days, oldest first: key, time, ref, country, device."""
    chance = random.Random(11)
    times = sorted(NOW - 60 - age_s(chance) for _ in range(hits))
    links = chance.choices(range(LINKS), cum_weights=zipf(LINKS, 1.0), k=hits)
    said = [values(name, hits, random.Random(seed)) for seed, name in enumerate(DIMENSIONS)]
    return [(f"l{link}", t, *words) for link, t, *words in zip(links, times, *said, strict=True)]


def bodies(hits: Sequence[Row]) -> Iterator[bytes]:
    """Yields the hits as NDJSON."""
    for at in range(0, len(hits), BATCH):
        lines = [
            json.dumps({"key": key, "ts": t, "ref": ref, "country": country, "ua": AGENTS[device]})
            for key, t, ref, country, device in hits[at : at + BATCH]
        ]
        yield "\n".join(lines).encode()


def counts(folder: Path, hits: Sequence[Row], keys: Sequence[str]) -> dict[str, float]:
    """Counts the hits in a server; returns the bytes of its file and the milliseconds of questions."""
    asked = f"by/ref?from={START}&to={END}"
    with running(OwnPeer(folder / "counts", *FLAGS)) as peer:
        with Clickcurve(peer.url) as client:
            for body in bodies(hits):
                post(client, body)
        peer.settle()
        return {
            "bytes": (peer.folder / "data" / "clickcurve.db").stat().st_size,
            "rows": peer.counted(),
            "ref, one link": _median_ms(peer.get, [f"/v1/links/{key}/{asked}" for key in keys]),
            "ref, all links": _median_ms(peer.get, [f"/v1/{asked}"]),
        }


def raw(folder: Path, hits: Sequence[Row], keys: Sequence[str]) -> dict[str, float]:
    """Keeps the hits in ClickHouse; returns the same figures, and those of pairs."""
    path = folder / "hits.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(hits)
    span = f"ts >= {START} AND ts < {END}"
    spans = {"one link": [f"key = '{key}' AND {span}" for key in keys], "all links": [span]}
    with running(ClickHouse(folder / "raw")) as peer:
        ask = partial(peer.tell, "rows")
        for statement in (TABLE, LOAD.format(path=path), "OPTIMIZE TABLE c.raw FINAL"):
            ask(statement)
        found: dict[str, float] = {"bytes": int(ask(SIZE)[0][0]), "rows": int(ask("SELECT count() FROM c.raw")[0][0])}
        for what, by in (("ref", "ref"), ("ref and country", "ref, country")):
            for whose, some in spans.items():
                found[f"{what}, {whose}"] = _median_ms(ask, [BEST.format(by=by, of=of) for of in some])
        return found


def _median_ms(ask: Callable[[str], object], questions: Sequence[str]) -> float:
    took_ms = []
    for question in [*questions] * ROUNDS:
        begun = perf_counter()
        ask(question)
        took_ms.append((perf_counter() - begun) * 1_000)
    return median(took_ms)


def raw_rows(options: Options) -> Iterator[Line]:
    """The same hits here as counts, and there one row each. Raises RuntimeError unless both have all."""
    hits = rows(options.hits)
    keys = [f"l{link}" for link in range(ASKED)]
    ours, theirs = counts(options.folder, hits, keys), raw(options.folder, hits, keys)
    if not ours["rows"] == theirs["rows"] == options.hits:
        raise RuntimeError(f"{ours['rows']} and {theirs['rows']} of {options.hits} hits are there")
    for name, figure in theirs.items():
        mine = f"{ours[name]:,.2f}" if name in ours else "cannot"
        yield Line(f"{options.hits:,} hits: {name}", mine, f"raw rows {figure:,.2f}")
