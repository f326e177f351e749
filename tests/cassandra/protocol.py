"""As much of Cassandra's native protocol (versions 3 to 5, nothing compressed) as tells which answer belongs to what.

A message is an envelope: a header of nine bytes with a stream number, which an answer has from its request, and a body.
Up to version 4 a connection is a row of envelopes. From version 5 on they travel in segments as soon as the node has
accepted the start of the connection: small envelopes share a segment, a large one is spread over several.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

FIRST_VERSION_IN_SEGMENTS = 5
MAX_PAYLOAD = 128 * 1024 - 1
_IS_WHOLE = 1 << 17  # the flag of a segment that holds whole envelopes

ERROR, STARTUP, READY, AUTHENTICATE, OPTIONS, SUPPORTED = 0x00, 0x01, 0x02, 0x03, 0x05, 0x06
QUERY, RESULT, PREPARE, EXECUTE, BATCH = 0x07, 0x08, 0x09, 0x0A, 0x0D
_ANSWERS = 0x80  # in the version: from the node
_TRACED, _WITH_PAYLOAD, _WITH_WARNINGS = 0x02, 0x04, 0x08  # in the flags: what comes before the body proper
_PREPARED = 4  # the kind of a result
_UNPREPARED = 0x2500  # the code of an error

_HEADER = struct.Struct(">BBhBi")
_SHORT = struct.Struct(">H")
_INT = struct.Struct(">i")


class Envelope(NamedTuple):
    """One message: its header's fields and all of its bytes."""

    version: int
    flags: int
    stream: int
    opcode: int
    raw: bytes


class Piece(NamedTuple):
    """Bytes of a connection that are passed on together, and the envelopes in them."""

    raw: bytes
    envelopes: Sequence[Envelope]


class Splitter:
    """Cuts one direction of a connection into pieces. Set `in_segments` when the connection changes to segments."""

    def __init__(self) -> None:
        self.in_segments = False
        self._held = b""

    def feed(self, data: bytes) -> Iterator[Piece]:
        """The pieces that are complete now. The rest waits for more data."""
        self._held += data
        at = 0
        try:
            while (piece := self._piece(self._held, at)) is not None:
                at += len(piece.raw)
                yield piece
        finally:
            self._held = self._held[at:]

    def _piece(self, held: bytes, at: int) -> Piece | None:
        if not self.in_segments:
            found = _envelope(held, at)
            return None if found is None else Piece(found.raw, (found,))
        return _segments(held, at)


def _envelope(held: bytes, at: int) -> Envelope | None:
    if len(held) - at < 9:
        return None
    version, flags, stream, opcode, length = _HEADER.unpack_from(held, at)
    end = at + 9 + length
    return None if len(held) < end else Envelope(version & 0x7F, flags, stream, opcode, held[at:end])


def _segments(held: bytes, at: int) -> Piece | None:
    """One segment of whole envelopes, or all segments of a large one."""
    payload = b""
    end = at
    while len(held) - end >= 6:
        header = int.from_bytes(held[end : end + 3], "little")
        begin = end + 6
        end = begin + (header & MAX_PAYLOAD) + 4
        if len(held) < end:
            return None
        payload += held[begin : end - 4]
        envelopes = list(_envelopes(payload))
        if header & _IS_WHOLE or envelopes:
            return Piece(held[at:end], envelopes)
    return None


def _envelopes(payload: bytes) -> Iterator[Envelope]:
    at = 0
    while (found := _envelope(payload, at)) is not None:
        at += len(found.raw)
        yield found


def in_segments(envelopes: Sequence[Envelope]) -> bytes:
    """The same envelopes in segments again."""
    raw = b"".join(envelope.raw for envelope in envelopes)
    if len(raw) <= MAX_PAYLOAD:
        return _segment(raw, _IS_WHOLE)
    return b"".join(_segment(raw[at : at + MAX_PAYLOAD], 0) for at in range(0, len(raw), MAX_PAYLOAD))


