"""Connections to a memcached server, a bounded number, and the commands of its protocol that the limiter uses.

A request is any number of commands, sent at once; the answers to all of them come back together. The commands are those
of memcached 1.6.10 and later, each with one answer: a line, and after `VA` a value. The usual clients do not know that
`ms` can replace a value by its CAS number and answer the new one.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from struct import pack
from typing import TypeAlias

from clickcurve.buckets.errors import BackendUnavailable, SettingInvalid

CONNECTIONS = 16
TIMEOUT_S = 0.1
# memcached takes a larger number for a date, and 0 for no end at all.
MAX_RELATIVE_S = 30 * 86_400
_RECEIVE_BYTES = 65_536
# Its answers: done; here it is; there is no such name; it was there, or had another CAS number, so nothing was set.
DONE, FOUND, NOT_THERE, NOT_SET = b"HD", b"VA", (b"EN", b"NF"), (b"NS", b"EX", b"NF")
_KNOWN = frozenset((DONE, *NOT_THERE, *NOT_SET))
# Its code, the CAS number (none: b"") and the value.
Answer: TypeAlias = tuple[bytes, bytes, bytes]


def parse_address(text: str) -> tuple[str, int]:
    """Parses `host:port` or `[::1]:port`. SettingInvalid for anything else."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise SettingInvalid(
            f"a memcached server is host:port, not {text!r}", field="limits_memcached", value=text, rule="host:port"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


class Server:
    """One memcached server, for any number of threads.

    connections: how many are open at most; a thread that finds all of them busy waits for one. timeout_s: for
    connecting, for each piece of an answer, and for a connection to become free. BackendUnavailable when that passes,
    the connection breaks or the server refuses; nothing is sent twice.
    """

    def __init__(self, address: str, connections: int = CONNECTIONS, timeout_s: float = TIMEOUT_S) -> None:
        self.address = address = address.strip()
        self._to = parse_address(address)
        self._timeout_s = timeout_s
        self._connections = connections
        self._opened = 0
        self._begin()

    def _begin(self) -> None:
        """Starts without connections. A forked process has its parent's, and leaves those alone."""
        self._process = os.getpid()
        self._idle: deque[socket.socket] = deque()
        # A permit for each connection. A queue, since a semaphore takes ten times as long.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(self._connections):
            self._free.put(None)

    def ask(self, request: bytes, many: int, epochs: Sequence[int] = ()) -> tuple[list[Answer] | None, int]:
        """Sends a request of so many commands; returns their answers, and the epoch of the CAS numbers in them.

        epochs: of the CAS numbers in the request. After a restart a server begins to count those anew, so they hold
        only until another connection is opened: then nothing is sent, and the answers are None.
        """
        if self._process != os.getpid():
            self._begin()
        try:
            self._free.get(True, self._timeout_s)
        except Empty:
            raise BackendUnavailable(f"memcached at {self.address}: every connection is busy") from None
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
            epoch = self._opened
            answers = None
            if epochs.count(epoch) == len(epochs):
                try:
                    connection.sendall(request)
                    answers = self._read(connection, many)
                except BaseException:
                    # The idle ones were opened before this: if the server is gone, each would fail another request.
                    connection.close()
                    self.close()
                    raise
            self._idle.append(connection)
        except BlockingIOError:
            raise BackendUnavailable(f"memcached at {self.address}: timed out") from None
        except OSError as error:
            raise BackendUnavailable(f"memcached at {self.address}: {error or type(error).__name__}") from error
        finally:
            self._free.put(None)
        return answers, epoch

    def _read(self, connection: socket.socket, many: int) -> list[Answer]:
        answers: list[Answer] = []
        received, at = connection.recv(_RECEIVE_BYTES), 0
        while True:
            end = received.find(b"\r\n", at)
            if end < 0:
                received += _receive(connection, 1)
                continue
            code, value, start = received[at : at + 2], b"", end + 2
            flags = received[at + 3 : end]
            at = start
            if code == FOUND:
                size, _, flags = flags.partition(b" ")
                end = start + self._size(size)
                at = end + 2
                if at > len(received):
                    received += _receive(connection, at - len(received))
                value = received[start:end]
            elif code not in _KNOWN:
                raise self.unexpected(received)
            answers.append((code, flags[1:], value))
            if len(answers) == many:
                if at < len(received):
                    raise self.unexpected(received[at:])
                return answers

    def _size(self, digits: bytes) -> int:
        if not digits.isdigit():
            raise self.unexpected(b"VA " + digits)
        return int(digits)

    def unexpected(self, answer: bytes) -> BackendUnavailable:
        """Returns the error to raise when the server gives an unexpected answer."""
        return BackendUnavailable(f"memcached at {self.address} answered {answer[:100]!r}")

    @property
    def idle(self) -> int:
        return len(self._idle)

    def close(self) -> None:
        """Closes the idle connections. The next request opens another."""
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(self._to, self._timeout_s)
        # From here on the system keeps the time: Python would ask it before each step whether that can be done.
        connection.settimeout(None)
        seconds, us = divmod(int(self._timeout_s * 1_000_000), 1_000_000)
        for which in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            connection.setsockopt(socket.SOL_SOCKET, which, pack("ll", seconds, us))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._opened += 1
        return connection


def _receive(connection: socket.socket, least: int) -> bytes:
    """Receives at least so many bytes, without a copy of the first for each piece that follows."""
    pieces = []
    while least > 0:
        piece = connection.recv(_RECEIVE_BYTES)
        if not piece:
            raise ConnectionResetError("it closed the connection")
        pieces.append(piece)
        least -= len(piece)
    return b"".join(pieces)


# --- commands ---------------------------------------------------------------------------------------------------------
def expiry(life_s: int, at_us: int) -> int:
    """Returns a time to live as memcached takes it: seconds up to 30 days, beyond that the date of its end."""
    return life_s if life_s <= MAX_RELATIVE_S else at_us // 1_000_000 + life_s


def get_command(name: bytes) -> bytes:
    """Returns what reads a value and its CAS number."""
    return b"mg %b v c\r\n" % name


def put_command(name: bytes, value: bytes, ttl: int, cas: bytes) -> bytes:
    """Returns what replaces the value that has this CAS number; b"": sets it if there is none."""
    return b"ms %b %d T%d %b c\r\n%b\r\n" % (name, len(value), ttl, b"C" + cas if cas else b"ME", value)


def delete_command(name: bytes) -> bytes:
    return b"md %b\r\n" % name
