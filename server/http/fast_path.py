"""Answers requests below ASGI where nothing else is under way: one plain hit, by path or as JSON, and the fast routes.

Scope, cycle and task of a request cost more than the hit, and so does the parser, with a call for each field. So a
request that comes whole between two others, or its body with the next read, is read by `plain_head.py`. What that does
not take, or what turns out to be something else, goes to the parser, as if nothing had happened, and through ASGI.

Two header fields decide whether a caller is let in: the token and the host. Pairs that were let in are remembered until
other tokens are read, or writes are limited.

This leans on uvicorn's `HttpToolsProtocol` and `RequestResponseCycle`; `tests/server/http/test_fast_path.py` names on
what, and with which version it was tried.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, TypeAlias

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from clickcurve.access import ALL_ACCESS, begin_access
from clickcurve.asgi import Answer, Application, Headers, Scope
from clickcurve.buckets.errors import JournalUnknown
from ingest.hit import Hit
from ingest.reading.hit_endpoint import COUNTED
from server.http.connection import AddressConnections, Connection, Wait, connection_class
from server.http.gateway import PREFIX_BYTES, FastRoute, Gateway
from server.http.plain_head import PlainHead, read_head

ADMITTED = 256  # pairs of token and host that are remembered, of each kind of request
HITS, HIT = b"/v1/hits", b"/v1/hits/"
KEY_CHARACTERS = 256
CLOSE = b"connection: close\r\n"
_JSON = None, b"application/json"
_NOTHING = None, b"0"  # lengths of a body
_SCOPE: Scope = {"type": "http", "method": "POST"}
# What is asked for: the route of a question, None for a hit; a name: an event, a link, a key ("": in the body); and how
# many bytes the body has.
Taken: TypeAlias = tuple[FastRoute | None, str, int]


class _Admission:
    """Which callers may send one kind of request, by their token and the host that they ask for."""

    def __init__(self, gateway: Gateway, method: str, path: str) -> None:
        self._gateway = gateway
        self._method = method
        self._path = path
        self._admitted: set[tuple[bytes | None, bytes]] = set()
        self._changes = gateway.changes()

    def __len__(self) -> int:
        return len(self._admitted)

    def admits(self, authorization: bytes | None, host: bytes) -> bool:
        changes = self._gateway.changes()
        if changes != self._changes:
            self._changes = changes
            self._admitted.clear()
        caller = authorization, host
        if caller in self._admitted:
            return True
        fields = {b"host": host} if authorization is None else {b"host": host, b"authorization": authorization}
        if not self._gateway.lets_in(self._method, self._path, fields):
            return False
        if len(self._admitted) >= ADMITTED:
            self._admitted.clear()
        self._admitted.add(caller)
        return True


class FastPath:
    """What the connections of a worker share: callers that are let in, and which connections wait for a group."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.hits = gateway.hits
        self.is_open = True  # False: everything goes through ASGI
        self.hit_callers = _Admission(gateway, "POST", "/v1/hits")
        self._routes = {
            route.prefix: (route, _Admission(gateway, route.method.decode(), route.example))
            for route in gateway.fast_routes
        }
        self._group: asyncio.Future[None] | None = None
        self._waiting: list[FastConnection] = []
        self._defaults: Sequence[tuple[bytes, bytes]] | None = None
        self._counted = (b"", b"")

    # --- which requests ---------------------------------------------------------------------------------------------
    def take(self, head: PlainHead) -> Taken | None:
        """Returns what a request with this head asks for; None if it has to go through ASGI."""
        method, target, host, authorization, content_type, length = head.groups()
        prefix = target[:PREFIX_BYTES]
        if prefix == HITS:
            taken, admission = _hit(method, target, content_type, length), self.hit_callers
        elif prefix in self._routes:
            route, admission = self._routes[prefix]
            taken = _question(route, method, target, length)
        else:
            return None
        return taken if taken is not None and self.is_open and admission.admits(authorization, host) else None

    # --- hits -------------------------------------------------------------------------------------------------------
    def count(self, hit: str | Hit, connection: FastConnection) -> None:
        """Counts a hit, and answers it as soon as its group is in the journal."""
        group = self.hits.intake.accept_one(hit)
        if group is not self._group:
            self._group, self._waiting = group, []
            group.add_done_callback(partial(self._settle, self._waiting))
        self._waiting.append(connection)

    def _settle(self, waiting: list[FastConnection], group: asyncio.Future[None]) -> None:
        if group.cancelled():
            error: BaseException | None = JournalUnknown("the server stopped while the journal was written")
        else:
            error = group.exception()
        if error is not None:
            for connection in waiting:
                connection.refuse(partial(self.gateway.refuse_hit, error))
            return
        self.hits.counters.singles += len(waiting)
        defaults = waiting[0].server_state.default_headers
        if defaults is not self._defaults:  # uvicorn replaces them each second, for the date
            self._defaults = defaults
            self._counted = _bytes_of(COUNTED, defaults), _bytes_of(COUNTED, defaults, CLOSE)
        stays, ends = self._counted
        for connection in waiting:
            connection.answer(stays, ends)


