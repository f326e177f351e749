"""uvicorn's HTTP connection, strict about what is a request, and with bounds on what a client may hold.

uvicorn has no bounds: its parser keeps headers of any length in memory, it waits for ever for the rest of a request and
for a client to take its answer. Here each connection is looked at every `LOOK_S` seconds: what it waits for, since
when, and how far that has come. So a request that arrives whole costs no timer at all, not even uvicorn's own.

A server may ignore `Upgrade` (RFC 9110, 7.8), and this one must: the parser takes what follows the headers of such a
request for another protocol, so that its body was lost and, with the next read, became a request of its own, past the
rules of a proxy in front. So such a request is read again from a head without that wish.
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple, TypeAlias

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from clickcurve.asgi import FIELDS
from clickcurve.limiter.http.address import Addresses
from server.http.request_head import RequestRefused, check_cookies, check_head, check_length, refusal, too_long
from server.settings.table import ADDRESS_CONNECTIONS, HEAD_S, SLOWEST_BYTES_S
from server.settings.values import is_loopback

CONNECTIONS = 10_000  # of a worker at once
HEADER_BYTES = 64 * 1024  # request line and headers
PACE_S = 60  # over which the rate of a body that comes, and of an answer that is taken, is measured
KEEP_ALIVE_S = 75  # without a request
DRAINED_S = 30  # for the rest of a body whose request is answered
DRAINED_BYTES = 64 * 1024 * 1024  # of it
ENDED_S = 5  # for a client to end its side, after an answer that ends the connection
LOOK_S = 5
LAST_ANSWERS_S = 5  # for requests under way at a stop

_FULL = refusal(503, "too many connections", "nothing was counted; try again in a second", retry_after_s=1)
_CALLER_FULL = refusal(
    429, "too many connections", "your address has too many open here; nothing was counted", retry_after_s=1
)
_CODED = b"transfer-encoding"
_CONTINUE = b"100-continue"
_UNREADABLE = RequestRefused(400, "what came cannot be read as a request")
_BYTES_ACKED = struct.Struct("=Q")
_AT_BYTES_ACKED = 120  # in the kernel's struct tcp_info
Fields: TypeAlias = Mapping[bytes, bytes]  # of a head: by name, in lower case


class AddressConnections:
    """The open connections of a worker by address, so that none takes the place of all others: `most` of each, or 0.

    A proxy of one's own, and every program of this machine, speaks for many: they are not counted. Nothing is known of
    whom a proxy speaks for until a request came, and by then the connection is there; so it has to bound its clients.
    """

    def __init__(self, addresses: Addresses, most: int = ADDRESS_CONNECTIONS) -> None:
        self._addresses = addresses
        self._most = most
        self._open: Counter[str] = Counter()

    def name(self, client: tuple[str, int] | None) -> str | None:
        """Returns the name that a client counts by, its network if IPv6; None if it is not counted."""
        if not self._most or client is None or self._addresses.trusts(client[0]):
            return None
        name = self._addresses.name(client[0])  # of ::ffff:127.0.0.1 it is 127.0.0.1
        return None if is_loopback(name) or is_loopback(client[0]) else name

    def enter(self, name: str | None) -> bool:
        """Counts a connection, unless its address has as many as it may."""
        if name is None:
            return True
        if self._open[name] >= self._most:
            return False
        self._open[name] += 1
        return True

    def leave(self, name: str | None) -> None:
        """Takes a connection back that was counted."""
        if name is not None:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]


class Wait(NamedTuple):
    """What a connection waits for, and of which request; within `within_s`, `progress` has to grow by `least`."""

    what: str
    of: object
    progress: int
    within_s: float
    least: float


class _Answers(asyncio.Transport):
    """What a request writes its answer to: the connection, which it can only ask to end."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.write = connection.transport.write  # type: ignore[method-assign]
        self.is_closing = connection.transport.is_closing  # type: ignore[method-assign]
        self.close = connection.end  # type: ignore[method-assign]


