"""A connection: bounded in number, in headers, and in patience with a client that stalls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from server.http.connection import connection_class

Scope = dict[str, Any]


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


@asynccontextmanager
async def listening(refused: Counter[str] | None = None, **bounds: float) -> AsyncIterator[int]:
    """The port of a server with these bounds, which counts what it refuses."""
    config = uvicorn.Config(
        echo,
        http=connection_class(Counter() if refused is None else refused, **bounds),
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
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionError:
        return b"reset"
    finally:
        writer.close()


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\ncontent-length: 10\r\n\r\n12345"],
    ids=["nothing", "headers", "body"],
)
def test_a_client_that_stalls_is_let_go_of(begun: bytes) -> None:
    refused: Counter[str] = Counter()

    async def main() -> bytes:
        async with listening(refused, stall_s=0.05) as port:
            return await until_closed(port, begun)

    assert asyncio.run(main()) in (b"", b"reset")
    assert refused == {"stalled": 1}


def test_a_client_between_two_requests_does_not_stall() -> None:
    async def main() -> bytes:
        async with listening(stall_s=0.05) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(3):
                writer.write(b"GET / HTTP/1.1\r\n\r\n")
                assert (await reader.readuntil(b"\r\n\r\n0")).startswith(b"HTTP/1.1 200")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.3)
            writer.write(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
            found = await reader.read()
            writer.close()
            return found

    assert asyncio.run(main()).startswith(b"HTTP/1.1 200")


def test_a_connection_too_many_is_answered_503_with_retry_after() -> None:
    async def main() -> None:
        async with listening(connections_max=1) as port:
            _, first = await asyncio.open_connection("127.0.0.1", port)
            second = await until_closed(port)
            assert second.startswith(b"HTTP/1.1 503")
            assert b"retry-after: 1" in second and b"application/problem+json" in second
            first.close()

    asyncio.run(main())


def test_a_body_may_be_as_long_as_it_likes_if_it_comes() -> None:
    async def main() -> bytes:
        async with listening(header_bytes=1_000, stall_s=5) as port:
            head = b"POST / HTTP/1.1\r\nconnection: close\r\ncontent-length: 500000\r\n\r\n"
            return await until_closed(port, head, *[b"x" * 50_000] * 10)

    assert asyncio.run(main()).endswith(b"500000")
