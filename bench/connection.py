"""One kept connection that times each request and remembers when it was sent: wrk cannot tell before from during."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from time import perf_counter, time

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


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
