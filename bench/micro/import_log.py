"""Lines a second of the access-log reader, one core, next to what it costs to take gzip apart.

    python -m bench.micro.import_log [access.log[.gz]]

Without a file it makes one: 200,000 lines, 2,000 links, 300 agents, a query on every fourth request.
"""

from __future__ import annotations

import gzip
import random
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter

from ingest.imports.access_log import AccessLog

_LINES = 200_000
_PIECE_BYTES = 1 << 20


def made_log(lines: int = _LINES, links: int = 2_000, agents: int = 300) -> bytes:
    """A combined log; 40 lines a second, one request in ten is a 404."""
    draw = random.Random(3)
    weights = [1 / (rank + 1) for rank in range(links)]
    keys = draw.choices([f"k{n:05x}" for n in range(links)], weights, k=lines)
    browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Safari/537.36"
    made = []
    for n, key in enumerate(keys):
        second = n // 40
        clock = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"
        query = f"?utm_source=s{draw.randrange(10**6)}" if n % 4 == 0 else ""
        status = 404 if n % 10 == 0 else 302
        agent = browser.format(n % agents)
        made.append(
            f"203.0.113.{n % 250} - - [17/May/2015:{clock} +0000] "
            f'"GET /{key}{query} HTTP/1.1" {status} 512 "https://example.org/page/{n % 97}" "{agent}"'
        )
    return ("\n".join(made) + "\n").encode()


def pieces(data: bytes) -> Iterable[bytes]:
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + _PIECE_BYTES) + 1 or len(data)
        yield data[start:end]
        start = end


def main() -> None:
    if len(sys.argv) > 1:
        raw = Path(sys.argv[1]).read_bytes()
        data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        data *= max(1, 40_000_000 // len(data))
    else:
        data = made_log()
    for name, statuses in (("302 and its like", (301, 302, 303, 307, 308)), ("every 2xx and 3xx", range(200, 400))):
        log = AccessLog(lambda agent: "bot" in agent, statuses)
        begun = perf_counter()
        lines = hits = 0
        for piece in pieces(data):
            reading = log.read(piece)
            lines += reading.lines
            hits += reading.people_hits + reading.bot_hits
        took = perf_counter() - begun
        print(
            f"{name}: {lines / took:,.0f} lines/s ({lines:,} lines, {hits:,} hits), {len(data) / took / 1e6:.0f} MB/s"
        )
    packed = zlib.compress(data, 6)
    begun = perf_counter()
    zlib.decompress(packed)
    print(f"inflate alone: {len(data) / (perf_counter() - begun) / 1e6:.0f} MB/s")


if __name__ == "__main__":
    main()
