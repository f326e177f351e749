"""Sends requests to a server: as many as it takes by wrk, one after the other, or at moments of their own.

wrk costs far less than what it measures, but cannot tell before from during: `Connection` times each request and
remembers when it was sent. `open_loop` sends requests at moments by Poisson's law, whether earlier ones were answered
or not, as many independent visitors would.
"""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter, time
from typing import NamedTuple

import uvloop

from bench.measure import Percentiles
from bench.servers import processor_s

LAST_WITHIN_S = 30.0  # of an open loop's end


@dataclass(frozen=True, slots=True)
class Sample:
    """A request of `kind`, sent at `at` (epoch seconds), answered after `took_ms`."""

    kind: str
    at: float
    took_ms: float


def request(method: str, path: str, body: str = "", media: str = "", more: Mapping[str, str] | None = None) -> bytes:
    """Returns a whole request, ready to send; `more`: further fields of its head."""
    data = body.encode()
    fields = {"Host": "127.0.0.1", **({"Content-Type": media} if media else {}), **(more or {})}
    if method == "POST":
        fields["Content-Length"] = str(len(data))
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + data


class Connection:
    """A plain socket, whole prepared requests, answers with a Content-Length."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.close = self._socket.close

    def time(self, kind: str, request: bytes) -> Sample:
        at, begun, answer = time(), perf_counter(), b""
        self._socket.sendall(request)
        while (end := answer.find(b"\r\n\r\n") + 4) < 4 or len(answer) < end + _length(answer[:end]):
            more = self._socket.recv(262_144)
            if not more:
                raise RuntimeError("the server closed the connection")
            answer += more
        return _sample(kind, at, begun, answer)


def open_loop(kind: str, port: int, requests: Iterable[bytes], per_s: float, seconds: float) -> list[Sample]:
    """Sends so many of these a second, each over a connection without a request under way; returns them when answered.

    Raises RuntimeError for an answer that is not 200, and TimeoutError if one does not come, in an ExceptionGroup.
    """
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    samples: list[Sample] = []

    async def ask(each: bytes) -> None:
        reader, writer = free.pop() if free else await asyncio.open_connection("127.0.0.1", port)
        at, begun = time(), perf_counter()
        writer.write(each)
        head = await reader.readuntil(b"\r\n\r\n")
        samples.append(_sample(kind, at, begun, head + await reader.readexactly(_length(head))))
        free.append((reader, writer))

    async def ask_all() -> None:
        now, chance = asyncio.get_running_loop().time, Random(6)
        due = begun = now()
        async with asyncio.timeout(seconds + LAST_WITHIN_S), asyncio.TaskGroup() as asking:
            for each in requests:
                due += chance.expovariate(per_s)
                if due >= begun + seconds:
                    break
                await asyncio.sleep(due - now())
                asking.create_task(ask(each))
        for _, writer in free:
            writer.close()
            await writer.wait_closed()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask_all())
    return samples


def _sample(kind: str, at: float, begun: float, answer: bytes) -> Sample:
    took_ms = (perf_counter() - begun) * 1000
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"{kind}: {answer[:400].decode(errors='replace')}")
    return Sample(kind, at, took_ms)


def _length(head: bytes) -> int:
    found = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    return int(found[1]) if found else 0


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
