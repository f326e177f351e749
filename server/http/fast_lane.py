"""Answers plain hits below ASGI: one by path, or as a small JSON object, where nothing else is under way.

Scope, cycle and task of a request cost more than the hit. Here a request is known by the bytes of its head, but for the
request line: the parser has read the same bytes before, and the front door has let them in. So there is no second
parser, which could disagree on where a request ends: bytes that were not seen twice, a request in pieces, one of
several in a read, and every line but two strict ones go on to the parser, and from there through ASGI.

What a head was let in for may end: with other tokens, or once writes are limited, all heads are forgotten.

This leans on uvicorn's `HttpToolsProtocol` and `RequestResponseCycle`; `tests/server/http/test_fast_lane.py` names on
what, and with which version it was tried.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from clickcurve.asgi import Answer, Headers, Receive, Scope, Send
from clickcurve.buckets.errors import ClickcurveError, JournalUnknown
from ingest.batch import Batch
from ingest.reading.hit_endpoint import COUNTED, HitRoutes, is_plain, is_short_json
from server.http.callers import Callers
from server.http.connection import Connection, connection_class

HEADS = 256  # that are known, and that were seen once
HEAD_BYTES = 2_048  # of one, without its request line
BODY_BYTES = 10_000

_BY_PATH = re.compile(rb"POST /v1/hits/([A-Za-z0-9._~-]{1,256}) HTTP/1\.1").fullmatch
_AS_JSON = b"POST /v1/hits HTTP/1.1"
# A page of another site, a cookie, another protocol: the front door and the connection look closer at these.
_ODD = frozenset((b"origin", b"sec-fetch-site", b"cookie", b"upgrade", b"trailer"))
_SCOPE: Scope = {"type": "http", "method": "POST"}


class _KnownHead(NamedTuple):
    """What matters of the header fields of a plain hit: how long its body is, and whether it is JSON."""

    body_bytes: int
    json: bool


class Door(Protocol):
    """What lets requests in, and has the routes of hits: the front door."""

    hits: HitRoutes

    def changes(self) -> int: ...
    def lets_in(self, method: str, path: str, fields: Mapping[bytes, bytes]) -> bool: ...
    async def refuse_hit(self, error: BaseException, scope: Scope, receive: Receive, send: Send) -> None: ...


class _Heard:
    """Hears what the parser finds in the bytes of one request."""

    def __init__(self) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.begun = self.heads = self.ended = self.body_bytes = 0
        self.parser = httptools.HttpRequestParser(self)
        self.stays = False  # the connection, after this request, as it is

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.heads += 1
        self.stays = self.parser.should_keep_alive() and not self.parser.should_upgrade()  # later it is not known

    def on_body(self, body: bytes) -> None:
        self.body_bytes += len(body)

    def on_message_complete(self) -> None:
        self.ended += 1

    def so_far(self) -> tuple[int, int, int, int]:
        return self.begun, self.heads, self.body_bytes, self.ended


def read_fields(lines: bytes) -> dict[bytes, bytes] | None:
    """Returns the fields of these header lines, from CR LF to the empty line, as the parser reads them.

    None if they are not exactly one head of a request whose body has the length that it says, and which leaves the
    connection as it is; or if a field stands twice.
    """
    heard = _Heard()
    parser = heard.parser
    try:
        parser.feed_data(b"POST / HTTP/1.1" + lines)
        fields = dict(heard.fields)
        length = fields.get(b"content-length", b"0")
        if len(fields) < len(heard.fields) or not (length.isdigit() and len(length) < 5):
            return None
        body_bytes = int(length)
        if not heard.stays or b"host" not in fields or heard.so_far() != (1, 1, 0, 0 if body_bytes else 1):
            return None
        if body_bytes:
            parser.feed_data(bytes(body_bytes - 1))
            if heard.so_far() != (1, 1, body_bytes - 1, 0):
                return None
            parser.feed_data(b"\0")
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    return fields if heard.so_far() == (1, 1, body_bytes, 1) else None


class FastLane:
    """What the connections of a worker share: the heads that they know, and which of them wait for a group of hits."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.hits = door.hits
        self.heads: dict[bytes, _KnownHead] = {}
        self._once: set[bytes] = set()
        self._changes = door.changes()
        self._group: asyncio.Future[None] | None = None
        self._waiting: list[LaneConnection] = []
        self._defaults: Sequence[tuple[bytes, bytes]] | None = None
        self._counted = (b"", b"")

    # --- heads ---------------------------------------------------------------------------------------------------
    def forget(self, changes: int) -> None:
        """Forgets all heads, since what was let in with them may be refused now."""
        self._changes = changes
        self.heads.clear()

    def known(self, lines: bytes) -> _KnownHead | None:
        """Returns what is known of a head without its request line, as long as it is let in."""
        changes = self.door.changes()
        if changes != self._changes:
            self.forget(changes)
        return self.heads.get(lines)

    def learn(self, lines: bytes) -> None:
        """Makes a head known that comes for the second time, if it is one of plain hits and let in."""
        if len(lines) > HEAD_BYTES:
            return
        if lines not in self._once:
            if len(self._once) >= HEADS:
                self._once.clear()
            self._once.add(lines)
            return
        fields = read_fields(lines)
        if fields is None or not (_ODD.isdisjoint(fields) and is_plain(fields)):
            return
        if self.door.lets_in("POST", "/v1/hits", fields):
            if len(self.heads) >= HEADS:
                self.heads.clear()
            self.heads[lines] = _KnownHead(int(fields.get(b"content-length", b"0")), is_short_json(fields))

    # --- hits ----------------------------------------------------------------------------------------------------
    def count(self, hit: str | Batch, connection: LaneConnection) -> None:
        """Counts a hit, and answers it as soon as its group is in the journal."""
        try:
            group = self.hits.intake.accept_one(hit)
        except ClickcurveError as error:
            connection.refuse_hit(error)
            return
        if group is not self._group:
            self._group, self._waiting = group, []
            group.add_done_callback(partial(self._settle, self._waiting))
        self._waiting.append(connection)

    def _settle(self, waiting: list[LaneConnection], group: asyncio.Future[None]) -> None:
        if group.cancelled():
            error: BaseException | None = JournalUnknown("the server stopped while the journal was written")
        else:
            error = group.exception()
        if error is not None:
            for connection in waiting:
                connection.refuse_hit(error)
            return
        self.hits.counters.singles += len(waiting)
        defaults = waiting[0].server_state.default_headers
        if defaults is not self._defaults:  # uvicorn replaces them each second, for the date
            self._defaults = defaults
            self._counted = _bytes_of(COUNTED, defaults), _bytes_of(COUNTED, defaults, b"connection: close\r\n")
        stays, ends = self._counted
        for connection in waiting:
            connection.answer_hit(stays, ends)


