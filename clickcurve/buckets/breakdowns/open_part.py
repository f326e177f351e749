"""The open part of a breakdown as bytes, and back: head, hours, visitors of their days. A flush rewrites just this.

`docs/breakdown-format.md` describes it byte by byte. Each hour is a piece of its own, with all its dimensions and its
values' texts: a flush reads and writes the hours that its hits fall into and copies the others.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import NamedTuple, ParamSpec, TypeVar

from clickcurve.buckets.breakdowns.breakdown import ValueCounts
from clickcurve.buckets.breakdowns.visitors import EXACT, OpenDay, visitor_bytes, visitors_of
from clickcurve.buckets.breakdowns.vocabulary import VOCABULARIES, VOCABULARY
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.integers import put_sized_column, put_varint, sized_column, unzigzag, varints, zigzag
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME, HOUR_S, MAX_TIERS

MAX_PLAIN = (
    1 << 22
)  # bytes of a body that are deflated: what is larger stays as it is, and bad bytes inflate no further

_DEFLATED, _DATED, _ERASED_AT, _SHIFTED, _HOURS, _CLOSED = 1, 2, 4, 8, 16, 32
_FLAGS = 63
_CHECKSUM = struct.Struct("<I")
_DEFLATE_ABOVE = 120
_SMALL = 4_096
_BAD_BYTES = (IndexError, KeyError, ValueError, struct.error, zlib.error, OverflowError)

P = ParamSpec("P")
R = TypeVar("R")


def or_corrupt(read: Callable[P, R]) -> Callable[P, R]:
    """Returns the function so that it raises RowCorrupt for bytes that it cannot read, and for nothing else."""

    @wraps(read)
    def reads(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return read(*args, **kwargs)
        except _BAD_BYTES as error:
            raise RowCorrupt(f"not a breakdown: {error}") from error

    return reads


class BreakdownHead(NamedTuple):
    """What the open part says before its hours.

    open_since  the UTC day (epoch days) of the earliest hour or visitor in this part; None = it has none.
    closed_size, closed_checksum  of the closed part's bytes; 0, 0 = there is none.
    closed_due  the first fold day on which folding changes the closed part; None = never.
    The others are those of `Breakdown`.
    """

    tiers: int
    mark: int
    fold_day: int
    erased_at: int
    first: int | None
    shift: int
    open_since: int | None
    closed_size: int
    closed_checksum: int
    closed_due: int | None


def open_bytes(head: BreakdownHead, hours: Mapping[int, bytes], days: Mapping[int, bytes]) -> bytes:
    """Writes the open part: the head; each hour's and each day's piece, by its start in epoch seconds."""
    out = bytearray((VOCABULARY | head.tiers << 4, 0))
    flags = 0
    put_varint(out, head.mark)
    put_varint(out, head.fold_day)
    if head.first is not None:
        flags |= _DATED
        put_varint(out, zigzag(head.fold_day * 24 - head.first // HOUR_S))
    if head.erased_at:
        flags |= _ERASED_AT
        put_varint(out, head.erased_at)
    if head.shift:
        flags |= _SHIFTED
        put_varint(out, head.shift)
    if head.closed_size:
        flags |= _CLOSED
        put_varint(out, head.closed_size)
        out += _CHECKSUM.pack(head.closed_checksum)
        put_varint(out, head.closed_due - head.fold_day if head.closed_due is not None else 0)
    if head.open_since is not None:
        flags |= _HOURS
        put_varint(out, zigzag(head.fold_day - head.open_since))
        body = bytearray()
        _put_pieces(body, hours, HOUR_S, head.open_since * 24)
        _put_pieces(body, days, DAY_S, head.open_since)
        deflated, packed = deflate(bytes(body), 1)
        flags |= _DEFLATED * deflated
        out += packed
    out[1] = flags
    out += _CHECKSUM.pack(zlib.crc32(out))
    return bytes(out)


def _put_pieces(out: bytearray, pieces: Mapping[int, bytes], unit: int, since: int) -> None:
    put_varint(out, len(pieces))
    for start in sorted(pieces):
        piece = pieces[start]
        put_varint(out, start // unit - since)
        put_varint(out, len(piece))
        out += piece
        since = start // unit


def deflate(body: bytes, level: int) -> tuple[bool, bytes]:
    """Returns the body deflated if that makes it a tenth shorter, and whether it is.

    A body of a few hundred bytes with the window and memory of the default takes 40 us, nearly all of it to set up the
    tables; with small ones 2.5 us and the same bytes.
    """
    if not _DEFLATE_ABOVE < len(body) <= MAX_PLAIN:
        return False, body
    window, memory = (-12, 5) if len(body) <= _SMALL else (-15, 8)
    deflater = zlib.compressobj(level, zlib.DEFLATED, window, memory)
    packed = deflater.compress(body) + deflater.flush()
    return (True, packed) if len(packed) <= len(body) * 0.9 else (False, body)


def inflate(packed: bytes) -> bytes:
    """Returns the body; raises ValueError if it is not whole, or larger than MAX_PLAIN."""
    inflater = zlib.decompressobj(-15)
    body = inflater.decompress(packed, MAX_PLAIN)
    if not inflater.eof or inflater.unused_data:
        raise ValueError(f"{len(packed)} bytes are not one deflated body of {MAX_PLAIN} bytes or less")
    return body


@or_corrupt
def head_of(data: bytes) -> BreakdownHead:
    """Reads the head of an open part; raises RowCorrupt as `open_pieces`."""
    _require_whole(data)
    return read_head(data)[0]


@or_corrupt
def open_pieces(data: bytes) -> tuple[BreakdownHead, dict[int, bytes], dict[int, bytes]]:
    """Reads an open part: its head, each hour's and each day's piece. Raises RowCorrupt for anything else."""
    _require_whole(data)
    head, at = read_head(data)
    body = data[at:-4]
    if head.open_since is None:
        if body:
            raise ValueError(f"{len(body)} bytes after the head")
        return head, {}, {}
    if data[1] & _DEFLATED:
        body = inflate(body)
    hours, at = _pieces(body, 0, HOUR_S, head.open_since * 24)
    days, at = _pieces(body, at, DAY_S, head.open_since)
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes after the end")
    return head, hours, days


def _require_whole(data: bytes) -> None:
    if len(data) < 8 or _CHECKSUM.unpack_from(data, len(data) - 4)[0] != zlib.crc32(memoryview(data)[:-4]):
        raise ValueError("the checksum of the open part is another")


def read_head(data: bytes) -> tuple[BreakdownHead, int]:
    """Reads the head, and where it ends, before any checksum. Raises what bad bytes raise."""
    tiers, flags = data[0] >> 4, data[1]
    require_version(data[0])
    if flags & ~_FLAGS:
        raise ValueError(f"flags {flags:#x}")
    (mark, fold_day), at = varints(data, 2, 2)
    first = open_since = closed_due = None
    erased_at = shift = closed_size = closed_checksum = 0
    if flags & _DATED:
        (ago,), at = varints(data, at, 1)
        first = (fold_day * 24 - unzigzag(ago)) * HOUR_S
    if flags & _ERASED_AT:
        (erased_at,), at = varints(data, at, 1)
    if flags & _SHIFTED:
        (shift,), at = varints(data, at, 1)
    if flags & _CLOSED:
        (closed_size,), at = varints(data, at, 1)
        (closed_checksum,) = _CHECKSUM.unpack_from(data, at)
        (due,), at = varints(data, at + 4, 1)
        closed_due = fold_day + due if due else None
    if flags & _HOURS:
        (ago,), at = varints(data, at, 1)
        open_since = fold_day - unzigzag(ago)
    last = END_OF_TIME // DAY_S
    if not 0 <= fold_day < last or not 0 <= (first or 0) < END_OF_TIME or not 0 <= (open_since or 0) < last:
        raise ValueError(f"fold day {fold_day}, first hour {first}, open since day {open_since}")
    head = BreakdownHead(
        tiers, mark, fold_day, erased_at, first, shift, open_since, closed_size, closed_checksum, closed_due
    )
    return head, at


def require_version(first_byte: int) -> None:
    """Raises ValueError unless a part's first byte is that of a known version and a possible ladder."""
    if first_byte & 15 not in VOCABULARIES or not 2 <= first_byte >> 4 <= MAX_TIERS:
        raise ValueError(f"version {first_byte & 15} of {first_byte >> 4} tiers is not known")


