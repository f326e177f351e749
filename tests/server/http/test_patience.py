"""How long a connection waits for its client: for a head, for a body, and until an answer is taken."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from typing import Any

import pytest
import uvloop

from clickcurve.limiter.http.address import addresses
from server.http.connection import AddressConnections
from tests.server.http.test_connection import Scope, listening, until_closed

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
LARGE = 32 * 1024 * 1024  # more than the kernels of both sides keep


async def large(scope: Scope, receive: Any, send: Any) -> None:
    """Answers with more than a client takes that does not read."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LARGE)]})
    await send({"type": "http.response.body", "body": bytes(LARGE)})


async def unread(scope: Scope, receive: Any, send: Any) -> None:
    """Answers before the body has come, as for one that is too large."""
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def trickle(port: int, head: bytes, piece: bytes, every_s: float) -> bytes:
    """Sends a piece again and again until the connection ends; what came back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    reading = asyncio.create_task(reader.read())
    while not reading.done():
        writer.write(piece)
        await asyncio.wait({reading}, timeout=every_s)
    writer.close()
    try:
        return reading.result()
    except ConnectionError:
        return b"reset"


@pytest.mark.parametrize(
    ("begun", "reason"),
    [(b"", "head"), (b"GET / HTTP/1.1\r\n", "head"), (POST, "body"), (POST + b"12345", "body")],
    ids=["nothing", "headers", "no body", "a part of a body"],
)
def test_a_client_that_stalls_is_let_go_of(begun: bytes, reason: str) -> None:
    refused: Counter[str] = Counter()

    async def main() -> bytes:
        async with listening(refused, head_s=0.05, pace_s=0.05, look_s=0.02) as port:
            return await until_closed(port, begun)

    assert asyncio.run(main()) in (b"", b"reset")
    assert refused == {reason: 1}


@pytest.mark.parametrize(
    ("begun", "piece", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", b"X: y\r\n", "head"),
        (GET + b"GET / HTTP/1.1\r\n", b"X: y\r\n", "head"),
        (POST, b".", "body"),
    ],
    ids=["headers", "headers of a second request", "body"],
)
def test_a_byte_now_and_then_holds_no_connection(begun: bytes, piece: bytes, reason: str) -> None:
    refused: Counter[str] = Counter()

    async def main() -> None:
        async with listening(refused, head_s=0.3, pace_s=0.3, look_s=0.05) as port:
            await asyncio.wait_for(trickle(port, begun, piece, 0.02), 600)

    asyncio.run(main())
    assert refused == {reason: 1}


def test_a_slow_body_at_a_fair_rate_is_taken() -> None:
    refused: Counter[str] = Counter()

    async def main() -> bytes:
        async with listening(refused, pace_s=0.2, look_s=0.05, slowest_bytes_s=500) as port:
            head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n"
            return await asyncio.wait_for(trickle(port, head, b"x" * 40, 0.02), 600)

    assert asyncio.run(main()).endswith(b"\r\n\r\n1000")
    assert not refused


def test_a_client_between_two_requests_does_not_stall_and_ends_after_its_time() -> None:
    refused: Counter[str] = Counter()

    async def main() -> None:
        async with listening(refused, head_s=0.1, pace_s=0.1, look_s=0.05, keep_alive_s=0.5) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(3):
                writer.write(GET)
                assert (await reader.readuntil(b"\r\n\r\n0")).startswith(b"HTTP/1.1 200")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.3)
            writer.write(GET)
            assert (await reader.readuntil(b"\r\n\r\n0")).startswith(b"HTTP/1.1 200")
            assert await asyncio.wait_for(reader.read(1), 600) == b""
            writer.close()

    asyncio.run(main())
    assert not refused


def test_an_answer_that_is_not_taken_is_given_up() -> None:
    refused: Counter[str] = Counter()

    async def main() -> None:
        async with listening(refused, large, pace_s=0.2, look_s=0.05) as port:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(GET)
                while not refused:
                    await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as the server runs
        runner.run(asyncio.wait_for(main(), 600))
    assert refused == {"answer": 1}


def test_an_answer_that_is_taken_slowly_is_whole() -> None:
    refused: Counter[str] = Counter()

    async def main() -> int:
        taken = 0
        async with listening(refused, large, pace_s=0.3, look_s=0.05) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
            writer.write(GET)
            while taken < LARGE:
                taken += len(await reader.read(1 << 20))
                await asyncio.sleep(0.002)
            writer.close()
        return taken

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(asyncio.wait_for(main(), 600)) > LARGE
    assert not refused


@pytest.mark.parametrize(
    "bounds", [{"drained_bytes": 1 << 20}, {"drained_s": 0.2, "look_s": 0.05}], ids=["bytes", "time"]
)
def test_a_body_whose_request_is_answered_ends_at_a_bound(bounds: dict[str, float]) -> None:
    refused: Counter[str] = Counter()

    async def main() -> bytes:
        async with listening(refused, unread, None, **bounds) as port:
            head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            return await asyncio.wait_for(trickle(port, head, b"4000\r\n" + bytes(0x4000) + b"\r\n", 0.001), 600)

    asyncio.run(main())
    assert refused == {"drained": 1}


def test_a_body_whose_request_is_answered_may_come_to_its_end() -> None:
    async def main() -> bytes:
        async with listening(None, unread) as port:
            return await until_closed(
                port, POST + bytes(100_000) + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
            )

    assert asyncio.run(main()).count(b"HTTP/1.1 413") == 2


def test_a_client_is_between_requests_when_its_body_has_come_after_the_answer() -> None:
    refused: Counter[str] = Counter()

    async def main(then: bytes) -> bytes:
        async with listening(refused, unread, drained_s=0.05, look_s=0.02, keep_alive_s=0.5) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(POST)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(bytes(100_000))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.3)
            writer.write(then)
            found = await asyncio.wait_for(reader.read(), 600)
            writer.close()
            return found

    assert asyncio.run(main(GET)).startswith(b"HTTP/1.1 413")
    assert not refused
    assert asyncio.run(main(b"no request\r\n")).startswith(b"HTTP/1.1 400")


# --- by address -------------------------------------------------------------------------------------------------------
def test_an_address_has_so_many_connections_and_gets_its_places_back() -> None:
    callers = AddressConnections(addresses("10.0.0.0/8, unix"), 2)
    name = callers.name(("203.0.113.7", 1))
    assert [callers.enter(name) for _ in range(3)] == [True, True, False]
    assert callers.enter(callers.name(("203.0.113.8", 1)))
    callers.leave(name)
    assert [callers.enter(name) for _ in range(2)] == [True, False]
    assert callers.name(("2001:db8::1", 1)) == callers.name(("2001:db8::2", 1)), "a household is one caller"


@pytest.mark.parametrize("client", [("127.0.0.1", 1), ("::1", 1), ("::ffff:127.0.0.1", 1), ("10.1.2.3", 1), None])
def test_this_machine_and_proxies_speak_for_many(client: tuple[str, int] | None) -> None:
    callers = AddressConnections(addresses("10.0.0.0/8, unix"), 1)
    name = callers.name(client)
    assert name is None
    assert [callers.enter(name) for _ in range(3)] == [True] * 3
    assert AddressConnections(addresses(""), 0).name(("203.0.113.7", 1)) is None, "0 is no bound"


def test_a_connection_too_many_of_an_address_is_answered_429(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: Counter[str] = Counter()

    async def main() -> None:
        async with listening(refused, callers=AddressConnections(addresses(""), 1)) as port:
            monkeypatch.setattr(AddressConnections, "name", lambda self, client: "203.0.113.7")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            await reader.readuntil(b"\r\n\r\n0")
            second = await until_closed(port)
            assert second.startswith(b"HTTP/1.1 429") and b"retry-after: 1" in second
            writer.close()
            while not (
                found := await until_closed(port, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            ).startswith(b"HTTP/1.1 200"):
                assert found.startswith(b"HTTP/1.1 429")

    asyncio.run(asyncio.wait_for(main(), 600))
    assert refused["address"] >= 1
