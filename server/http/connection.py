"""uvicorn's HTTP connection, with bounds on connections, header bytes and stalls, and deaf to `Upgrade`.

uvicorn has no bounds: its parser keeps headers of any length in memory, and it waits for ever for the rest of a
request. A request that arrives whole costs only a few comparisons more.

A server may ignore `Upgrade` (RFC 9110, 7.8), and this one must: the parser takes what follows the headers of such a
request for another protocol, so that its body was lost and, with the next read, became a request of its own, past the
rules of a proxy in front. So such a request is read again from a head without that wish.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import httptools
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
        if self.parser.should_upgrade():
            return  # read again without that wish, by `_feed`
        self._in_headers = False
        self._unfinished_bytes = 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
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

    def _feed(self, data: bytes) -> None:
        """Parses what was received; a request that asks for another protocol is parsed again as plain HTTP."""
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if self.parser.get_method() == b"CONNECT":
                    raise httptools.HttpParserError("this is no proxy") from None
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        """Returns the head of the request that was just parsed, without the wish for another protocol."""
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                value = b", ".join(token for token in _tokens(value) if token.lower() != b"upgrade")
            if name != b"upgrade":
                lines.append(b"%s: %s" % (name, value))
        return b"\r\n".join((*lines, b"", b""))

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


def _tokens(value: bytes) -> list[bytes]:
    return [token.strip() for token in value.split(b",")]


def connection_class(refused: Counter[str], **bounds: float) -> type[Connection]:
    """Makes a class of connections that count into `refused`. `bounds` replace the class attributes of these names."""
    return type("CountedConnection", (Connection,), {"refused": refused, **bounds})
