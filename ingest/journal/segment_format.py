"""The bytes of a journal segment: one header, then frames. Pure: no files, no clock.

`docs/journal-format.md` has the tables. Rules.

- A **frame** holds one group (the payloads of one `append`) or one state. It counts whole or not at all, so a group
  that a crash tore counts for nothing.
- Both checksums of a frame start from the segment's random salt and the frame's own offset. Bytes that a client sent
  can therefore not pass for a frame, nor can a frame that was copied to another offset or another segment.
- A frame says up to which offset the segment was durable when the frame was written. So if a good frame follows a
  damaged one, there are two cases: damaged bytes that had been synced (the journal cannot be trusted), or bytes that
  had not and are lost (only with sync off).
- A **header** repeats the whole state, and says which segment came before and how long that one is. Bytes beyond that
  length in the older segment never count: this is how a group whose write failed is cancelled.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from ingest.journal.contract import FlushRecord, Identity, JournalState

MAGIC = b"CLICKJNL"
VERSION = 1
GROUP = 1  # kinds of frames
STATE = 2
GROUP_BYTES_MAX = 1 << 30  # lengths and offsets have 32 bits, and a segment may exceed its limit by one group
SEGMENT_BYTES_MAX = 1 << 30

_ALIGN = 8
_PREFIX = struct.Struct("<8sIIII")  # magic, version, header length, crc, zero
_CHAIN = struct.Struct("<Q16sQQQQ")  # salt, journal, number, predecessor, predecessor's salt, sealed length
_STATE = struct.Struct("<8q")  # owner, epoch, last flush, covered; flush: number or 0, previous, last segment, fold day
_HEAD = struct.Struct("<IIqIIII")  # length, count, accepted_us, durable, kind, crc of the body, crc of this head
_CHECKED = _HEAD.size - 4
_MASK = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class DiskFlushRecord(FlushRecord):
    """A flush that covers all segments up to `last_segment` not covered before."""

    last_segment: int


@dataclass(frozen=True, slots=True)
class DiskJournalState(JournalState):
    """`covered`: segments up to this number belong to complete flushes."""

    covered: int
    flush: DiskFlushRecord | None


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a segment. predecessor: the segment before, 0 = none; `sealed`: its length in bytes."""

    salt: int
    journal: bytes
    number: int
    predecessor: int
    predecessor_salt: int
    sealed: int
    state: DiskJournalState


class Malformed(ValueError):
    """Bytes that are not a segment of a journal, with the reason."""


class FoundFrame(NamedTuple):
    """A valid frame in a segment. It ends at `end`; its content is bytes [body, body + length)."""

    end: int
    body: int
    length: int
    payloads: int
    accepted_us: int
    durable: int
    kind: int


NEW = DiskJournalState(Identity(0, 0, "", ()), 0, None, 0)


def encode_segment_header(header: Header) -> bytes:
    chain = _CHAIN.pack(
        header.salt, header.journal, header.number, header.predecessor, header.predecessor_salt, header.sealed
    )
    body = _padded(chain + encode_state(header.state))
    length = _PREFIX.size + len(body)
    crc = crc32(body, crc32(_PREFIX.pack(MAGIC, VERSION, length, 0, 0)))
    return _PREFIX.pack(MAGIC, VERSION, length, crc, 0) + body


def decode_segment_header(view: memoryview) -> tuple[Header, int]:
    """Reads the header at the beginning of a segment; returns it and its length. Raises Malformed."""
    if len(view) < _PREFIX.size:
        raise Malformed(f"a segment has a header of at least {_PREFIX.size} bytes, this file has {len(view)}")
    magic, version, length, crc, zero = _PREFIX.unpack_from(view)
    if magic != MAGIC:
        raise Malformed("not a journal segment")
    if version != VERSION:
        raise Malformed(f"version {version}; this program knows version {VERSION}")
    if not _PREFIX.size + _CHAIN.size <= length <= len(view):
        raise Malformed(f"the header's length, {length}, does not fit the file of {len(view)} bytes")
    if crc32(view[_PREFIX.size : length], crc32(_PREFIX.pack(magic, version, length, 0, zero))) != crc or zero:
        raise Malformed("the header's checksum is wrong")
    salt, journal, number, predecessor, predecessor_salt, sealed = _CHAIN.unpack_from(view, _PREFIX.size)
    state = decode_state(view[_PREFIX.size + _CHAIN.size : length])
    return Header(salt, journal, number, predecessor, predecessor_salt, sealed, state), length


def encode_state(state: DiskJournalState) -> bytes:
    identity, flush = state.identity, state.flush
    recorded = (flush.number, flush.previous, flush.last_segment, flush.fold_day) if flush else (0, 0, 0, 0)
    parts = [
        _STATE.pack(identity.owner, identity.epoch, state.last_flush, state.covered, *recorded),
        _encode_text(identity.holder),
        struct.pack("<I", len(identity.attempts)),
    ]
    for epoch, token in identity.attempts:
        parts += struct.pack("<q", epoch), _encode_text(token)
    return b"".join(parts)


