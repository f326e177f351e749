"""Connections to memcached, and the words of its protocol."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest

from clickcurve.buckets.errors import BackendUnavailable, SettingInvalid
from clickcurve.limiter.backends.connections.memcached_connection import Server, get_command, parse_address, put_command
from clickcurve.limiter.backends.memcached import MemcachedBackend
from testing.backend_servers import Served, memcached_server
from tests.limiter.places import PATIENCE_S


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with memcached_server() as server:
        yield server


@pytest.mark.needs("memcached")
def test_connections_are_bounded(server: Served) -> None:
    one = Server(server.address, connections=1, timeout_s=0.05)
    with closing(one):
        one._free.get()
        with pytest.raises(BackendUnavailable, match="busy"):
            one.ask(b"mg name\r\n", 1)
        one._free.put(None)
        assert one.ask(b"mg name\r\n", 1) == ([(b"EN", b"", b"")], 1)
        assert one.idle == 1


@pytest.mark.needs("memcached")
def test_an_answer_of_many_pieces(server: Served) -> None:
    """Of lines and of values that look like lines, some larger than what is received at once."""
    values = [b"\r\n", b"HD c7\r\nEN", b"", b"x" * 900_000, b"VA 3 c1\r\nabc", bytes(range(256)) * 700]
    with closing(Server(server.address, timeout_s=PATIENCE_S)) as asked:
        names = [f"{n}|".encode() + b"x" * 200 for n in range(len(values))]
        put, _ = asked.ask(b"".join(map(put_command, names, values, [100] * 6, [b""] * 6)), len(names))
        got, _ = asked.ask(b"".join(map(get_command, [*names, b"none"])), len(names) + 1)
    assert put is not None and got is not None
    assert [code for code, _, _ in put] == [b"HD"] * 6
    assert got == [(b"VA", cas, value) for (_, cas, _), value in zip(put, values, strict=True)] + [(b"EN", b"", b"")]


@pytest.mark.parametrize(
    "answer", [b"ERROR\r\n", b"VA x\r\n", b"SERVER_ERROR out of memory\r\n", b"HD\r\nHD\r\n", b"\r\n"]
)
def test_an_answer_that_is_none(answer: bytes) -> None:
    """Its connection is closed: what else comes there would be taken for the answer to something else."""
    listening = socket.create_server(("127.0.0.1", 0))
    ended: list[bytes] = []

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(100)
            connection.sendall(answer)
            ended.append(connection.recv(100))

    serving = Thread(target=serve)
    with listening, closing(Server(f"127.0.0.1:{listening.getsockname()[1]}", timeout_s=PATIENCE_S)) as asked:
        serving.start()
        with pytest.raises(BackendUnavailable, match="answered"):
            asked.ask(b"mg name\r\n", 1)
        serving.join()
        assert asked.idle == 0
    assert ended == [b""]


@pytest.mark.parametrize("text", ["", "host", ":1", "host:", "host:0", "host:65536", "host:x", "host:-1", "host:²"])
def test_a_text_that_is_not_an_address(text: str) -> None:
    with pytest.raises(SettingInvalid, match="host:port"):
        MemcachedBackend([text])


def test_addresses() -> None:
    assert parse_address("cache:11211") == ("cache", 11_211)
    assert parse_address(" [::1]:11211 ") == ("::1", 11_211)


def test_settings_that_are_refused() -> None:
    with pytest.raises(SettingInvalid, match="needs a server"):
        MemcachedBackend([])
    with pytest.raises(SettingInvalid, match="16 visible"):
        MemcachedBackend(["h:1"], prefix="a b")
