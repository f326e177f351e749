"""Drives a server with wrk, a load generator that costs far less than what it measures."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.connection import request
from bench.measure import Percentiles

# The heads of requests: the same in each; a proxy's fields, with other values in each; these, and a field that keeps a
# request off the fast path.
SAME, VARYING, ASGI = "same head", "heads vary", "heads vary, through ASGI"


@dataclass(frozen=True, slots=True)
class Round:
    """What one run of wrk saw: whole requests, their rate, and how long they took."""

    requests: int
    per_s: float
    took: Percentiles


@dataclass(frozen=True, slots=True)
class Requests:
    """Whole requests in a file, which are sent in turn (`requests.lua`)."""

    file: Path

    @classmethod
    def paths(cls, method: str, file: Path, paths: Iterable[str], heads: str = SAME) -> Requests:
        """Returns one request for each path, without a body."""
        return cls._of(file, (request(method, path, more=more) for path, more in zip(paths, _fields(heads))))  # noqa: B905

    @classmethod
    def bodies(cls, path: str, media: str, file: Path, bodies: Iterable[str], heads: str = SAME) -> Requests:
        """Returns a POST of each body."""
        return cls._of(file, (request("POST", path, body, media, more) for body, more in zip(bodies, _fields(heads))))  # noqa: B905

    @classmethod
    def _of(cls, file: Path, requests: Iterable[bytes]) -> Requests:
        with file.open("wb") as written:
            written.writelines(b"%d\n%b" % (len(each), each) for each in requests)
        return cls(file)


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


def drive(url: str, requests: Requests, connections: int, seconds: float) -> Round:
    """Runs wrk with one thread. An answer that is not 2xx or 3xx, or a broken connection, is an error."""
    options = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "30s"]
    script = Path(__file__).with_name("requests.lua")
    command = ["wrk", *options, "-s", str(script), url, "--", str(requests.file)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    figures = next((line for line in said.stdout.splitlines() if line.startswith("FIGURES ")), None)
    if figures is None:
        raise RuntimeError(f"wrk failed:\n{said.stdout}{said.stderr}")
    count, duration_us, p50_us, p99_us, errors = map(int, figures.split()[1:])
    if errors or not count:
        raise RuntimeError(f"{errors} of {count} requests failed: {requests.file.name}\n{said.stdout}")
    return Round(count, count / duration_us * 1e6, Percentiles(p50_us / 1000, p99_us / 1000))
