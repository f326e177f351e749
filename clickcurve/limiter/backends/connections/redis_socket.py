"""A connection to Redis for one question at a time, over a socket that the library has connected.

The library sends and reads in general ways, which take as long as all else that a program does for a decision. Here a
question is one write, and its answer most often one read.
"""

from __future__ import annotations

from select import POLLIN, poll
from ssl import SSLSocket
from typing import Any, TypeAlias

from redis.exceptions import MovedError, NoScriptError, RedisError, ResponseError

Answer: TypeAlias = Any  # of Redis: bytes, an integer, a list, None

_AT_ONCE = 65_536


class RedisSocket:
    """A connection of the library that is connected; it leans on its attribute `_sock` and on its `disconnect`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._socket = connection._sock
        self._data = b""
        self._poll = None
        if not isinstance(self._socket, SSLSocket):
            self._poll = poll()
            self._poll.register(self._socket, POLLIN)

    def is_silent(self) -> bool:
        """Returns whether nothing has arrived since the last answer: neither bytes nor the connection's end."""
        if self._data:
            return False
        if self._poll is not None:
            return not self._poll.poll(0)
        try:  # what arrived may be TLS' own
            return not self._connection.can_read()
        except (RedisError, OSError):
            return False

    def ask(self, sent: bytes) -> Answer:
        """Sends a command, and returns its answer. ResponseError for one that is an error, OSError for none."""
        self._socket.sendall(sent)
        data = self._socket.recv(_AT_ONCE)
        if data[:1] == b"$":
            # The usual answer: one text, whole.
            end = data.find(b"\r\n") + 2
            if end > 2 and len(data) == end + int(data[1 : end - 2]) + 2:
                return data[end:-2]
        elif not data:
            raise ConnectionResetError("the connection was closed")
        self._data = data
        answer = self._read()
        if isinstance(answer, ResponseError):
            raise answer
        return answer

    def close(self) -> None:
        self._connection.disconnect()

    def _read(self) -> Answer:
        """Reads one answer of protocol 2 or 3. What is pushed between answers is passed over."""
        line = self._take(self._find_line())[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            return None if rest == b"-1" else self._take(int(rest) + 2)[:-2]
        if kind == b":":
            return int(rest)
        if kind == b"*":
            return None if rest == b"-1" else [self._read() for _ in range(int(rest))]
        if kind == b"%":  # a map: names and values in turn
            return [self._read() for _ in range(2 * int(rest))]
        if kind == b"+":
            return rest
        if kind == b"_":
            return None
        if kind == b"-":
            text = rest.decode(errors="replace")
            if text.startswith("MOVED "):
                return MovedError(text.removeprefix("MOVED "))
            return NoScriptError(text) if text.startswith("NOSCRIPT") else ResponseError(text)
        if kind == b">":
            for _ in range(int(rest)):
                self._read()
            return self._read()
        raise ConnectionError(f"not an answer of Redis: {line[:40]!r}")

    def _find_line(self) -> int:
        """Returns how long the first line is."""
        while (end := self._data.find(b"\r\n")) < 0:
            self._receive()
        return end + 2

    def _take(self, many: int) -> bytes:
        while len(self._data) < many:
            self._receive()
        taken, self._data = self._data[:many], self._data[many:]
        return taken

    def _receive(self) -> None:
        more = self._socket.recv(_AT_ONCE)
        if not more:
            raise ConnectionResetError("the connection was closed in the middle of an answer")
        self._data += more