def decode_state(view: memoryview) -> DiskJournalState:
    """Reads a state. Bytes after the last attempt are padding. Raises Malformed."""
    try:
        owner, epoch, last_flush, covered, number, previous, last_segment, fold_day = _STATE.unpack_from(view)
        holder, at = _decode_text(view, _STATE.size)
        (count,) = struct.unpack_from("<I", view, at)
        at += 4
        attempts = []
        for _ in range(count):
            (attempted,) = struct.unpack_from("<q", view, at)
            token, at = _decode_text(view, at + 8)
            attempts.append((attempted, token))
    except (struct.error, UnicodeDecodeError) as error:
        raise Malformed(f"the recorded state cannot be read: {error}") from error
    flush = DiskFlushRecord(number, previous, fold_day, last_segment) if number else None
    return DiskJournalState(Identity(owner, epoch, holder, tuple(attempts)), last_flush, flush, covered)


def frame_bytes(payload_bytes: int, count: int) -> int:
    """Returns the size in a segment of a group of `count` payloads with `payload_bytes` bytes in all."""
    length = payload_bytes + 4 * count
    return _HEAD.size + length + -length % _ALIGN


def encode_group(
    payloads: Sequence[bytes], accepted_us: int, offset: int, durable: int, salt: int
) -> tuple[bytes, bytes]:
    """Returns (head, body) of a group to write at `offset` of a segment that is durable up to `durable`."""
    lengths = struct.pack(f"<{len(payloads)}I", *map(len, payloads))
    return _encode(GROUP, len(payloads), b"".join([lengths, *payloads]), accepted_us, offset, durable, salt)


def encode_state_frame(state: DiskJournalState, offset: int, durable: int, salt: int) -> tuple[bytes, bytes]:
    return _encode(STATE, 0, encode_state(state), 0, offset, durable, salt)


def valid_frames(view: memoryview, start: int, limit: int, salt: int) -> Iterator[FoundFrame]:
    """Yields the valid frames from offset `start` on, up to the first offset without one.

    It calls nothing but the checksums: a hundred MB may hold a million frames.
    """
    unpack, head_bytes, offset = _HEAD.unpack_from, _HEAD.size, start
    while (body := offset + head_bytes) <= limit:
        length, payloads, accepted_us, durable, kind, body_crc, head_crc = unpack(view, offset)
        end = body + length + -length % _ALIGN
        if not length or end > limit or crc32(view[offset : body - 4], (salt ^ offset) & _MASK) != head_crc:
            return
        if crc32(view[body:end], salt >> 32 ^ offset) != body_crc:
            return
        yield FoundFrame(end, body, length, payloads, accepted_us, durable, kind)
        offset = end


def payloads_of(view: memoryview, frame: FoundFrame) -> Iterator[bytes]:
    """Yields copies of the payloads of a group. Raises Malformed."""
    _, body, size, payloads, _, _, _ = frame
    if 4 * payloads > size:
        raise Malformed("a group has room for fewer payloads than its frame says")
    at = body + 4 * payloads
    lengths = struct.unpack_from(f"<{payloads}I", view, body)
    if at + sum(lengths) != body + size:
        raise Malformed("the payloads of a group do not fill it")
    for length in lengths:
        yield bytes(view[at : at + length])
        at += length


def proof_of_damage(view: memoryview, damaged: int, salt: int) -> int | None:
    """Returns the offset of a valid frame that was written after offset `damaged` was durable, or None."""
    first = damaged + _ALIGN
    whole = first + max(0, used_bytes(view) - first) // _ALIGN * _ALIGN
    # Frames are aligned, and the length alone rules out nearly all offsets, in C: a torn group of 64 MB takes a second.
    for step, (length,) in enumerate(struct.iter_unpack("<I4x", view[first:whole])):
        if 0 < length < len(view):
            frame = next(valid_frames(view, first + step * _ALIGN, len(view), salt), None)
            if frame and frame.durable > damaged:
                return first + step * _ALIGN
    return None


def used_bytes(view: memoryview) -> int:
    """Returns the length without the zeros at the end, which are reserved room. In steps, to spare memory."""
    end, step = len(view), 1 << 20
    while end:
        begin = max(0, end - step)
        kept = len(bytes(view[begin:end]).rstrip(b"\0"))
        if kept:
            return begin + kept
        end = begin
    return 0


def _encode(
    kind: int, count: int, content: bytes, accepted_us: int, offset: int, durable: int, salt: int
) -> tuple[bytes, bytes]:
    body = _padded(content)
    body_crc = crc32(body, salt >> 32 ^ offset)  # each half of the salt keeps one of the two checksums
    head = _HEAD.pack(len(content), count, accepted_us, durable, kind, body_crc, 0)[:_CHECKED]
    return head + struct.pack("<I", crc32(head, (salt ^ offset) & _MASK)), body


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGN)


def _encode_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data


def _decode_text(view: memoryview, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<I", view, at)
    data = bytes(view[at + 4 : at + 4 + length])
    if len(data) != length:
        raise struct.error("a text is cut short")
    return data.decode(), at + 4 + length