def _pieces(body: bytes, at: int, unit: int, since: int) -> tuple[dict[int, bytes], int]:
    pieces = {}
    (n,), at = varints(body, at, 1)
    for _ in range(n):
        (gap, size), at = varints(body, at, 2)
        since += gap
        if since * unit >= END_OF_TIME or at + size > len(body):
            raise ValueError(f"a piece of {size} bytes at {since * unit}")
        pieces[since * unit] = body[at : at + size]
        at += size
    if len(pieces) != n:
        raise ValueError("two pieces of one start")
    return pieces, at


# --- pieces ---------------------------------------------------------------------------------------------------------
def hour_bytes(dimensions: Mapping[str, ValueCounts]) -> bytes:
    """Writes what an hour knows of each dimension."""
    out = bytearray()
    for name in sorted(dimensions):
        values, other, slack = dimensions[name]
        out += dimension_bytes(name)
        ordered = sorted(values)
        codes = value_codes(name, ordered)
        put_varint(out, len(values) << 2 | (codes is not None) << 1 | bool(other))
        if codes is None:
            put_texts(out, ordered)
        else:
            out += bytes(codes)
        put_sized_column(out, [values[value] for value in ordered])
        if other:
            put_sized_column(out, (other, slack))
    return bytes(out)


@or_corrupt
def hour_of(data: bytes, version: int) -> dict[str, ValueCounts]:
    """Reads what an hour knows of each dimension; raises RowCorrupt for anything else."""
    at, end = 0, len(data)
    dimensions = {}
    while at < end:
        name, at = read_dimension(data, at, version)
        (size,), at = varints(data, at, 1)
        n = size >> 2
        if size & 2:
            known = VOCABULARIES[version].values[name]
            values = [known[code] for code in data[at : at + n]]
            at += n
        else:
            values, at = read_texts(data, at, n)
        counts, at = sized_column(data, at, n)
        other = slack = 0
        if size & 1:
            (other, slack), at = sized_column(data, at, 2)
        counted = dict(zip(values, counts, strict=True))
        if len(counted) != n or 0 in counts or name in dimensions:
            raise ValueError(f"{name}: a value or dimension twice, or a count of 0")
        dimensions[name] = ValueCounts(counted, other, slack)
    return dimensions


