"""Kept connections that time each request and remember when it was sent: wrk cannot tell before from during.

`Connection` asks one request after the other. `open_loop` sends requests at moments by Poisson's law, whether earlier
ones were answered or not, as many independent visitors would.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from time import perf_counter, time

import uvloop

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
