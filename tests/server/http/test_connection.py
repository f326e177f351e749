"""A connection: bounded in number and in headers; answers in order; ends as its client does."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import uvicorn

from clickcurve.limiter.http.address import addresses
from server.http.connection import AddressConnections
from server.http.fast_path import FastPath, fast_connection_class
from server.http.gateway import Gateway

Scope = dict[str, Any]


class Slow:
    """Answers a request with the length of its body, when `go` is set, and notes what became of it."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun: list[str] = []
        self.ended: list[str] = []

    async def __call__(self, scope: Scope, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        self.begun.append(scope["path"])
        await self.go.wait()
        await echo(scope, receive, send)
        self.ended.append(scope["path"])


async def echo(scope: Scope, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
    """Answers with the length of the body."""
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        if not message["more_body"]:
            break
    body = str(size).encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Nobody:
    """Stands for a gateway that lets nothing in: all goes the way of `Connection`."""

    hits = None
    fast_routes = ()

    def changes(self) -> int:
        return 0

    def lets_in(self, *_: object) -> bool:
        return False


@asynccontextmanager
async def listening(
    refused: Counter[str] | None = None,
    application: Callable[..., Any] = echo,
    callers: AddressConnections | None = None,
    **bounds: float,
) -> AsyncIterator[int]:
    """The port of a server with these bounds, which counts what it refuses."""
    config = uvicorn.Config(
        application,
        http=fast_connection_class(
            FastPath(cast(Gateway, Nobody())),
            Counter() if refused is None else refused,
            callers or AddressConnections(addresses("")),
            **bounds,
        ),
        lifespan="off",
        log_config=None,
    )
    config.load()
    state = uvicorn.Server(config).server_state
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: config.http_protocol_class(config=config, server_state=state, app_state={}),  # type: ignore[call-arg]
        "127.0.0.1",
        0,
    )
    async with server:
        yield server.sockets[0].getsockname()[1]
        for connection in list(state.connections):
            connection.shutdown()


async def until_closed(port: int, *pieces: bytes) -> bytes:
    """What comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), 600)
    except ConnectionError:
        return b"reset"
    finally:
        writer.close()


async def test_a_connection_too_many_is_answered_503_with_retry_after() -> None:
    async with listening(connections_max=1) as port:
        _, first = await asyncio.open_connection("127.0.0.1", port)
        second = await until_closed(port)
        assert second.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in second and b"application/problem+json" in second
        first.close()


def test_a_body_may_be_as_long_as_it_likes_if_it_comes() -> None:
    async def main() -> bytes:
        async with listening(header_bytes=1_000) as port:
            head = b"POST / HTTP/1.1\r\nHost: a\r\nconnection: close\r\ncontent-length: 500000\r\n\r\n"
            return await until_closed(port, head, *[b"x" * 50_000] * 10)

    assert asyncio.run(main()).endswith(b"500000")


# --- heads ----------------------------------------------------------------------------------------------------------
LEAST = len(b"GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n")


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("pieces", [1, 2, 40])
def test_the_bound_on_the_bytes_of_a_head_is_exact(extra: int, pieces: int) -> None:
    async def main() -> bytes:
        async with listening(header_bytes=5_000) as port:
            head = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * (5_000 - LEAST + extra) + b"\r\n\r\n"
            assert len(head) == 5_000 + extra
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for begin in range(0, len(head), -(-len(head) // pieces)):
                writer.write(head[begin : begin - (-len(head) // pieces)])
                await writer.drain()
            line = await reader.readline()
            writer.close()
            return line

    assert asyncio.run(main()) == (
        b"HTTP/1.1 431 Request Header Fields Too Large\r\n" if extra else b"HTTP/1.1 200 OK\r\n"
    )


def test_the_bound_holds_for_each_request_of_a_read_alone() -> None:
    async def main() -> bytes:
        async with listening(header_bytes=1_000) as port:
            head = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 700 + b"\r\n\r\n"
            last = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 970 + b"\r\n\r\n"
            return await until_closed(port, head * 5 + last)

    raw = asyncio.run(main())
    assert (raw.count(b"HTTP/1.1 200"), raw.count(b"HTTP/1.1")) == (5, 5)


# --- what cannot be read, after what could ----------------------------------------------------------------------------
GOOD = b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
BAD_BODY = b"POST /bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"


@pytest.mark.parametrize("bad", [b"\0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", BAD_BODY], ids=["bytes", "head", "body"])
@pytest.mark.parametrize("before", [0, 1, 3])
def test_requests_before_one_that_cannot_be_read_are_answered_in_order(bad: bytes, before: int) -> None:
    refused: Counter[str] = Counter()

    async def main() -> bytes:
        slow = Slow()
        async with listening(refused, slow) as port:
            good = b"".join(GOOD % number for number in range(before))
            reading = asyncio.create_task(until_closed(port, good + bad, GOOD % 9))
            while not refused:
                await asyncio.sleep(0)
            slow.go.set()
            raw = await reading
            assert "/9" not in slow.begun
            assert slow.ended[:before] == [f"/{number}" for number in range(before)]
            return raw

    raw = asyncio.run(main())
    assert refused == {"unreadable": 1}
    assert raw.count(b"HTTP/1.1 200") == before
    assert raw.count(b"HTTP/1.1 400") == (0 if before else 1), (
        "an error after others is told by the end of the connection"
    )
    assert len(re.findall(rb"HTTP/1.1 \d", raw)) == max(1, before)


@pytest.mark.parametrize("bad", [b"\0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"X" * 2_000], ids=["bytes", "head", "long"])
async def test_what_follows_a_request_that_cannot_be_read_does_not_reset_its_answer(bad: bytes) -> None:
    refused: Counter[str] = Counter()
    async with listening(refused, header_bytes=1_000) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(bad)
        while not refused:
            await asyncio.sleep(0)
        for _ in range(50):  # no reset while the client sends on
            writer.write(b"x" * 10_000)
            await writer.drain()
        assert (await asyncio.wait_for(reader.read(), 600)).startswith(b"HTTP/1.1 4")
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    "bounds", [{"ended_s": 0.1, "look_s": 0.05}, {"drained_bytes": 100_000}], ids=["time", "bytes"]
)
def test_a_client_that_goes_on_after_such_an_answer_is_let_go_of(bounds: dict[str, float]) -> None:
    async def main() -> None:
        async with listening(None, echo, None, **bounds) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"\0\r\n\r\n")
            assert (await asyncio.wait_for(reader.read(), 600)).startswith(b"HTTP/1.1 400")
            with pytest.raises(ConnectionError):
                while True:
                    writer.write(b"x" * 1_000)
                    await writer.drain()
            writer.close()

    asyncio.run(asyncio.wait_for(main(), 600))


def test_an_answer_that_takes_long_is_waited_for_when_what_follows_cannot_be_read() -> None:
    refused: Counter[str] = Counter()

    async def main() -> bytes:
        slow = Slow()
        async with listening(refused, slow, ended_s=0.05, look_s=0.02) as port:
            reading = asyncio.create_task(until_closed(port, GOOD % 1 + b"\0\r\n\r\n"))
            while not refused:
                await asyncio.sleep(0)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(reading), 0.3)
            slow.go.set()
            return await reading

    assert asyncio.run(main()).count(b"HTTP/1.1 200") == 1


# --- ends -------------------------------------------------------------------------------------------------------------
LAST = b"POST /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"


@pytest.mark.parametrize("last", [LAST, LAST.replace(b"/1.1", b"/1.0"), GOOD % 1 + LAST], ids=["1.1", "1.0", "second"])
async def test_what_follows_the_last_request_of_a_connection_does_not_reset_its_answer(last: bytes) -> None:
    async with listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(last)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 600)
        for _ in range(50):  # no reset while the client sends on
            writer.write(GOOD % 9 + b"x" * 10_000)
            await writer.drain()
        rest = await asyncio.wait_for(reader.read(), 600)
        assert (head + rest).count(b"HTTP/1.1 200") == last.count(b" /")
        assert rest.endswith(b"3")
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    "bounds", [{"ended_s": 0.1, "look_s": 0.05}, {"drained_bytes": 100_000}], ids=["time", "bytes"]
)
def test_a_client_that_goes_on_after_its_last_request_is_let_go_of(bounds: dict[str, float]) -> None:
    async def main() -> None:
        async with listening(None, echo, None, **bounds) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(LAST)
            assert (await asyncio.wait_for(reader.read(), 600)).startswith(b"HTTP/1.1 200")
            with pytest.raises(ConnectionError):
                while True:
                    writer.write(b"x" * 1_000)
                    await writer.drain()
            writer.close()

    asyncio.run(asyncio.wait_for(main(), 600))


async def test_a_client_that_has_closed_its_side_is_answered() -> None:
    for pieces, answers in ((GOOD % 1, 1), (b"".join(GOOD % n for n in range(3)), 3), (GOOD % 1 + b"GET /", 1)):
        slow = Slow()
        async with listening(None, slow) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(pieces)
            writer.write_eof()
            while not slow.begun:
                await asyncio.sleep(0)
            slow.go.set()
            raw = await asyncio.wait_for(reader.read(), 600)
            assert raw.count(b"HTTP/1.1 200") == answers
            assert b"connection: close" in raw
            writer.close()


async def test_a_client_that_has_closed_its_side_within_a_body_is_let_go_of() -> None:
    async with listening() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GOOD[:-1] % 1)
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), 600) == b""
        writer.close()
