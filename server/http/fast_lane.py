"""Answers requests below ASGI where nothing else is under way: a plain hit by path or as JSON, and the short ways.

Scope, cycle and task of a request cost more than the hit. Here a request is known by the bytes of its head, but for the
request line: the parser has read the same bytes before, and the front door has let them in. So there is no second
parser, which could disagree on where a request ends: bytes that were not seen twice, a request in more than two
pieces, one of several in a read, and every line but a few strict ones go on to the parser, and from there through ASGI.

What a head was let in for may end: with other tokens, or once writes are limited, all heads are forgotten.

This leans on uvicorn's `HttpToolsProtocol` and `RequestResponseCycle`; `tests/server/http/test_fast_lane.py` names on
what, and with which version it was tried.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import NamedTuple

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from clickcurve.asgi import Answer, Application, Headers, Scope
from clickcurve.buckets.errors import ClickcurveError, JournalUnknown
from ingest.hit import Hit
from ingest.reading.hit_endpoint import COUNTED, is_plain, is_short_json
from server.http.address_connections import AddressConnections
from server.http.connection import Connection, Wait, connection_class
from server.http.gateway import BEGINS, Gateway, ShortWay
from server.http.request_head import read_fields

HEADS = 256  # that are known, and that were seen once
HEAD_BYTES = 2_048  # of one, without its request line

_BY_PATH = re.compile(rb"POST /v1/hits/([A-Za-z0-9._~-]{1,256}) HTTP/1\.1").fullmatch
_AS_JSON = b"POST /v1/hits HTTP/1.1"
_HITS_BEGIN = b"POST /v1/hits"[:BEGINS]
CLOSE = b"connection: close\r\n"
# A page of another site, a cookie, another protocol: the front door and the connection look closer at these.
_ODD = frozenset((b"origin", b"sec-fetch-site", b"cookie", b"upgrade", b"trailer"))
_SCOPE: Scope = {"type": "http", "method": "POST"}


class _KnownHead(NamedTuple):
    """What matters of the header fields of a plain hit: how long its body is, and whether it is JSON."""

    body_bytes: int
    json: bool


_UNFIT = _KnownHead(-1, False)  # no body has this length


class _Heads:
    """What a worker knows of the heads of one kind of request, but for their request lines.

    The door lets them in with `method` and `path`. What was let in may be refused later: then all are forgotten.
    """

    def __init__(self, door: Gateway, method: str, path: str) -> None:
        self._door = door
        self._method = method
        self._path = path
        self._known: dict[bytes, _KnownHead] = {}
        self._once: set[bytes] = set()
        self._changes = door.changes()

    def __len__(self) -> int:
        return len(self._known)

    def known(self, lines: bytes) -> _KnownHead:
        """Returns what is known of a head while it is let in; reads one that comes for the second time."""
        changes = self._door.changes()
        if changes != self._changes:
            self._changes = changes
            self._known.clear()
        return self._known.get(lines) or self._meet(lines)

    def _meet(self, lines: bytes) -> _KnownHead:
        if len(lines) > HEAD_BYTES:
            return _UNFIT
        if lines not in self._once:
            if len(self._once) >= HEADS:
                self._once.clear()
            self._once.add(lines)
            return _UNFIT
        if len(self._known) >= HEADS:
            self._known.clear()
        self._known[lines] = self._read(lines)
        return _UNFIT  # this time: the parser's way is as good, and a head is read after its second coming

    def _read(self, lines: bytes) -> _KnownHead:
        fields = read_fields(lines)
        if fields is None or not (_ODD.isdisjoint(fields) and is_plain(fields)):
            return _UNFIT
        if not self._door.lets_in(self._method, self._path, fields):
            return _UNFIT
        return _KnownHead(int(fields.get(b"content-length", b"0")), is_short_json(fields))


class FastLane:
    """What the connections of a worker share: the heads that they know, and which of them wait for a group of hits."""

    def __init__(self, door: Gateway) -> None:
        self.door = door
        self.hits = door.hits
        self.heads_of_hits = _Heads(door, "POST", "/v1/hits")
        self.ways = {way.begins: (way, _Heads(door, way.method, way.before + "x" + way.after)) for way in door.ways}
        self._group: asyncio.Future[None] | None = None
        self._waiting: list[LaneConnection] = []
        self._defaults: Sequence[tuple[bytes, bytes]] | None = None
        self._counted = (b"", b"")

    # --- hits ----------------------------------------------------------------------------------------------------
    def count(self, hit: str | Hit, connection: LaneConnection) -> None:
        """Counts a hit, and answers it as soon as its group is in the journal."""
        try:
            group = self.hits.intake.accept_one(hit)
        except ClickcurveError as error:
            connection.refuse(partial(self.door.refuse_hit, error))
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
                connection.refuse(partial(self.door.refuse_hit, error))
            return
        self.hits.counters.singles += len(waiting)
        defaults = waiting[0].server_state.default_headers
        if defaults is not self._defaults:  # uvicorn replaces them each second, for the date
            self._defaults = defaults
            self._counted = _bytes_of(COUNTED, defaults), _bytes_of(COUNTED, defaults, CLOSE)
        stays, ends = self._counted
        for connection in waiting:
            connection.answer(stays, ends)


def _bytes_of(found: Answer, defaults: Sequence[tuple[bytes, bytes]], last: bytes = b"") -> bytes:
    """Returns the bytes of an answer: after the server's own headers, with a last line of its head."""
    headers: Headers = (*defaults, *found.start["headers"])
    lines = b"".join(b"%s: %s\r\n" % field for field in headers)
    return bytes(STATUS_LINE[found.status] + lines + last + b"\r\n" + found.body["body"])


