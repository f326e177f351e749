"""How frames stand in the store: a group's stamp, the lengths of its payloads, and the payloads, in one value.

A flush names the frames that it counts by their numbers, as short text: `0-812,814`, and nearly always one range.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

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


def text_of(numbers: Iterable[int]) -> str:
    """Returns the numbers as ascending ranges, "" for none."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join([str(first) if first == last else f"{first}-{last}" for first, last in ranges])


def numbers_in(text: str) -> list[int]:
    """Returns the numbers, ascending. Raises ValueError for what `text_of` does not give."""
    numbers: list[int] = []
    for each in text.split(",") if text else []:
        first, _, last = each.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    if text_of(numbers) != text:
        raise ValueError(f"{text!r} are no numbers of frames")
    return numbers
