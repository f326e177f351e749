"""One kept connection that times each request and remembers when it was sent: wrk cannot tell before from during."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from time import perf_counter, time
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True)
class Sample:
    """A request of `kind`, sent at `at` (epoch seconds), answered after `took_ms`."""

    kind: str
    at: float
    took_ms: float


class Connection:
    """Plain sockets, whole prepared requests, answers with a Content-Length."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def time(self, kind: str, request: bytes) -> Sample:
        at, begun = time(), perf_counter()
        self._socket.sendall(request)
        answer = self._socket.recv(262_144)
        head = answer.find(b"\r\n\r\n")
        while head < 0:
            answer += self._more()
            head = answer.find(b"\r\n\r\n")
        missing = head + 4 + _length(answer[:head]) - len(answer)
        while missing > 0:
            missing -= len(self._more())
        took_ms = (perf_counter() - begun) * 1000
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{kind}: {answer[:400].decode(errors='replace')}")
        return Sample(kind, at, took_ms)

    def _more(self) -> bytes:
        more = self._socket.recv(262_144)
        if not more:
            raise RuntimeError("the server closed the connection")
        return more

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()


def _length(head: bytes) -> int:
    lower = head.lower()
    at = lower.find(b"content-length:")
    return int(lower[at + 15 :].partition(b"\r\n")[0]) if at >= 0 else 0


def request(method: str, path: str) -> bytes:
    """A request without a body, ready to send."""
    length = "Content-Length: 0\r\n" if method == "POST" else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{length}\r\n".encode()