class _Nobody:
    """Stands for the event that wakes an application: none waits for a message of a request in the lane."""

    def set(self) -> None:
        return


class _LaneCycle(RequestResponseCycle):
    """Stands for a request in the lane where a connection looks at the request under way; it has come whole."""

    more_body = False
    keep_alive = True
    disconnected = False
    response_started = False
    response_complete = False
    message_event = _Nobody()  # type: ignore[assignment]

    def __init__(self) -> None:
        """Takes nothing along: the values above hold until they change."""


class LaneConnection(Connection):
    """A connection that answers plain hits, and questions that have a short way, without ASGI."""

    lane: FastLane
    _held = b""  # a known head whose body has not begun

    def data_received(self, data: bytes) -> None:
        begun = self._held
        if begun:
            data, self._held = begun + data, b""
        cycle = self.cycle
        if (
            self._in_headers
            or (cycle is not None and (cycle.more_body or not cycle.response_complete))
            or self._is_broken
            or self.flow.write_paused
            or not self._take(data, may_hold=not begun)
        ):
            super().data_received(data)

    def _take(self, data: bytes, may_hold: bool) -> bool:
        """Takes what was received if it is exactly one request that is answered here, with a known head.

        Many clients send a head and its body apart. So the head of a JSON hit is held, once, until the next read.
        """
        lane, begins = self.lane, data[:BEGINS]
        if begins == _HITS_BEGIN:
            way, heads = None, lane.heads_of_hits
        elif begins in lane.ways:
            way, heads = lane.ways[begins]
        else:
            return False
        line_ends = data.find(b"\r\n")
        head_ends = data.find(b"\r\n\r\n", line_ends) + 4
        if line_ends < 0 or head_ends < 4 or len(data) > self.header_bytes:
            return False
        known = heads.known(data[line_ends:head_ends])
        if len(data) - head_ends != known.body_bytes:
            if may_hold and len(data) == head_ends and known.json and data[:line_ends] == _AS_JSON:
                self._held = data
            return bool(self._held)
        if way is not None:
            return self._take_question(way, data, line_ends, head_ends)
        hit: str | Hit | None = None
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

    def _take_question(self, way: ShortWay, data: bytes, line_ends: int, head_ends: int) -> bool:
        named, body = way.line(data, 0, line_ends), data[head_ends:]
        if named is None or (body and way.method == "GET"):
            return False
        self.cycle = self._answering = _LaneCycle()
        task = self.loop.create_task(self._answer_question(way.ask(named[1].decode("ascii"), body)))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)
        return True

    async def _answer_question(self, asked: Awaitable[Answer]) -> None:
        door = self.lane.door
        try:
            found = await asked
        except Exception as error:
            self.refuse(partial(door.refuse_question, error))
            return
        door.answers[found.status] += 1
        defaults = self.server_state.default_headers
        if self._answering.keep_alive:
            self.answer(_bytes_of(found, defaults), b"")
        else:
            self.answer(b"", _bytes_of(found, defaults, CLOSE))

    def _hand_on(self) -> None:
        """Gives the parser what is held, since its body will not come, or not be waited for here."""
        if self._held:
            begun, self._held = self._held, b""
            super().data_received(begun)

    def eof_received(self) -> bool:  # type: ignore[override]
        self._hand_on()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._hand_on()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        self._hand_on()
        super().shutdown()

    def _waits_for(self) -> Wait:
        if self._held and not self.transport.get_write_buffer_size():
            return Wait("body", self._held, 0, self.pace_s, math.inf)
        return super()._waits_for()

    def answer(self, stays: bytes, ends: bytes) -> None:
        """Answers the request under way with these bytes, the second if the connection is to be closed."""
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

    def refuse(self, application: Application) -> None:
        """Answers the request under way through ASGI, by this application: it has failed."""
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
        self._start_asgi_task(cycle, application)  # type: ignore[arg-type]


def lane_class(lane: FastLane, refused: Counter[str], callers: AddressConnections, **bounds: float) -> type[Connection]:
    """Makes a class of connections that answer plain hits in this lane; the rest is as of `connection_class`."""
    return type("FastConnection", (LaneConnection, connection_class(refused, callers, **bounds)), {"lane": lane})
