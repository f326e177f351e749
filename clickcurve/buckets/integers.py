"""Integers as bytes, and back: varints, zigzag, columns. Shared by the codecs of rows.

A column is n unsigned integers of one width, little-endian. The loops over columns run in C: struct, bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from clickcurve.buckets.errors import CountTooLarge
from clickcurve.buckets.row import MAX_COUNT

COLUMN_WIDTHS = (0, 1, 2, 4, 8, 16)  # bytes an integer; 0: every one is 1

_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}
_LONGEST_VARINT = 20  # bytes: 140 bits


def put_varint(out: bytearray, value: int) -> None:
    """Writes a varint: seven bits a byte, low bits first, the high bit set on all but the last byte."""
    if value < 0:
        raise ValueError(f"{value} below 0 in a row")
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def varints(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    """Reads `count` varints from `at`, and where they end."""
    values = []
    for _ in range(count):
        value = data[at]
        at += 1
        if value > 127:
            value &= 127
            shift = 7
            while (byte := data[at]) > 127:
                value |= (byte & 127) << shift
                shift += 7
                at += 1
                if shift > 7 * _LONGEST_VARINT:
                    raise ValueError("a number without an end")
            value |= byte << shift
            at += 1
        values.append(value)
    return values, at


def zigzag(value: int) -> int:
    """Returns 0, -1, 1, -2 as 0, 1, 2, 3: small values either side of 0 are one byte."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def unzigzag(value: int) -> int:
    """Returns 0, 1, 2, 3 as 0, -1, 1, -2."""
    return -((value + 1) >> 1) if value & 1 else value >> 1


def put_column(out: bytearray, width: int, values: Sequence[int]) -> None:
    """Writes each value in `width` bytes; one of COLUMN_WIDTHS, but not 0."""
    if width == 1:
        out += bytes(values)
    elif width == 16:
        for value in values:
            out += value.to_bytes(16, "little")
    else:
        out += struct.pack(f"<{len(values)}{_FORMATS[width]}", *values)


def column(data: bytes, at: int, n: int, width: int) -> Sequence[int]:
    """Reads n values of `width` bytes each; one of COLUMN_WIDTHS, but not 0."""
    if width == 1:
        return data[at : at + n]
    if width == 16:
        return [int.from_bytes(data[i : i + 16], "little") for i in range(at, at + 16 * n, 16)]
    return struct.unpack_from(f"<{n}{_FORMATS[width]}", data, at)


def put_sized_column(out: bytearray, values: Sequence[int]) -> None:
    """Writes the width that the largest value needs, then the values; width 0 if each is 1.

    Nothing for no value. Raises CountTooLarge above MAX_COUNT.
    """
    if not values:
        return
    largest = max(values)
    if largest < 256:
        if largest == 1 and min(values) == 1:
            out.append(0)
        else:
            out.append(1)
            out += bytes(values)
        return
    width = 2 if largest < 1 << 16 else 4 if largest < 1 << 32 else 8 if largest < 1 << 64 else 16
    if largest > MAX_COUNT:
        raise CountTooLarge(f"a row cannot hold {largest}: the largest count is 2**127", value=largest)
    out.append(width)
    put_column(out, width, values)


def sized_column(data: bytes, at: int, n: int) -> tuple[Sequence[int], int]:
    """Reads n values after their width, and where they end; nothing for n = 0."""
    end = after_sized_column(data, at, n)
    if not n:
        return (), end
    width = data[at]
    return (column(data, at + 1, n, width) if width else (1,) * n), end


def after_sized_column(data: bytes, at: int, n: int) -> int:
    """Returns where n values after their width end, without reading them."""
    if not n:
        return at
    width = data[at]
    if width not in COLUMN_WIDTHS:
        raise ValueError(f"a column of {width} bytes a number")
    end = at + 1 + n * width
    if end > len(data):
        raise ValueError(f"a column of {n * width} bytes, {len(data) - at - 1} are there")
    return end