def _bytes_of(found: Answer, defaults: Sequence[tuple[bytes, bytes]], last: bytes = b"") -> bytes:
    """Returns the bytes of an answer: after the server's own headers, with a last line of its head."""
    headers: Headers = (*defaults, *found.start["headers"])
    lines = b"".join(b"%s: %s\r\n" % field for field in headers)
    return bytes(STATUS_LINE[found.status] + lines + last + b"\r\n" + found.body["body"])


class _Nobody:
    """Stands for the event that wakes an application: none waits for a message of a hit in the lane."""

    def set(self) -> None:
        return


class _LaneCycle(RequestResponseCycle):
    """Stands for a hit in the lane where a connection looks at the request under way; it has come whole."""

    more_body = False
    keep_alive = True
    disconnected = False
    response_started = False
    response_complete = False
    message_event = _Nobody()  # type: ignore[assignment]

    def __init__(self) -> None:
        """Takes nothing along: the values above hold until they change."""


class LaneConnection(Connection):
    """A connection that answers plain hits without ASGI."""

    lane: FastLane

    def data_received(self, data: bytes) -> None:
        cycle = self.cycle
        if (
            self._in_headers
            or (cycle is not None and (cycle.more_body or not cycle.response_complete))
            or self._is_broken
            or self.flow.write_paused
            or not self._take(data)
        ):
            super().data_received(data)

    def _take(self, data: bytes) -> bool:
        """Takes what was received if it is exactly one plain hit with a known head."""
        line_ends = data.find(b"\r\n")
        head_ends = data.find(b"\r\n\r\n", line_ends) + 4
        if line_ends <= 0 or head_ends < 4 or len(data) > self.header_bytes:
            return False
        lines, lane = data[line_ends:head_ends], self.lane
        known = lane.known(lines)
        if known is None:
            lane.learn(lines)
            return False
        if len(data) - head_ends != known.body_bytes:
            return False
        hit: str | Batch | None = None
        if known.body_bytes == 0:
            if by_path := _BY_PATH(data, 0, line_ends):
                hit = by_path[1].decode("ascii")
        elif known.json and data[:line_ends] == _AS_JSON:
            hit = lane.hits.single(data[head_ends:])
        if hit is None:
            return False
        self.cycle = self._answering = _LaneCycle()
        lane.count(hit, self)
        return True

    def answer_hit(self, stays: bytes, ends: bytes) -> None:
        """Answers the hit under way with these bytes, the second if the connection is to be closed."""
        cycle = self._answering
        if cycle.disconnected or self.transport.is_closing():
            return
        cycle.response_complete = True
        if cycle.keep_alive:
            self.transport.write(stays)
        else:
            self.transport.write(ends)
            self.transport.close()
        self.on_response_complete()

    def refuse_hit(self, error: BaseException) -> None:
        """Answers the hit under way through ASGI, since it was not counted."""
        lane_cycle = self._answering
        if lane_cycle.disconnected:
            return
        cycle = RequestResponseCycle(
            scope=_SCOPE,  # type: ignore[arg-type]
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=lane_cycle.keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.more_body = False
        if self.cycle is lane_cycle:
            self.cycle = cycle
        self._start_asgi_task(cycle, partial(self.lane.door.refuse_hit, error))


def lane_class(lane: FastLane, refused: Counter[str], callers: Callers, **bounds: float) -> type[Connection]:
    """Makes a class of connections that answer plain hits in this lane; the rest is as of `connection_class`."""
    return type("FastConnection", (LaneConnection, connection_class(refused, callers, **bounds)), {"lane": lane})
