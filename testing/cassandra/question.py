"""One question to a node over a connection of its own, in version 4 of the native protocol: no driver, no threads.

The harness asks this way because a driver hides what it wants to know: whether exactly this node answers, now.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

CONSISTENCIES = {"ONE": 0x0001, "QUORUM": 0x0004, "ALL": 0x0005, "SERIAL": 0x0008}
_STARTUP, _QUERY, _ERROR, _RESULT = 0x01, 0x07, 0x00, 0x08
_ROWS = 0x0002
_SKIP_METADATA = 0x02

Row = list[bytes | None]


class Refused(Exception):
    """The node answered with an error."""


def ask(address: str, port: int, query: str, consistency: str = "ONE", timeout_s: float = 300.0) -> list[Row]:
    """The rows that the node at this address answers with, each value as its bytes.

    Raises Refused if it answers with an error, OSError (also TimeoutError) if it cannot be reached or does not answer.
    """
    with socket.create_connection((address, port), timeout_s) as connection:
        _exchange(connection, _STARTUP, b"\x00\x01" + _string("CQL_VERSION") + _string("3.0.0"))
        text = query.encode()
        settings = struct.pack(">HB", CONSISTENCIES[consistency], _SKIP_METADATA)
        return _rows(_exchange(connection, _QUERY, struct.pack(">i", len(text)) + text + settings))


def _string(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _exchange(connection: socket.socket, opcode: int, body: bytes) -> bytes:
    """Send one request; the body of its answer."""
    connection.sendall(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)
    _, _, _, answered, length = struct.unpack(">BBhBi", _read(connection, 9))
    answer = _read(connection, length)
    if answered == _ERROR:
        raise Refused(answer[6:].decode(errors="replace"))
    return answer if answered == _RESULT else b""


def _read(connection: socket.socket, length: int) -> bytes:
    held = bytearray()
    while len(held) < length:
        part = connection.recv(length - len(held))
        if not part:
            raise ConnectionResetError("the node closed the connection")
        held += part
    return bytes(held)


def _rows(result: bytes) -> list[Row]:
    kind, _, columns, count = struct.unpack_from(">iiii", result + bytes(16))
    values = _values(result[16:])
    return [[next(values) for _ in range(columns)] for _ in range(count)] if kind == _ROWS else []


def _values(content: bytes) -> Iterator[bytes | None]:
    at = 0
    while at < len(content):
        (length,) = struct.unpack_from(">i", content, at)
        at += 4 + max(0, length)
        yield content[at - length : at] if length >= 0 else None
