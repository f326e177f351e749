"""How Redis is asked, and how its answers are read: whole, in pieces, of both protocols; what the library must have."""

from __future__ import annotations

import asyncio
import gc
import socket
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import NoScriptError, ResponseError

from clickcurve.limiter.backends.connections.redis_address import RedisAddress
from clickcurve.limiter.backends.connections.redis_socket import RedisSocket
from clickcurve.limiter.backends.redis import AsyncRedisBackend, RedisBackend
from clickcurve.limiter.backends.redis_scripts import command
from testing.backend_servers import Certificate, Served, redis_server, shared_redis
from testing.server import free_port
from tests.limiter.given import T, hits
from tests.limiter.places import PATIENCE_S, Place, on
from tests.limiter.together import together

ANSWERS: list[tuple[bytes, Any]] = [
    (b"$5\r\na\r\nbc\r\n", b"a\r\nbc"),
    (b"$0\r\n\r\n", b""),
    (b"$-1\r\n", None),
    (b"_\r\n", None),
    (b":-7\r\n", -7),
    (b"+OK\r\n", b"OK"),
    (b"*-1\r\n", None),
    (b"*0\r\n", []),
    (b"*3\r\n$2\r\nab\r\n*1\r\n:4\r\n$-1\r\n", [b"ab", [4], None]),
    (b"%1\r\n$1\r\na\r\n:4\r\n", [b"a", 4]),
    (b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n$2\r\nok\r\n", b"ok"),
]


class Library:
    """A connection of the library as far as it is leaned on."""

    def __init__(self, connected: socket.socket) -> None:
        self._sock = connected

    def disconnect(self) -> None:
        self._sock.close()


@pytest.fixture
def ends() -> Iterator[tuple[RedisSocket, socket.socket]]:
    """Our end, and the server's."""
    ours, theirs = socket.socketpair()
    ours.settimeout(20.0)
    with ours, theirs:
        yield RedisSocket(Library(ours)), theirs


@pytest.mark.parametrize(("sent", "answer"), ANSWERS)
def test_an_answer_that_comes_at_once(ends: tuple[RedisSocket, socket.socket], sent: bytes, answer: Any) -> None:
    ours, theirs = ends
    for _ in range(2):
        theirs.sendall(sent)
        assert ours.ask(b"PING\r\n") == answer
        assert ours.is_silent()
    assert theirs.recv(100) == b"PING\r\n" * 2


@pytest.mark.parametrize(("sent", "answer"), ANSWERS)
def test_an_answer_that_comes_byte_by_byte(
    ends: tuple[RedisSocket, socket.socket], monkeypatch: pytest.MonkeyPatch, sent: bytes, answer: Any
) -> None:
    ours, theirs = ends
    monkeypatch.setattr("clickcurve.limiter.backends.connections.redis_socket._AT_ONCE", 1)
    theirs.sendall(sent)
    assert ours.ask(b"PING\r\n") == answer
    assert ours.is_silent()


def test_an_answer_larger_than_one_read() -> None:
    ours, theirs = socket.socketpair()
    many = [b"x" * 300_000, *([b"caller"] * 20_000)]
    sent = b"*%d\r\n" % len(many) + b"".join(b"$%d\r\n%b\r\n" % (len(each), each) for each in many)
    with ours, theirs:
        told: list[Any] = []
        asking = RedisSocket(Library(ours))
        together(2, lambda n: theirs.sendall(sent) if n else told.append(asking.ask(b"PING\r\n")))
        assert told == [many]
        assert asking.is_silent()


@pytest.mark.parametrize(
    ("sent", "error", "text"),
    [
        (b"-NOSCRIPT No matching script.\r\n", NoScriptError, "NOSCRIPT No matching"),
        (b"-READONLY You can't write\r\n", ResponseError, "READONLY"),
        (b"HTTP/1.1 400 Bad Request\r\n", ConnectionError, "not an answer of Redis"),
        (b"$5\r\nab", ConnectionError, "in the middle of an answer"),
        (b"", ConnectionError, "was closed"),
    ],
)
def test_what_is_no_answer(
    ends: tuple[RedisSocket, socket.socket], sent: bytes, error: type[Exception], text: str
) -> None:
    ours, theirs = ends
    theirs.sendall(sent)
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(error, match=text):
        ours.ask(b"PING\r\n")


def test_bytes_after_the_answer_and_the_end_are_not_silence(ends: tuple[RedisSocket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.sendall(b"+OK\r\n+late\r\n")
    assert ours.ask(b"PING\r\n") == b"OK"
    assert not ours.is_silent()


def test_an_end_is_not_silence(ends: tuple[RedisSocket, socket.socket]) -> None:
    ours, theirs = ends
    assert ours.is_silent()
    theirs.close()
    assert not ours.is_silent()


@on("tiered", "fixed", "token_bucket", among=("redis",))
def test_numbers_that_are_signs_of_a_format_are_numbers(strategy: str, place: Place) -> None:
    """What a rule says is a part of the bytes that are filled in for each hit: 37 is a %, and 9,509 two of them."""
    limiter = place.limiter({"e": {"by": "ip", "rates": "37/37s, 9509/9509s", "strategy": strategy}})
    assert hits(limiter, 38, T) == [True] * 37 + [False]
    assert limiter.peek("e", {"ip": "%d%b"}, now=T).remaining == 37


@pytest.mark.needs("redis", "openssl")
def test_a_connection_over_tls_is_kept(tmp_path: Path) -> None:
    """What TLS itself sends after its handshake is not an answer that came too late."""
    certificate, port = Certificate.made(tmp_path), free_port()
    with redis_server(*certificate.flags(port)):
        backend = RedisBackend(f"rediss://localhost:{port}/0?ssl_ca_certs={certificate.file}", timeout_s=PATIENCE_S)
        limiter = Place("redis", backend).limiter({"e": {"by": "ip", "rates": "10/m"}})
        assert hits(limiter, 11, T) == [True] * 10 + [False]
        assert backend.measures() == {"redis_connections_made_total": 1, "redis_failures_total": 0}
        limiter.close()


@pytest.mark.needs("redis", "openssl")
def test_a_connection_over_tls_ends_with_its_event_loop(tmp_path: Path) -> None:
    """An unclosed one would be a ResourceWarning, in whatever runs when it is collected."""
    certificate, port = Certificate.made(tmp_path), free_port()

    url = f"rediss://localhost:{port}/0?ssl_ca_certs={certificate.file}"
    with redis_server(*certificate.flags(port)) as served:
        with asyncio.Runner() as runner:
            backend = AsyncRedisBackend(url, timeout_s=PATIENCE_S)
            assert runner.run(backend.ask(command(b"PING"))) == b"PONG"
            served.suspend()
            runner.run(backend.close())
        gc.collect()
        served.resume()


@pytest.mark.needs("redis", "openssl")
@pytest.mark.parametrize(
    ("kind", "step"), [(asyncio.StreamReaderProtocol, "connection_made"), (SSLProtocol, "_on_handshake_complete")]
)
def test_a_connection_over_tls_that_is_given_up_as_it_is_made_ends_with_its_event_loop(
    kind: type, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, port = Certificate.made(tmp_path), free_port()
    original = getattr(kind, step)

    async def give_up(served: Served) -> None:
        backend = AsyncRedisBackend(f"rediss://localhost:{port}/0?ssl_ca_certs={certificate.file}", timeout_s=None)
        asking = asyncio.create_task(backend.ask(command(b"PING")))

        def taken(protocol: Any, *arguments: Any) -> None:
            original(protocol, *arguments)
            served.suspend()  # it answers no polite close
            asking.cancel()

        monkeypatch.setattr(kind, step, taken)
        with pytest.raises(asyncio.CancelledError):
            await asking

    with redis_server(*certificate.flags(port)) as served:
        asyncio.run(give_up(served))
        gc.collect()
        served.resume()


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.needs("redis")
def test_what_is_leaned_on_of_the_library(protocol: int) -> None:
    """A connected connection has its socket as `_sock`, with the time limit that was asked for."""
    connection: Any = RedisAddress(f"{shared_redis().url}?protocol={protocol}", 7.5, 7.5).connection()
    connection.connect()
    assert isinstance(connection._sock, socket.socket)
    assert connection._sock.gettimeout() == 7.5
    asking = RedisSocket(connection)
    assert asking.is_silent()
    assert asking.ask(b"*1\r\n$4\r\nPING\r\n") == b"PONG"
    assert asking.ask(b"*2\r\n$3\r\nGET\r\n$7\r\nmissing\r\n") is None
    asking.close()
    assert connection._sock is None


@pytest.mark.needs("redis")
async def test_what_is_leaned_on_of_the_library_in_an_event_loop() -> None:
    """A connected connection has its stream as `_writer`."""
    connection: Any = await RedisAddress(shared_redis().url, 7.5, 7.5).awaited_connection()
    await connection.connect()
    assert isinstance(connection._writer, asyncio.StreamWriter)
    await connection.disconnect()
