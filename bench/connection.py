"""Kept connections that time each request and remember when it was sent: wrk cannot tell before from during.

`Connection` asks one request after the other. `open_loop` sends requests at moments by Poisson's law, whether earlier
ones were answered or not, as many independent visitors would.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from time import perf_counter, time
from typing import cast

import uvloop

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
LAST_WITHIN_S = 30.0  # of an open loop's end


@dataclass(frozen=True, slots=True)
class Sample:
    """A request of `kind`, sent at `at` (epoch seconds), answered after `took_ms`."""

    kind: str
    at: float
    took_ms: float


class Connection:
    """A plain socket, whole prepared requests, answers with a Content-Length."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.close = self._socket.close

    def time(self, kind: str, request: bytes) -> Sample:
        at, begun, answer = time(), perf_counter(), b""
        self._socket.sendall(request)
        while not _whole(answer):
            more = self._socket.recv(262_144)
            if not more:
                raise RuntimeError("the server closed the connection")
            answer += more
        return _sample(kind, at, begun, answer)


def open_loop(kind: str, port: int, requests: Iterable[bytes], per_s: float, seconds: float) -> list[Sample]:
    """Sends so many of these a second, each over a connection without a request under way; returns them when answered.

    Raises RuntimeError for an answer that is not 200, and TimeoutError if one does not come.
    """

    async def send() -> list[Sample]:
        loop, chance = asyncio.get_running_loop(), Random(6)
        kept, free, samples = list[_Kept](), list[_Kept](), list[Sample]()
        due = begun = loop.time()
        for each in requests:
            due += chance.expovariate(per_s)
            if due >= begun + seconds:
                break
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            if not free:
                _, opened = await loop.create_connection(lambda: _Kept(kind, free, samples), "127.0.0.1", port)
                kept.append(opened)
                free.append(opened)
            free.pop().send(each)
        async with asyncio.timeout(LAST_WITHIN_S):
            while len(free) < len(kept):
                await asyncio.sleep(0.01)
        for each_kept in kept:
            each_kept.close()
        return samples

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(send())


class _Kept(asyncio.Protocol):
    """A connection of an open loop; it is in `free` when it carries no request."""

    def __init__(self, kind: str, free: list[_Kept], samples: list[Sample]) -> None:
        self._kind, self._free, self._samples = kind, free, samples
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.close = transport.close

    def send(self, request: bytes) -> None:
        self._at, self._begun, self._answer = time(), perf_counter(), b""
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if _whole(self._answer):
            self._samples.append(_sample(self._kind, self._at, self._begun, self._answer))
            self._free.append(self)


def _sample(kind: str, at: float, begun: float, answer: bytes) -> Sample:
    took_ms = (perf_counter() - begun) * 1000
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"{kind}: {answer[:400].decode(errors='replace')}")
    return Sample(kind, at, took_ms)


def _whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


def request(method: str, path: str) -> bytes:
    """Returns a request without a body, ready to send."""
    length = "Content-Length: 0\r\n" if method == "POST" else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{length}\r\n".encode()
