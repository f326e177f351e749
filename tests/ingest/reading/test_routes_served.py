"""The write routes behind connections of the server: what these add, byte by byte."""

from __future__ import annotations

import asyncio
import gzip
import random
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from clickcurve.buckets.errors import JournalBehind, JournalUnknown
from clickcurve.limiter.http.address import addresses
from ingest.reading.body_budget import BodyBudget
from ingest.reading.hit_endpoint import HitRoutes
from ingest.reading.receipt import ONE_COUNTED
from server.app.parts import ROUTES
from server.http.connection import AddressConnections, Connection
from server.http.fast_path import FastPath, fast_connection_class
from server.http.gateway import Gateway
from server.http.problems import Problems
from server.tokens.gate import Gate
from tests.ingest.http_kit import NOW, MemoryIntake, is_bot, minutes_since

DEADLINE_S = 600


class Caller:
    """A connection on which bytes are written as they are, and whole answers read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))

    async def answer(self, with_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await self.reader.readexactly(int(headers.get("content-length", 0))) if with_body else b""
        return int(head[0].split()[1]), headers, body

    async def rest(self) -> bytes:
        """All bytes until the server closes the connection."""
        return await self.reader.read()


class Served:
    def __init__(self, port: int, **options: Any) -> None:
        self.intake = MemoryIntake()
        room = BodyBudget(lambda: 0.0, **options)
        self.routes = HitRoutes(self.intake, lambda: float(NOW), minutes_since, is_bot, room=room)
        self.port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await self.routes(scope, receive, send)

    async def connect(self) -> Caller:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        return Caller(reader, writer)

    def leave(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


def below_asgi(routes: HitRoutes) -> type[Connection]:
    """Connections of the server, which answer plain hits without ASGI."""
    gateway = Gateway(Gate(lambda: 0.0), Problems(), routes, routes, ROUTES)
    return fast_connection_class(FastPath(gateway), Counter(), AddressConnections(addresses("")))


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Served]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        app = Served(listening.getsockname()[1], **options)
        connections = below_asgi(app.routes)
        config = uvicorn.Config(
            app, http=connections, lifespan="off", log_config=None, ws="none", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield app
        finally:
            app.leave()
            server.should_exit = True
            await running


def run(scenario: Callable[[Served], Awaitable[None]], **options: Any) -> Served:
    async def whole() -> Served:
        async with serving(**options) as served:
            await asyncio.wait_for(scenario(served), DEADLINE_S)
            return served

    return asyncio.run(whole())


def post(path: bytes, body: bytes = b"", *headers: bytes) -> bytes:
    length = b"" if any(header.lower().startswith(b"transfer-encoding") for header in headers) else b"%d" % len(body)
    lines = [
        b"POST " + path + b" HTTP/1.1",
        b"Host: localhost",
        *headers,
        *([b"Content-Length: " + length] if length else []),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def test_one_connection_serves_many_requests() -> None:
    async def scenario(served: Served) -> None:
        connection = await served.connect()
        for path in (b"/v1/hits/a", b"/v1/hits/a%2Fb", b"/v1/hits/%252F?"):
            connection.send(post(path))
            assert await connection.answer() == (200, ANY, ONE_COUNTED)
        connection.send(b"POST /v1/hits/plain HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await connection.answer() == (200, ANY, ONE_COUNTED)
        connection.send(post(b"/v1/hits", b'[{"key":"a"},{"key":""}]', b"Content-Type: application/json"))
        status, headers, body = await connection.answer()
        assert (status, headers["content-type"]) == (200, "application/json")
        assert body.startswith(b'{"counted":1,"duplicate":0,"late":0,"refused":1,"items":[{')

    served = run(scenario)
    assert served.intake.singles == {"a": 1, "a/b": 1, "%2F": 1, "plain": 1}
    assert served.intake.people.total() == 1


def test_requests_sent_at_once_are_answered_in_order() -> None:
    async def scenario(served: Served) -> None:
        connection = await served.connect()
        connection.send(post(b"/v1/hits/a"), post(b"/v1/hits", b"x"), post(b"/v1/hits/b"), post(b"/v1/hits/a/b"))
        assert [(await connection.answer())[0] for _ in range(4)] == [200, 400, 200, 404]

    assert run(scenario).intake.singles == {"a": 1, "b": 1}


UNKNOWN = [
    post(b"/v1/hits/a"),
    post(b"/v1/hits/a", b"", b"Idempotency-Key: x"),
    post(b"/v1/hits", b'{"key":"a"}'),
    post(b"/v1/hits", b'{"key":"a","ts":1767225600}'),
    post(b"/v1/hits", b'[{"key":"a"},{"key":""}]'),
]


@pytest.mark.parametrize("request_", UNKNOWN)
def test_an_unknown_outcome_closes_the_connection_without_a_byte(request_: bytes) -> None:
    async def scenario(served: Served) -> None:
        served.intake.failure = JournalUnknown("the write failed and could not be cancelled")
        connection = await served.connect()
        connection.send(request_)
        assert await connection.rest() == b""
        served.intake.failure = None
        other = await served.connect()
        other.send(request_)
        assert (await other.answer())[0] == 200

    assert run(scenario).routes.counters.unanswered == 1


def test_a_refusal_for_now_keeps_the_connection() -> None:
    async def scenario(served: Served) -> None:
        served.intake.failure = JournalBehind("the journal is behind")
        connection = await served.connect()
        connection.send(post(b"/v1/hits/a"))
        status, headers, _ = await connection.answer()
        assert (status, headers["retry-after"]) == (429, "1")
        served.intake.failure = None
        connection.send(post(b"/v1/hits/a"))
        assert (await connection.answer())[0] == 200

    assert run(scenario).intake.total == 1


def test_chunked_bodies() -> None:
    async def scenario(served: Served) -> None:
        chunked = b"Transfer-Encoding: chunked"
        connection = await served.connect()
        connection.send(post(b"/v1/hits", b'5\r\n[{"ke\r\n8;x=y\r\ny":"a"}]\r\n0\r\n\r\n', chunked))
        assert (await connection.answer())[2] == ONE_COUNTED
        connection.send(post(b"/v1/hits/a", b"0\r\n\r\n", chunked))
        assert (await connection.answer())[2] == ONE_COUNTED
        connection.send(post(b"/v1/hits/a", b"1\r\nx\r\n0\r\n\r\n", chunked))
        assert (await connection.answer())[0] == 400
        connection.send(post(b"/v1/hits/a"))
        assert (await connection.answer())[0] == 200

    assert run(scenario).intake.total == 3


def test_expect_100_continue() -> None:
    async def scenario(served: Served) -> None:
        expect = b"Expect: 100-continue"
        connection = await served.connect()
        connection.send(post(b"/v1/hits", b'{"key":"a"}', expect)[:-11])
        assert (await connection.answer(with_body=False))[0] == 100
        connection.send(b'{"key":"a"}')
        assert (await connection.answer())[2] == ONE_COUNTED
        connection.send(post(b"/v1/hits", b" " * 2000, expect)[:-2000])
        status, headers, _ = await connection.answer()
        assert (status, headers["connection"]) == (413, "close")
        assert await connection.rest() == b""

    assert run(scenario, body_bytes=1000).intake.total == 1


def test_a_client_that_sends_too_much_can_read_why() -> None:
    async def scenario(served: Served) -> None:
        connection = await served.connect()
        connection.send(post(b"/v1/hits", b" " * 3_000_000))
        await connection.writer.drain()
        assert (await connection.answer())[0] == 413
        connection.send(
            post(b"/v1/hits", b"%x\r\n%s\r\n0\r\n\r\n" % (300_000, b" " * 300_000), b"Transfer-Encoding: chunked")
        )
        assert (await connection.answer())[0] == 413
        connection.send(post(b"/v1/hits", gzip.compress(b" " * 300_000), b"Content-Encoding: gzip"))
        assert (await connection.answer())[0] == 413
        connection.send(post(b"/v1/hits/a"))
        assert (await connection.answer())[0] == 200

    assert run(scenario, body_bytes=200_000).intake.total == 1


def test_a_client_that_leaves_in_the_middle_counts_nothing() -> None:
    async def scenario(served: Served) -> None:
        request = post(b"/v1/hits", b'[{"key":"a"},{"key":"b"}]')
        for length in (len(request) - 1, len(request) - 20):
            connection = await served.connect()
            connection.send(request[:length])
            await connection.writer.drain()
            connection.writer.transport.abort()
        whole = await served.connect()
        whole.send(post(b"/v1/hits/c"))
        assert (await whole.answer())[0] == 200

    assert run(scenario).intake.total == 1


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"PUT", b"OPTIONS"])
def test_other_methods_are_answered_and_the_connection_goes_on(method: bytes) -> None:
    async def scenario(served: Served) -> None:
        connection = await served.connect()
        for path in (b"/v1/hits", b"/v1/hits/a"):
            connection.send(method + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            status, headers, _ = await connection.answer(with_body=method != b"HEAD")
            assert (status, headers["allow"]) == (405, "post")
        connection.send(post(b"/v1/hits/a"))
        assert (await connection.answer())[0] == 200

    assert run(scenario).intake.total == 1


SEEDS = [
    post(b"/v1/hits/a%2Fb", b"", b"Idempotency-Key: abc"),
    post(b"/v1/hits/abc"),
    post(b"/v1/hits", b'{"key":"a","ts":1767225600,"count":2}', b"Content-Type: application/json; charset=utf-8"),
    post(b"/v1/hits", b'[{"key":"a","id":"1","ua":"x"},{"key":"\\ud83d\\ude00","ts":1.5}]'),
    post(b"/v1/hits", b'{"key":"a"}\n{"key":"b","bot":true}\r\n', b"Content-Type: application/x-ndjson"),
    post(b"/v1/hits", gzip.compress(b'[{"key":"a"}]', mtime=0), b"Content-Encoding: gzip"),
    post(
        b"/v1/hits", b'5\r\n[{"ke\r\n8\r\ny":"a"}]\r\n0\r\n\r\n', b"Transfer-Encoding: chunked", b"Expect: 100-continue"
    ),
]


def mutated(rng: random.Random, request: bytes) -> bytes:
    """A few bytes changed, left out, doubled or put in anywhere: line, headers or body."""
    made = bytearray(request)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(made))
        kind = rng.randrange(4)
        if kind == 0:
            made[at] = rng.randrange(256)
        elif kind == 1:
            del made[at : at + rng.randint(1, 8)]
        elif kind == 2:
            made[at:at] = made[at : at + rng.randint(1, 8)]
        else:
            made[at:at] = rng.choice(
                [b"%", b"%00", b"\xff", b"\0", b"\r\n", b'"', b"\\ud800", b"9" * 400, b"[[{{", b" "]
            )
        if not made:
            return bytes(made)
    return bytes(made)


def test_no_bytes_of_a_client_make_an_error_of_the_servers(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: Served) -> None:
        rng = random.Random(7)
        for _ in range(300):
            connection = await served.connect()
            connection.send(mutated(rng, rng.choice(SEEDS)))
            connection.writer.write_eof()
            answer = await connection.rest()
            assert not re.search(rb"HTTP/1\.1 5(?!01|05)", answer), answer  # those two are for codings and versions
        last = await served.connect()
        last.send(post(b"/v1/hits/a"))
        assert (await last.answer())[0] == 200

    run(scenario)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


class _Any(dict[str, str]):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None


ANY: dict[str, str] = _Any()
