"""The bytes of a frame in the store: a group's stamp, the lengths of its payloads, and the payloads."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from clickcurve.buckets.errors import JournalDamaged
from ingest.journal.contract import Frame

_HEAD = struct.Struct("<qI")  # accepted_us, count


def encode_frame(payloads: Sequence[bytes], accepted_us: int) -> bytes:
    lengths = struct.pack(f"<{len(payloads)}I", *map(len, payloads))
    return b"".join([_HEAD.pack(accepted_us, len(payloads)), lengths, *payloads])


def decode_frame(frame: bytes) -> Iterator[Frame]:
    """Yields the payloads of a frame. Raises JournalDamaged."""
    try:
        accepted_us, count = _HEAD.unpack_from(frame)
        lengths = struct.unpack_from(f"<{count}I", frame, _HEAD.size)
    except struct.error as error:
        raise JournalDamaged(f"a frame of {len(frame)} bytes is damaged: {error}") from error
    at = _HEAD.size + 4 * count
    if at + sum(lengths) != len(frame):
        raise JournalDamaged(f"a frame of {len(frame)} bytes is damaged: its payloads do not fill it")
    for length in lengths:
        yield Frame(accepted_us, frame[at : at + length])
        at += length
