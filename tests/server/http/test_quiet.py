"""Clients that leave, or send what is no request, are counted and do not fill the log."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer
from tests.server.conftest import events, wait_until

CURVE = b"GET /v1/curve?from=0&to=2200-01-01&step=1mo HTTP/1.1\r\nHost: localhost\r\n\r\n"
USUAL = {"tokens read", "listening", "flush", "fold", "stopped"}


def connected(server: RunningServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=600)


def small_window(server: RunningServer) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    return connection


def reset(connection: socket.socket) -> None:
    """Leaves as a program does that is killed with bytes unread."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def odd_lines(server: RunningServer) -> list[object]:
    return [line for line in events(server) if line["level"] != "info"]


@pytest.mark.parametrize("leave", [reset, socket.socket.close], ids=["reset", "close"])
@pytest.mark.slow
def test_clients_that_leave_while_they_are_answered(
    server: RunningServer, leave: Callable[[socket.socket], None]
) -> None:
    with Clickcurve(server.url) as client:
        crowd = [small_window(server) for _ in range(5)]
        for connection in crowd:
            connection.sendall(CURVE * 60)
        for connection in crowd:
            connection.recv(1)
        for _ in range(40):  # meanwhile the server fills what the kernels keep, and waits
            client.curve(from_=0, to="2200-01-01", step="1mo")
        for connection in crowd:
            leave(connection)
        assert client.hit("launch")["counted"] == 1
    assert server.stop() == 0
    assert odd_lines(server) == []


@pytest.mark.parametrize("path", [b"/v1/hits", b"/v1/import/source?from=0&to=9", b"/v1/limit/login"])
def test_clients_that_leave_within_a_body(server: RunningServer, path: bytes) -> None:
    for _ in range(20):
        connection = connected(server)
        connection.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n[" % path)
        reset(connection)
    with Clickcurve(server.url) as client:
        assert client.hit("launch")["counted"] == 1
    assert server.stop() == 0
    assert odd_lines(server) == []


@pytest.mark.slow
def test_bodies_that_are_half_sent_at_a_stop(server: RunningServer) -> None:
    with ExitStack() as stack:
        for path in (b"/v1/hits", b"/v1/import/source?from=0&to=9", b"/v1/hits", b"/v1/hits") * 5:
            connection = stack.enter_context(connected(server))
            connection.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n[" % path)
        with Clickcurve(server.url) as client:
            assert client.hit("launch")["counted"] == 1
        assert server.stop() == 0
    assert odd_lines(server) == []


def test_what_is_no_request_is_counted_and_not_logged(server: RunningServer) -> None:
    for number in range(50):
        with connected(server) as connection:
            connection.sendall(b"\0\r\n\r\n" if number % 2 else b"GET / HTTP/1.1\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    with Clickcurve(server.url) as client:
        name = 'clickcurve_refused_connections_total{journal="journal-1",reason="unreadable"}'
        wait_until(lambda: client.metrics()[name] == 50)
    assert {line["event"] for line in events(server)} <= USUAL