def _hit(method: bytes, target: bytes, content_type: bytes | None, length: bytes | None) -> Taken | None:
    if method != b"POST":
        return None
    if len(target) == len(HITS):
        return (None, "", int(length)) if length is not None and content_type in _JSON else None
    key = target[len(HIT) :]
    if not target.startswith(HIT) or not 0 < len(key) <= KEY_CHARACTERS or b"/" in key or length not in _NOTHING:
        return None
    return None, key.decode("ascii"), 0


def _question(route: FastRoute, method: bytes, target: bytes, length: bytes | None) -> Taken | None:
    named = route.match(target)
    if named is None or method != route.method or (method == b"GET" and length not in _NOTHING):
        return None
    return route, named[1].decode("ascii"), int(length or 0)


def _bytes_of(answer: Answer, defaults: Sequence[tuple[bytes, bytes]], last: bytes = b"") -> bytes:
    """Returns the bytes of an answer: after the server's own headers, with a last line of its head."""
    headers: Headers = (*defaults, *answer.start["headers"])
    lines = b"".join(b"%s: %s\r\n" % field for field in headers)
    return bytes(STATUS_LINE[answer.status] + lines + last + b"\r\n" + answer.body["body"])


class _Nobody:
    """Stands for the event that wakes an application: none waits for a message of a request that has no application."""

    def set(self) -> None:
        return


class _FastCycle:
    """Stands for a request without an application where a connection looks at the one under way; it has come whole."""

    more_body = False
    keep_alive = True
    disconnected = False
    response_started = False
    response_complete = False
    message_event = _Nobody()


class FastConnection(Connection):
    """A connection that answers plain hits and the questions of fast routes without ASGI."""

    fast_path: FastPath
    _kept = b""  # a request whose head was taken, and whose body has not come whole

    # --- reading ------------------------------------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        is_first = not self._kept
        if not is_first:
            data, self._kept = self._kept + data, b""
        if not self._in_headers and (head := read_head(data)) is not None and self._is_free(head):
            taken = self.fast_path.take(head)
            if taken is not None:
                route, name, length = taken
                begin = head.end()
                end = begin + length
                if end > len(data) and is_first:
                    self._kept = data
                    return
                if end <= len(data) and self._start(route, name, data[begin:end]):
                    if end == len(data):
                        return
                    data = data[end:]
        super().data_received(data)

    def _is_free(self, head: PlainHead) -> bool:
        """Tells whether a request with this head can be answered now: nothing else is under way, and it is no long one.

        The bound counts a blank in each line that may not be there, so the half of it is short whatever it has.
        """
        cycle: RequestResponseCycle | None = self.cycle
        return (
            (cycle is None or (cycle.response_complete and not cycle.more_body))
            and not (self.flow.write_paused or self._is_ended or self._is_broken)
            and head.end() <= self.header_bytes // 2
        )

    def _hand_on(self) -> None:
        """Goes on through ASGI with a request whose body will not come."""
        if self._kept:
            data, self._kept = self._kept, b""
            super().data_received(data)

    # --- answering ----------------------------------------------------------------------------------------------
    def _start(self, route: FastRoute | None, name: str, body: bytes) -> bool:
        """Starts to answer a request that has come whole. Returns False if it has to go through ASGI."""
        cycle: Any = _FastCycle()
        if route is not None:
            self.cycle = self._answering = cycle
            task = self.loop.create_task(self._answer_question(route.ask(name, body)))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)
            return True
        try:
            hits = self.fast_path.hits
            hit = hits.now(name) if name else hits.single(body)
            if hit is None:
                return False
            self.cycle = self._answering = cycle
            self.fast_path.count(hit, self)
        except Exception as error:  # which the connection would be closed for
            self.cycle = self._answering = cycle
            self.refuse(partial(self.fast_path.gateway.refuse_hit, error))
        return True

    async def _answer_question(self, asked: Awaitable[Answer]) -> None:
        gateway = self.fast_path.gateway
        begin_access(ALL_ACCESS)  # tokens with a prefix are not let in here
        try:
            answer = await asked
        except Exception as error:
            self.refuse(partial(gateway.refuse_question, error))
            return
        gateway.answers[answer.status] += 1
        defaults = self.server_state.default_headers
        if self._answering.keep_alive:
            self.answer(_bytes_of(answer, defaults), b"")
        else:
            self.answer(b"", _bytes_of(answer, defaults, CLOSE))

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
            self.end()
        self.on_response_complete()

    def refuse(self, application: Application) -> None:
        """Answers the request under way through ASGI, by this application: it has failed."""
        fast_cycle = self._answering
        if fast_cycle.disconnected:
            return
        cycle = RequestResponseCycle(
            scope=_SCOPE,  # type: ignore[arg-type]
            transport=self.answers,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=fast_cycle.keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.more_body = False
        if self.cycle is fast_cycle:
            self.cycle = cycle
        self._start_asgi_task(cycle, application)  # type: ignore[arg-type]

    # --- ends ---------------------------------------------------------------------------------------------------
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
        if self._kept and not self.transport.get_write_buffer_size():
            return Wait("body", self._kept, 0, self.pace_s, math.inf)
        return super()._waits_for()


def fast_connection_class(
    fast_path: FastPath, refused: Counter[str], callers: AddressConnections, **bounds: float
) -> type[Connection]:
    """Makes a class of connections with this fast path; the rest is as of `connection_class`."""
    kinds = FastConnection, connection_class(refused, callers, **bounds)
    return type("FastServerConnection", kinds, {"fast_path": fast_path})
