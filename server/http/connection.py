"""uvicorn's HTTP connection, with bounds on connections, header bytes and stalls.

uvicorn has none: its parser keeps headers of any length in memory, and it waits for ever for the rest of a request.
A request that arrives whole costs only a few comparisons more.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from clickcurve.problem import MEDIA_TYPE, problem_body

CONNECTIONS = 10_000  # of a worker at once
HEADER_BYTES = 64 * 1024  # request line and headers
STALL_S = 60  # without a byte in the middle of a request

_FULL = problem_body(503, "too many connections", "nothing was counted; try again in a second")
TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: %s\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (MEDIA_TYPE.encode(), len(_FULL), _FULL)
)


class Connection(HttpToolsProtocol):
    """One HTTP connection of the server. `refused` counts closed connections by reason."""

    refused: Counter[str]
    connections_max = CONNECTIONS
    header_bytes = HEADER_BYTES
    stall_s: float = STALL_S

    _in_headers = False
    _unfinished_bytes = 0  # of a request whose headers have not ended
    _stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.connections_max:
            self.refused["full"] += 1
            transport.write(TOO_MANY)
            transport.close()
        else:
            self._expect_more()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = True

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._unfinished_bytes = 0
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        if self._in_headers:
            self._unfinished_bytes += len(data)
            if self._unfinished_bytes > self.header_bytes and not self.transport.is_closing():
                self.refused["headers"] += 1
                super().send_400_response(f"the headers are longer than {self.header_bytes} bytes")
            self._expect_more()
        elif self.cycle is not None and self.cycle.more_body:
            self._expect_more()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._stall is not None:
            self._stall.cancel()

    def send_400_response(self, msg: str) -> None:
        self.refused["unreadable"] += 1
        super().send_400_response(msg)

    def _expect_more(self) -> None:
        self._stall = self.loop.call_later(self.stall_s, self._stalled)

    def _stalled(self) -> None:
        if self.flow.read_paused:
            self._expect_more()  # the server itself has paused reading
        elif not self.transport.is_closing():
            self.refused["stalled"] += 1
            self.transport.abort()


def connection_class(refused: Counter[str], **bounds: float) -> type[Connection]:
    """Makes a class of connections that count into `refused`. `bounds` replace the class attributes of these names."""
    return type("CountedConnection", (Connection,), {"refused": refused, **bounds})