class Connection(HttpToolsProtocol):
    """One HTTP connection of the server. `refused` counts closed connections by reason."""

    refused: Counter[str]
    callers: AddressConnections
    connections_max = CONNECTIONS
    header_bytes = HEADER_BYTES
    head_s: float = HEAD_S
    slowest_bytes_s: float = SLOWEST_BYTES_S
    pace_s: float = PACE_S
    keep_alive_s: float = KEEP_ALIVE_S
    drained_s: float = DRAINED_S
    drained_bytes = DRAINED_BYTES
    ended_s: float = ENDED_S
    look_s: float = LOOK_S
    last_answers_s: float = LAST_ANSWERS_S

    _in_headers = False
    _is_broken = False  # what came cannot be read on
    _is_ended = False  # our side, after the last answer; the client's is waited for
    _has_client_ended = False  # its side
    _is_stopping = False  # the server
    _read_bytes = 0  # of the last read
    _begun_bytes = 0  # of the read that a head began in
    _head_bytes = 0  # read for it since
    _body_of: RequestResponseCycle | None = None  # the last request whose body came in several reads
    _body_bytes = 0  # of it, but for the first read
    _drained_bytes = 0  # of these, what came after its answer
    _answering: RequestResponseCycle  # the request that is answered now; self.cycle is the newest
    _caller: str | None = None
    _wait: Wait | None = None  # as the last look found it, when it was new
    _wait_since = 0.0
    _next_look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.answers = _Answers(self)
        self._caller = self.callers.name(self.client)
        if len(self.connections) > self.connections_max:
            self._turn_away("full", _FULL)
        elif not self.callers.enter(self._caller):
            self._caller = None
            self._turn_away("address", _CALLER_FULL)
        else:
            self._look()

    def _turn_away(self, reason: str, answer: bytes) -> None:
        self.refused[reason] += 1
        self.transport.write(answer)
        self.transport.close()

    # --- reading ------------------------------------------------------------------------------------------------
    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self._in_headers = True
        self._begun_bytes = self._read_bytes
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_headers:  # else a trailer, which means nothing here and is checked by nothing
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # read again without that wish, by `_feed`
        version = self.parser.get_http_version()
        fields = dict(self.headers)
        odd_fields = len(fields) < len(self.headers) or b"host" not in fields or _CODED in fields
        if odd_fields or version != "1.1" or b"#" in self.url:
            check_head(version, self.url, self.headers)
        if b"cookie" in fields:
            check_cookies(self.headers)
        if self._begun_bytes + self._head_bytes > self.header_bytes:
            check_length(self.url, self.headers, self.header_bytes)
        self._in_headers = False
        self.begin_request(fields, version)

    def begin_request(self, fields: Fields, version: str) -> None:
        """Begins to answer the request whose head has come, and is good."""
        url, headers = self.url, self.headers
        super().on_message_begin()  # makes the scope
        self.url, self.headers = url, headers
        self.scope["headers"] = headers
        self.scope[FIELDS] = fields  # type: ignore[literal-required]
        self.expect_100_continue = any(name == b"expect" and value.lower() == _CONTINUE for name, value in headers)
        super().on_headers_complete()
        self.cycle.transport = self.answers

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()
            self.cycle.more_body = False  # uvicorn leaves it where the answer was first: the client would seem to stall

    def data_received(self, data: bytes) -> None:
        if self._is_broken or self._is_ended:
            self._drained_bytes += len(data)
            if self._drained_bytes > self.drained_bytes:
                self.transport.abort()
            return
        self._read_bytes = len(data)
        self._head_bytes += self._read_bytes
        try:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._feed_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            why = error.__context__
            self._refuse(why if isinstance(why, RequestRefused) else _UNREADABLE)
            return
        if self._in_headers:
            if self._head_bytes > self.header_bytes:
                self._refuse(too_long(self.header_bytes))
        elif self.cycle is not None and self.cycle.more_body:
            self._count_body(len(data))

    def _count_body(self, size: int) -> None:
        if self._body_of is not self.cycle:
            self._body_of = self.cycle
            self._body_bytes = self._drained_bytes = 0
        self._body_bytes += size
        if self.cycle.response_complete:
            self._drained_bytes += size
            if self._drained_bytes > self.drained_bytes:
                self._let_go("drained")

    def _feed_without_upgrade(self, rest: bytes) -> None:
        """Parses again, as plain HTTP, a request that asks for another protocol; `rest` is what follows its head."""
        while True:
            if self.parser.get_method() == b"CONNECT":
                raise httptools.HttpParserError("this server is not a proxy")
            data = self._head_without_upgrade() + rest
            self._read_bytes = len(data)
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:  # of another request behind it
                rest = data[upgrade.args[0] :]
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

    def _refuse(self, why: RequestRefused) -> None:
        """Ends the connection for what cannot be read, after the answers to the requests before it."""
        self.refused[why.reason] += 1
        self._is_broken = True
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.more_body and self.pipeline:  # within its body, and others are answered first
            self.pipeline.popleft()
            cycle = self.cycle = self.pipeline[0][0] if self.pipeline else self._answering
        if cycle is not None and not cycle.more_body and not cycle.response_complete:
            cycle.keep_alive = False
            return
        if cycle is None or not (cycle.more_body and cycle.response_started):
            title = HTTPStatus(why.status).phrase.lower()
            self.transport.write(refusal(why.status, title, why.detail, field=why.field, rule=why.rule))
        if cycle is not None and cycle.more_body:
            cycle.disconnected = True
            cycle.waiting_for_100_continue = False  # nothing can be written any more, so that reading on would raise
            cycle.message_event.set()
        self._end_our_side()

    # --- ends ---------------------------------------------------------------------------------------------------
    def end(self) -> None:
        """Ends the connection after its last answer, or at once if that is not whole."""
        if self._has_client_ended or self._is_stopping or not self._answering.response_complete:
            self.transport.close()
            return
        self.pipeline.clear()
        self.flow.resume_reading()
        self._end_our_side()

    def _end_our_side(self) -> None:
        """Ends our side alone: to close with bytes unread is a reset, which takes the answer (RFC 9112, 9.6)."""
        self._is_ended = True
        self._drained_bytes = 0
        self.transport.write_eof()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answers a client that has ended its side after whole requests; lets go of one within a body."""
        if self._is_ended or self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        self._has_client_ended = True
        self.cycle.keep_alive = False
        return True

    def on_response_complete(self) -> None:
        """Goes on with the next request that was sent ahead: as uvicorn does, without its timer."""
        self.server_state.total_requests += 1
        if self._is_ended or self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    def connection_lost(self, exc: Exception | None) -> None:
        if self.cycle is not None and not self._answering.response_complete:
            self._answering.disconnected = True
        super().connection_lost(exc)
        self.callers.leave(self._caller)
        if self._next_look is not None:
            self._next_look.cancel()

    def shutdown(self) -> None:
        """Lets a request under way be answered at a stop; cuts it off shortly before uvicorn would, with an error."""
        self._is_stopping = True
        super().shutdown()
        if not self.transport.is_closing():
            self.loop.call_later(0.9 * self.last_answers_s, self.transport.abort)

    # --- patience -----------------------------------------------------------------------------------------------
    def _look(self) -> None:
        """Lets go of a client that has not done its part in time, and looks again later."""
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            return
        now = self.loop.time()
        wait, before = self._waits_for(), self._wait
        if before is None or wait.what != before.what or wait.of is not before.of:
            self._wait, self._wait_since = wait, now
        elif now - self._wait_since >= wait.within_s:
            if wait.progress - before.progress < wait.least:
                self._let_go(wait.what)
                return
            self._wait, self._wait_since = wait, now
        self._next_look = self.loop.call_later(min(self.look_s, wait.within_s), self._look)

    def _waits_for(self) -> Wait:
        cycle: RequestResponseCycle | None = self.cycle
        least = max(1.0, self.slowest_bytes_s * self.pace_s)
        if self.transport.get_write_buffer_size():
            return Wait("answer", None, self._taken_bytes(), self.pace_s, least)
        if self._is_ended:
            return Wait("ended", None, 0, self.ended_s, math.inf)
        if self._in_headers or cycle is None:
            return Wait("head", self.headers, 0, self.head_s, math.inf)
        if cycle.more_body and cycle.response_complete:
            return Wait("drained", cycle, 0, self.drained_s, math.inf)
        if cycle.more_body and not self.flow.read_paused:
            return Wait("body", cycle, self._body_bytes if cycle is self._body_of else 0, self.pace_s, least)
        if cycle.response_complete:
            return Wait("idle", cycle, 0, self.keep_alive_s, math.inf)
        return Wait("server", cycle, 0, math.inf, 0)

    def _taken_bytes(self) -> int:
        """Returns what the client's machine has taken of all answers; what waits in our kernel is not taken."""
        wire = self.transport.get_extra_info("socket")
        tcp_info: bytes = wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _AT_BYTES_ACKED + _BYTES_ACKED.size)
        return int(_BYTES_ACKED.unpack_from(tcp_info, _AT_BYTES_ACKED)[0])

    def _let_go(self, what: str) -> None:
        if what in ("idle", "ended"):
            self.transport.close()
        else:
            self.refused[what] += 1
            self.transport.abort()


def _tokens(value: bytes) -> list[bytes]:
    return [token.strip() for token in value.split(b",")]


def connection_class(refused: Counter[str], callers: AddressConnections, **bounds: float) -> type[Connection]:
    """Makes a class of connections that count into both. `bounds` replace the class attributes of these names."""
    return type("CountedConnection", (Connection,), {"refused": refused, "callers": callers, **bounds})
