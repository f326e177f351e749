"""The open part of a breakdown as bytes, and back: head, hours, visitors of their days. A flush rewrites just this.

`docs/breakdown-format.md` describes it byte by byte. Each hour is a piece of its own, with all its dimensions and its
values' texts, and so is each day's visitors. The newest hour and the newest day are one block, all older ones another:
a flush whose hits are all of the newest hour reads and writes that block only and copies the other as it is. With one
block the hottest link of the bench took 5.6 ms a flush, nearly all of it to deflate again what had not changed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from clickcurve.buckets.breakdowns.bodies import deflate, inflate, or_corrupt, require_version
from clickcurve.buckets.breakdowns.vocabulary import VOCABULARY
from clickcurve.buckets.integers import put_varint, unzigzag, varints, zigzag
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME, HOUR_S

_DEFLATED, _DATED, _ERASED_AT, _SHIFTED, _NEWEST, _CLOSED, _OLDER, _OLDER_DEFLATED = 1, 2, 4, 8, 16, 32, 64, 128
_CHECKSUM = struct.Struct("<I")


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


class Block(NamedTuple):
    """Pieces as they are written, deflated or not. data: b"" if there are none."""

    deflated: bool
    data: bytes


Pieces = Mapping[int, bytes]  # start in epoch seconds -> an hour's or a day's piece


def open_bytes(head: BreakdownHead, hours: Pieces, days: Pieces) -> bytes:
    """Writes the open part: the head, and the two blocks of all pieces."""
    last_hour, last_day = max(hours, default=0), max(days, default=0)
    older_hours = {start: piece for start, piece in hours.items() if start < last_hour}
    older_days = {start: piece for start, piece in days.items() if start < last_day}
    older = _block(head, older_hours, older_days)
    return open_bytes_beside(
        head, older, {t: hours[t] for t in hours if t == last_hour}, {t: days[t] for t in days if t == last_day}
    )


def open_bytes_beside(head: BreakdownHead, older: Block, hours: Pieces, days: Pieces) -> bytes:
    """Writes the open part: the head, the block of older pieces as it is, and that of the newest hour and day."""
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
        flags |= _NEWEST
        put_varint(out, zigzag(head.fold_day - head.open_since))
        if older.data:
            flags |= _OLDER | _OLDER_DEFLATED * older.deflated
            put_varint(out, len(older.data))
            out += older.data
        newest = _block(head, hours, days)
        flags |= _DEFLATED * newest.deflated
        out += newest.data
    out[1] = flags
    out += _CHECKSUM.pack(zlib.crc32(out))
    return bytes(out)


def _block(head: BreakdownHead, hours: Pieces, days: Pieces) -> Block:
    if head.open_since is None or not (hours or days):
        return Block(False, b"")
    body = bytearray()
    _put_pieces(body, hours, HOUR_S, head.open_since * 24)
    _put_pieces(body, days, DAY_S, head.open_since)
    return Block(*deflate(bytes(body), 1))


def _put_pieces(out: bytearray, pieces: Mapping[int, bytes], unit: int, since: int) -> None:
    put_varint(out, len(pieces))
    for start in sorted(pieces):
        piece = pieces[start]
        put_varint(out, start // unit - since)
        put_varint(out, len(piece))
        out += piece
        since = start // unit


@or_corrupt
def whole_head(data: bytes) -> tuple[BreakdownHead, int]:
    """Reads the head of an open part, and where it ends; raises RowCorrupt as `open_part`, by the checksum, too."""
    require_whole(data)
    return read_head(data)


class OpenPart(NamedTuple):
    """An open part as far as a flush of the newest hour needs it: the older block is not looked into."""

    head: BreakdownHead
    older: Block
    hours: dict[int, bytes]
    days: dict[int, bytes]

    @or_corrupt
    def all_pieces(self) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """Returns each hour's and each day's piece, the older ones too; raises RowCorrupt for bytes that are none."""
        hours, days = _read_block(self.older, self.head)
        if not hours.keys().isdisjoint(self.hours) or not days.keys().isdisjoint(self.days):
            raise ValueError("a piece in both blocks")
        return hours | self.hours, days | self.days


@or_corrupt
def open_part(data: bytes, head: BreakdownHead, at: int) -> OpenPart:
    """Reads an open part after its head, which ends at `at`: its newest pieces. Raises RowCorrupt for anything else."""
    flags, end = data[1], len(data) - 4
    older = Block(False, b"")
    if flags & _OLDER:
        (size,), at = varints(data, at, 1)
        older = Block(bool(flags & _OLDER_DEFLATED), data[at : at + size])
        at += size
    if at > end or (head.open_since is None and at < end):
        raise ValueError(f"{end - at} bytes after the head")
    return OpenPart(head, older, *_read_block(Block(bool(flags & _DEFLATED), data[at:end]), head))


def _read_block(block: Block, head: BreakdownHead) -> tuple[dict[int, bytes], dict[int, bytes]]:
    if head.open_since is None or not block.data:
        return {}, {}
    body = inflate(block.data) if block.deflated else block.data
    hours, at = _pieces(body, 0, HOUR_S, head.open_since * 24)
    days, at = _pieces(body, at, DAY_S, head.open_since)
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes after the end")
    return hours, days


def require_whole(data: bytes) -> None:
    """Raises ValueError unless the last four bytes of an open part are the checksum of the others."""
    if len(data) < 8 or _CHECKSUM.unpack_from(data, len(data) - 4)[0] != zlib.crc32(memoryview(data)[:-4]):
        raise ValueError("the checksum of the open part is wrong")


def read_head(data: bytes) -> tuple[BreakdownHead, int]:
    """Reads the head, and where it ends, before any checksum. Raises what bad bytes raise."""
    tiers, flags = data[0] >> 4, data[1]
    require_version(data[0])
    fields = bool(flags & _DATED) + bool(flags & _ERASED_AT) + bool(flags & _SHIFTED) + bool(flags & _CLOSED)
    numbers, at = varints(data, 2, 2 + fields)
    mark, fold_day, *rest = numbers
    given = iter(rest)
    first = open_since = closed_due = None
    closed_checksum = 0
    if flags & _DATED:
        first = (fold_day * 24 - unzigzag(next(given))) * HOUR_S
    erased_at = next(given) if flags & _ERASED_AT else 0
    shift = next(given) if flags & _SHIFTED else 0
    closed_size = next(given) if flags & _CLOSED else 0
    if flags & _CLOSED:
        (closed_checksum,) = _CHECKSUM.unpack_from(data, at)
        (due,), at = varints(data, at + 4, 1)
        closed_due = fold_day + due if due else None
    if flags & _NEWEST:
        (ago,), at = varints(data, at, 1)
        open_since = fold_day - unzigzag(ago)
    last = END_OF_TIME // DAY_S
    if not 0 <= fold_day < last or not 0 <= (first or 0) < END_OF_TIME or not 0 <= (open_since or 0) < last:
        raise ValueError(f"fold day {fold_day}, first hour {first}, open since day {open_since}")
    head = BreakdownHead(
        tiers, mark, fold_day, erased_at, first, shift, open_since, closed_size, closed_checksum, closed_due
    )
    return head, at


def _pieces(body: bytes, at: int, unit: int, since: int) -> tuple[dict[int, bytes], int]:
    n = body[at]
    at += 1
    if not n:
        return {}, at
    if n > 127:
        (n,), at = varints(body, at - 1, 1)
    pieces = {}
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