def _segment(payload: bytes, flag: int) -> bytes:
    header = (len(payload) | flag).to_bytes(3, "little")
    check = zlib.crc32(payload, zlib.crc32(b"\xfa\x2d\x55\xca"))
    return header + _crc24(header).to_bytes(3, "little") + payload + check.to_bytes(4, "little")


def _crc24(data: bytes) -> int:
    crc = 0x875060
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1974F0B
    return crc


def starts_segments(answer: Envelope) -> bool:
    """Whether the connection goes on in segments after this answer."""
    return answer.opcode in (READY, AUTHENTICATE) and answer.version >= FIRST_VERSION_IN_SEGMENTS


def text_of(request: Envelope, prepared: Mapping[bytes, str]) -> str | None:
    """The CQL that a request runs or prepares, a batch's joined by semicolons; None if it is another kind of request.

    What was prepared where nobody listened is an empty text.
    """
    if request.opcode not in (EXECUTE, QUERY, BATCH, PREPARE):
        return None
    body = _Body(request.raw)
    if request.flags & _WITH_PAYLOAD:
        body.skip_map()
    if request.opcode == EXECUTE:
        return prepared.get(body.short_bytes(), "")
    return _batch(body, prepared) if request.opcode == BATCH else body.long_string()


def _batch(body: _Body, prepared: Mapping[bytes, str]) -> str:
    texts = []
    body.at += 1
    for _ in range(body.short()):
        body.at += 1
        is_prepared = body.raw[body.at - 1]
        texts.append(prepared.get(body.short_bytes(), "") if is_prepared else body.long_string())
        for _ in range(body.short()):
            body.skip_bytes()
    return "; ".join(texts)


def prepared_id(answer: Envelope) -> bytes | None:
    """The id that the node gave a prepared statement, if this answer says one."""
    if answer.opcode != RESULT:
        return None
    body = _body_proper(answer)
    return body.short_bytes() if body.int() == _PREPARED else None


def is_unprepared(answer: Envelope) -> bool:
    """Whether the node says that it does not know the prepared statement, so that it has done nothing."""
    return answer.opcode == ERROR and _body_proper(answer).int() == _UNPREPARED


def _body_proper(answer: Envelope) -> _Body:
    body = _Body(answer.raw)
    if answer.flags & _TRACED:
        body.at += 16
    if answer.flags & _WITH_WARNINGS:
        for _ in range(body.short()):
            body.short_bytes()
    if answer.flags & _WITH_PAYLOAD:
        body.skip_map()
    return body


def without_compression(supported: Envelope) -> Envelope:
    """A SUPPORTED answer of a node that can compress nothing."""
    body = _Body(supported.raw)
    count = body.short()
    changed = _SHORT.pack(count)
    for _ in range(count):
        begin = body.at
        name = body.short_bytes()
        after_name = body.at
        for _ in range(body.short()):
            body.short_bytes()
        is_it = name == b"COMPRESSION"
        changed += supported.raw[begin:after_name] + _SHORT.pack(0) if is_it else supported.raw[begin : body.at]
    header = supported.raw[:5] + _INT.pack(len(changed))
    return supported._replace(raw=header + changed)


class _Body:
    """Reads the body of an envelope from its beginning."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 9

    def short(self) -> int:
        (value,) = _SHORT.unpack_from(self.raw, self.at)
        self.at += 2
        return int(value)

    def int(self) -> int:
        (value,) = _INT.unpack_from(self.raw, self.at)
        self.at += 4
        return int(value)

    def short_bytes(self) -> bytes:
        length = self.short()
        self.at += length
        return self.raw[self.at - length : self.at]

    def long_string(self) -> str:
        length = self.int()
        self.at += length
        return self.raw[self.at - length : self.at].decode(errors="replace")

    def skip_bytes(self) -> None:
        length = self.int()
        self.at += max(0, length)

    def skip_map(self) -> None:
        for _ in range(self.short()):
            self.short_bytes()
            self.skip_bytes()
