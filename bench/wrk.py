"""Drives a server with wrk, a load generator that costs far less than what it measures."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

from bench.connection import request
from bench.measure import Percentiles
from bench.servers import processor_s

# The heads of requests: the same in each; a proxy's fields, with other values in each; these, and a field that keeps a
# request off the fast path.
SAME, VARYING, ASGI = "same head", "heads vary", "heads vary, through ASGI"
RATE, PROCESSOR = "{} /s", "processor {} us"


class Round(NamedTuple):
    """What one run of wrk saw: whole requests, their rate, how long they took, and the server's processor for each."""

    requests: int
    per_s: float
    took: Percentiles
    processor_us: float

    def figures(self, hits: int = 1) -> dict[str, float]:
        """Returns the figures of so many hits a request."""
        return {RATE: self.per_s * hits, **self.took.figures(), PROCESSOR: self.processor_us / hits}


def by_path(method: str, file: Path, paths: Iterable[str], heads: str = SAME) -> Path:
    """Writes one request for each path, without a body, into a file; `drive` sends them in turn."""
    return written(file, (request(method, path, more=more) for path, more in zip(paths, _fields(heads))))  # noqa: B905


def by_body(path: str, media: str, file: Path, bodies: Iterable[str], heads: str = SAME) -> Path:
    """Writes a POST of each body into a file."""
    return written(file, (request("POST", path, body, media, more) for body, more in zip(bodies, _fields(heads))))  # noqa: B905


def written(file: Path, requests: Iterable[bytes]) -> Path:
    """Writes whole requests as `requests.lua` reads them."""
    with file.open("wb") as out:
        out.writelines(b"%d\n%b" % (len(each), each) for each in requests)
    return file


def _fields(heads: str) -> Iterator[Mapping[str, str]]:
    """Yields what each request has in its head beside what it must have."""
    chance = Random(7)
    last = {"Trailer": "none"} if heads == ASGI else {}
    while heads == SAME:
        yield {}
    while True:
        address = ".".join(map(str, (198, *chance.randbytes(3))))
        trace, span, name = (chance.randbytes(size).hex() for size in (16, 8, 16))
        yield {"traceparent": f"00-{trace}-{span}-01", "X-Request-ID": name, "X-Forwarded-For": address, **last}


def drive(url: str, requests: Path, connections: int, seconds: float, pid: int | None = None) -> Round:
    """Runs wrk with one thread. An answer that is not 2xx or 3xx, or a broken connection, is an error.

    pid: the server's, whose processor time is measured.
    """
    options = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "30s"]
    script = Path(__file__).with_name("requests.lua")
    command = ["wrk", *options, "-s", str(script), url, "--", str(requests)]
    before = processor_s(pid) if pid else 0.0
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    spent_us = (processor_s(pid) - before) * 1e6 if pid else 0.0
    figures = next((line for line in said.stdout.splitlines() if line.startswith("FIGURES ")), None)
    if figures is None:
        raise RuntimeError(f"wrk failed:\n{said.stdout}{said.stderr}")
    count, duration_us, p50_us, p99_us, errors = map(int, figures.split()[1:])
    if errors or not count:
        raise RuntimeError(f"{errors} of {count} requests failed: {requests.name}\n{said.stdout}")
    return Round(count, count / duration_us * 1e6, Percentiles(p50_us / 1000, p99_us / 1000), spent_us / count)