def day_bytes(day: OpenDay) -> bytes:
    """Writes the visitors of a day: hits without one, the number of members (257: registers), the set."""
    out = bytearray()
    put_varint(out, day.unknown)
    put_varint(out, len(day.visitors.members) if day.visitors.exact else EXACT + 1)
    return bytes(out) + visitor_bytes(day.visitors)


@or_corrupt
def day_of(data: bytes) -> OpenDay:
    """Reads the visitors of a day; raises RowCorrupt for anything else."""
    (unknown, n), at = varints(data, 0, 2)
    return OpenDay(visitors_of(data[at:], n), unknown)


# --- names and values -----------------------------------------------------------------------------------------------
@lru_cache(maxsize=256)
def dimension_bytes(name: str) -> bytes:
    """Writes a dimension's name: the code of a known one, else 0, the length, and the text."""
    code = VOCABULARIES[VOCABULARY].dimension_codes.get(name)
    if code is not None:
        return bytes((code,))
    text = name.encode()
    if not 0 < len(text) < 256:
        raise ValueError(f"a dimension's name of {len(text)} bytes, not 1 to 255")
    return bytes((0, len(text))) + text


def read_dimension(data: bytes, at: int, version: int) -> tuple[str, int]:
    """Reads a dimension's name, and where it ends."""
    code = data[at]
    if code:
        return VOCABULARIES[version].dimensions[code - 1], at + 1
    end = at + 2 + data[at + 1]
    if not at + 2 < end <= len(data):
        raise ValueError("a dimension without a name")
    return data[at + 2 : end].decode(), end


def value_codes(name: str, values: list[str]) -> list[int] | None:
    """Returns the codes of a dimension's values; None if one of them, or the dimension, has none."""
    codes = VOCABULARIES[VOCABULARY].value_codes.get(name)
    if codes is None:
        return None
    try:
        return [codes[value] for value in values]
    except KeyError:
        return None


def put_texts(out: bytearray, values: list[str]) -> None:
    """Writes the length of the texts with a zero byte between any two, then those; nothing for no value."""
    if not values:
        return
    joined = "\0".join(values)
    if joined.count("\0") >= len(values):
        raise ValueError("a value with a zero byte in it")
    text = joined.encode()
    put_varint(out, len(text))
    out += text


def read_texts(data: bytes, at: int, n: int) -> tuple[list[str], int]:
    """Reads n texts, and where they end."""
    if not n:
        return [], at
    (size,), at = varints(data, at, 1)
    end = at + size
    if end > len(data):
        raise ValueError(f"texts of {size} bytes, {len(data) - at} are there")
    texts = data[at:end].decode().split("\0")
    if len(texts) != n:
        raise ValueError(f"{len(texts)} texts, not {n}")
    return texts, end
