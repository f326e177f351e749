"""Sets counts beside raw rows: bytes and times of the same hits here and in ClickHouse, one row a hit.

python -m bench.peers.raw_rows 2000000 (after `make peers-programs`, or with chdb in .venv/peers)
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, sleep, time

from bench.peers.in_process import ENVIRONMENT
from bench.peers.raw_clickhouse import ROUNDS
from bench.visitors import values
from bench.workload import zipf
from clickcurve.buckets.ladder import DAY_S
from testing.client import Clickcurve, http_client
from testing.server import ROOT, RunningServer

NOW = int(time()) // DAY_S * DAY_S
START, END = NOW - 30 * DAY_S, NOW
LINKS, ASKED, BATCH = 10_000, 20, 50_000
DIMENSIONS = ("ref", "country", "device")
AGENTS = {
    "phone": "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148 Safari/604.1",
    "desktop": "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0",
    "tablet": "Mozilla/5.0 (iPad; CPU OS 17_0 like Mac OS X) Mobile/15E148 Safari/604.1",
    "tv": "Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) AppleWebKit/537.36 TV Safari/537.36",
}
NDJSON = {"Content-Type": "application/x-ndjson"}
Row = tuple[str, int, str, str, str]


def rows(hits: int) -> list[Row]:
    """Draws hits of 400 days, oldest first: key, time, ref, country, device."""
    chance = random.Random(11)
    times = sorted(NOW - 60 - int(400 * DAY_S * chance.random() ** 1.35) for _ in range(hits))
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
    dimensions = ("--breakdown-dimensions", ",".join(DIMENSIONS), "--breakdown-visitors", "off")
    flags = (*dimensions, "--breakdown-ref-aliases", "off", "--flush-s", "5")
    server = RunningServer(folder / "data", *flags)
    with server, http_client(server.url) as client:
        for body in bodies(hits):
            while (answer := client.post("/v1/hits", content=body, headers=NDJSON, timeout=60)).status_code == 429:
                sleep(1)  # the buffer is full until the flush
            answer.raise_for_status()
        settled(server)
    (size,) = (path.stat().st_size for path in (folder / "data").glob("clickcurve.db"))
    span = f"from={START}&to={END}"
    server = RunningServer(folder / "data", *flags)
    with server, http_client(server.url) as client:

        def took_ms(*paths: str) -> float:
            times = []
            for path in paths:
                begun = perf_counter()
                client.get(f"{path}?{span}").raise_for_status()
                times.append((perf_counter() - begun) * 1000)
            return median(times)

        settled(server)
        counted = client.get("/v1/total").json()["total"]
        links = [f"/v1/links/{key}/by/ref" for key in keys]
        return {
            "bytes": size,
            "rows": counted,
            "ref, one link": took_ms(*links * ROUNDS),
            "ref, all links": took_ms(*["/v1/by/ref"] * ROUNDS),
        }


def settled(server: RunningServer) -> None:
    """Waits until the server has flushed all that it took."""
    with Clickcurve(server.url) as client:
        while client.metric("clickcurve_buffered_entries"):
            sleep(0.1)


def raw(folder: Path, hits: Sequence[Row], keys: Sequence[str]) -> dict[str, float]:
    """Keeps the hits in ClickHouse; returns the same figures, and those of pairs."""
    path = folder / "hits.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(hits)
    program = str(ROOT / "bench" / "peers" / "raw_clickhouse.py")
    words = [str(ENVIRONMENT / "bin" / "python"), program, str(folder), str(path), ",".join(keys), str(START), str(END)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main(hits: int) -> None:
    drawn = rows(hits)
    keys = [f"l{link}" for link in range(ASKED)]
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = counts(Path(folder), drawn, keys), raw(Path(folder), drawn, keys)
    if not ours["rows"] == theirs["rows"] == hits:
        raise AssertionError(f"{ours['rows']} and {theirs['rows']} of {hits} hits are there")
    for name, figure in theirs.items():
        print(f"{name:28} {ours.get(name, float('nan')):>16,.2f} {figure:>16,.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
