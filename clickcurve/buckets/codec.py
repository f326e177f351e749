"""A row as bytes, and back. `docs/row-format.md` describes the format byte by byte.

Head, directory, columns. The head holds the totals and the mark, so what only needs those reads some twenty bytes. The
directory has, for each tier and series that is not empty, the number of buckets, a code, and the first start; the
columns have the gaps between starts and the counts, each column at the width its largest value needs. Only the columns
are ever deflated, so nothing that only reads the head pays for it.

The same row is always the same bytes before deflating (`encode(row, deflate=False)`); what zlib makes of them may
differ between its builds. The loops over buckets run in C: struct, bytes, range, accumulate.

A flush changes the minutes of a row and, on most days, nothing else. So it reads a row by `decode_lazily`: each tier
stays bytes until something asks for its cells, and `encode` copies the bytes of those that nothing did.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate, repeat
from math import gcd
from operator import floordiv, mul, sub
from typing import NamedTuple, final

from clickcurve.buckets.cells import NO_CELLS, Cells
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.integers import COLUMN_WIDTHS, column, put_column, put_varint, unzigzag, varints, zigzag
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME, MAX_TIERS, MINUTE_S
from clickcurve.buckets.row import Row

VERSION = 1
MAX_CELLS = 100_000  # buckets in one tier: twice what a ladder allows, and 270 years of days; bounds bad bytes

_DATED, _BOTS, _OPENING, _ERASED_AT, _ERASED, _DEFLATED = 1, 2, 4, 8, 16, 32
_FLAGS = 63
_HEAD_VARINTS = [
    3 + 2 * bool(f & _DATED) + bool(f & _BOTS) + bool(f & _OPENING) + bool(f & _ERASED_AT) + 2 * bool(f & _ERASED)
    for f in range(_DEFLATED)
]  # how many varints a head has, by its flags
_UNITS = (DAY_S, 3_600, 900, 300, 60)  # a section's times are in the largest of these that divides them all
_UNIT_CODES = {
    common: next(code for code, unit in enumerate(_UNITS) if common % unit == 0)
    for common in range(MINUTE_S, DAY_S + 1, MINUTE_S)
    if DAY_S % common == 0
}  # what a section's times have in common with a day -> the code of its unit
_GAP_WIDTHS = (0, 1, 2, 4)  # bytes a gap; 0: every gap is 1 unit
_CODES = [(unit, gap, count) for unit in _UNITS for gap in _GAP_WIDTHS for count in COLUMN_WIDTHS]
_BITS = [tuple(tier for tier in range(8) if present >> tier & 1) for present in range(256)]
_DEFLATE_ABOVE = 150
_new = tuple.__new__  # a third of what the class itself takes
_BAD_BYTES = (IndexError, ValueError, struct.error, zlib.error, OverflowError)


def encode(row: Row, *, deflate: bool = True) -> bytes:
    """Writes the row as bytes. Raises ValueError for a row that breaks the laws of `clickcurve.buckets.row`."""
    out = bytearray((VERSION | len(row.people_cells) << 4, 0))
    flags = _put_head(out, row)
    columns = bytearray()
    if row.first is not None:
        _put_directory(out, columns, row.people_cells, row.first)
        if row.bots:
            _put_directory(out, columns, row.bot_cells, row.first)
    if deflate and len(columns) > _DEFLATE_ABOVE:
        packed = zlib.compress(columns, 1)
        if len(packed) <= len(columns) * 0.9:
            flags |= _DEFLATED
            columns = bytearray(packed)
    out[1] = flags
    return bytes(out + columns)


def _put_head(out: bytearray, row: Row) -> int:
    """Writes the head after its first two bytes; returns the flags, which say what is in it."""
    flags = 0
    day = 0
    if row.first is not None and row.last is not None:
        flags = _DATED
        day = row.last // DAY_S
        put_varint(out, row.first // MINUTE_S)
        put_varint(out, (row.last - row.first) // MINUTE_S)
    put_varint(out, row.mark)
    put_varint(out, zigzag(row.fold_day - day))
    put_varint(out, row.lifetime)
    if row.bots:
        flags |= _BOTS
        put_varint(out, row.bots)
    if row.opening:
        flags |= _OPENING
        put_varint(out, row.opening)
    if row.erased_at:
        flags |= _ERASED_AT
        put_varint(out, row.erased_at)
    if row.erased or row.erased_bots:
        flags |= _ERASED
        put_varint(out, row.erased)
        put_varint(out, row.erased_bots)
    return flags


def _put_directory(out: bytearray, columns: bytearray, cells: tuple[Cells, ...], first: int) -> None:
    """Writes one series: which tiers it has and each one's entry to `out`, its gaps and counts to `columns`."""
    present_at, present = len(out), 0
    out.append(0)
    for tier, tier_cells in enumerate(cells):
        if type(tier_cells) is StoredCells and tier_cells.row.first == first:
            present |= 1 << tier
            tier_cells.copy_to(out, columns)
            continue
        starts, counts = tier_cells
        if not starts:
            continue
        present |= 1 << tier
        distinct = set(map(sub, starts[1:], starts))
        unit_code = _UNIT_CODES[gcd(DAY_S, starts[0], *distinct)]
        unit = _UNITS[unit_code]
        gap_code = _gap_code(max(distinct, default=unit) // unit)
        if gap_code:
            gaps = list(map(floordiv, map(sub, starts[1:], starts), repeat(unit)))
            put_column(columns, _GAP_WIDTHS[gap_code], gaps)
        count_code = _count_code(max(counts))
        if count_code:
            put_column(columns, COLUMN_WIDTHS[count_code], counts)
        put_varint(out, len(starts))
        out.append((unit_code * 4 + gap_code) * 6 + count_code)
        put_varint(out, zigzag(starts[0] // unit - first // unit))
    out[present_at] = present


def _gap_code(widest: int) -> int:
    if widest < 1 << 8:
        return 0 if widest == 1 else 1
    return 2 if widest < 1 << 16 else 3


def _count_code(largest: int) -> int:
    if largest < 1 << 16:
        return 0 if largest == 1 else 1 if largest < 1 << 8 else 2
    return 3 if largest < 1 << 32 else 4 if largest < 1 << 64 else 5


def decode_header(data: bytes) -> Row:
    """Reads a row without its buckets: totals, mark, fold day, first and last. Raises RowCorrupt as `decode`."""
    try:
        return Row(*_head(data)[0], (), ())
    except _BAD_BYTES as error:
        raise RowCorrupt(f"not a row: {error}") from error


def decode(data: bytes, since: int = 0, bots: bool = True) -> Row:
    """Reads a row. Raises RowCorrupt for bytes that are not a row of a known version, and for nothing else.

    `since` and `bots` are for readers that need a part, and make it up to four times as fast: tiers that hold nothing
    at or after `since` are left out, and so are all buckets of bots unless `bots`. Such a row may be folded and summed
    from `since` on, if `since` is the start of a bucket on the day it is folded to; nothing else holds of it.
    """
    return _decode(data, _read_cells, since, bots)


def decode_lazily(data: bytes) -> Row:
    """Reads a row whose cells are read when they are asked for: for a flush, which asks for few. Raises as `decode`."""
    return _decode(data, _stored_cells)


def _decode(data: bytes, cells_of: Callable[[_StoredRow, _Section], Cells], since: int = 0, bots: bool = True) -> Row:
    """Reads a row as `decode`, its cells by `cells_of`."""
    try:
        head, at = _head(data)
        first = head[2]
        people = [NO_CELLS] * (data[0] >> 4)
        cells = people, people[:]
        if first is not None:
            sections, at = _directory(data, at, first)
            wanted = _wanted(sections, since, bots) if since or not bots else sections
            row = _StoredRow(data, first, *_with_columns(data, at, sections, wanted))
            for section in wanted:
                cells[section.series][section.tier] = cells_of(row, section)
        elif at != len(data):
            raise ValueError(f"{len(data) - at} bytes after the end")
        return Row(*head, tuple(cells[0]), tuple(cells[1]))
    except _BAD_BYTES as error:
        raise RowCorrupt(f"not a row: {error}") from error


_Head = tuple[int, int, int | None, int | None, int, int, int, int, int, int]


def _head(data: bytes) -> tuple[_Head, int]:
    """Reads the fields of a row up to its cells, and where the directory begins."""
    shape, flags = data[0], data[1]
    if shape & 15 != VERSION:
        raise ValueError(f"version {shape & 15} is not known")
    if shape >> 4 > MAX_TIERS or flags & ~_FLAGS:
        raise ValueError(f"{shape >> 4} tiers, flags {flags:#x}")
    values, at = varints(data, 2, _HEAD_VARINTS[flags & (_DEFLATED - 1)])
    first = last = None
    day = 0
    if flags & _DATED:
        first = values[0] * MINUTE_S
        last = first + values[1] * MINUTE_S
        day = last // DAY_S
        del values[:2]
        if last >= END_OF_TIME:
            raise ValueError(f"last hit at {last}")
    day += unzigzag(values[1])
    if not 0 <= day < END_OF_TIME // DAY_S:
        raise ValueError(f"fold day {day}")
    if flags < _OPENING or flags & (_OPENING | _ERASED_AT | _ERASED) == 0:
        return (day, values[0], first, last, values[2], values[3] if flags & _BOTS else 0, 0, 0, 0, 0), at
    rest = iter(values[3:])
    bots = next(rest) if flags & _BOTS else 0
    opening = next(rest) if flags & _OPENING else 0
    erased_at = next(rest) if flags & _ERASED_AT else 0
    erased, erased_bots = (next(rest), next(rest)) if flags & _ERASED else (0, 0)
    return (day, values[0], first, last, values[2], bots, opening, erased_at, erased, erased_bots), at


class _Section(NamedTuple):
    """One entry of the directory: a tier of a series, and where its columns lie (counted from the first column).

    The entry itself is bytes entry_at to entry_end of the row.
    """

    series: int
    tier: int
    n: int
    start: int
    unit: int
    gap_width: int
    count_width: int
    at: int
    end: int
    entry_at: int
    entry_end: int


class _StoredRow(NamedTuple):
    """The bytes of a row, its first hit, and what has its columns: from byte `at` on."""

    data: bytes
    first: int
    columns: bytes
    at: int


@final
class StoredCells:
    """Cells as they lie in the bytes of a row: read each time that they are asked for."""

    __slots__ = ("_section", "row")

    def __init__(self, row: _StoredRow, section: _Section) -> None:
        self.row = row
        self._section = section

    @property
    def oldest(self) -> int:
        return self._section.start

    def sum_since(self, start: int) -> int:
        """Sums counts as `cells.sum_since` does, reading as little of the columns as that takes."""
        n, begin, unit, gap_width, count_width, at = self._section[2:8]
        columns, at = self.row.columns, self.row.at + at
        before = 0 if start <= begin else -((begin - start) // unit)  # units from the first bucket
        if before and gap_width:
            before = bisect_left(list(accumulate(column(columns, at, n - 1, gap_width))), before) + 1
        if before >= n:
            return 0
        if not count_width:
            return n - before
        return sum(column(columns, at + (n - 1) * gap_width + before * count_width, n - before, count_width))

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(_read_cells(self.row, self._section))

    def __getitem__(self, index: int) -> tuple[int, ...]:
        return tuple(self)[index]

    def copy_to(self, out: bytearray, columns: bytearray) -> None:
        """Writes them as they were, into a row with the same first hit."""
        data, _, source, at = self.row
        _, _, _, _, _, _, _, begin, end, entry_at, entry_end = self._section
        out += data[entry_at:entry_end]
        columns += source[at + begin : at + end]


def _with_columns(data: bytes, at: int, sections: list[_Section], wanted: list[_Section]) -> tuple[bytes, int]:
    """Returns bytes that have the columns of the wanted sections, and where in them the first section begins.

    `at` is where the columns begin in the row.
    """
    size = sections[-1].end if sections else 0
    if data[1] & _DEFLATED:
        return _inflated(data[at:], size, wanted[-1].end if wanted else 0), 0
    if len(data) - at != size:
        raise ValueError(f"{len(data) - at} bytes of columns, not {size}")
    return data, at


def _directory(data: bytes, at: int, first: int) -> tuple[list[_Section], int]:
    """Reads all sections, people before bots, finest first; and where the columns begin."""
    sections = []
    end = 0
    for series in range(2 if data[1] & _BOTS else 1):
        present = data[at]
        if present >> (data[0] >> 4):
            raise ValueError(f"tiers {present:#x} of {data[0] >> 4}")
        at += 1
        for tier in _BITS[present]:
            entry = at
            n, code = data[at], data[at + 1]
            if n < 128:
                at += 2
            else:
                (n, code), at = varints(data, at, 2)
            base = data[at]
            at += 1
            if base > 127:
                (base,), at = varints(data, at - 1, 1)
            if not 0 < n <= MAX_CELLS:
                raise ValueError(f"{n} buckets in a tier")
            unit, gap_width, count_width = _CODES[code]
            start = (first // unit + unzigzag(base)) * unit
            columns = end
            end += (n - 1) * gap_width + n * count_width
            fields = series, tier, n, start, unit, gap_width, count_width, columns, end, entry, at
            sections.append(_new(_Section, fields))
    return sections, at


def _wanted(sections: list[_Section], since: int, bots: bool) -> list[_Section]:
    """Leaves out the tiers that end before `since`: those whose next finer one, the newer, begins before it."""
    wanted = []
    newer: _Section | None = None
    for section in sections:
        if newer is None or newer.series != section.series or newer.start > since:
            wanted.append(section)
        newer = section
    return wanted if bots else [section for section in wanted if section.series == 0]


def _inflated(packed: bytes, size: int, wanted: int) -> bytes:
    """Returns the first `wanted` bytes of the columns, or all `size` of them, then checked to be just those."""
    inflater = zlib.decompressobj()
    if 0 < wanted < size:
        columns = inflater.decompress(packed, wanted)
        whole = len(columns) == wanted
    else:
        columns = inflater.decompress(packed, size + 1)
        whole = len(columns) == size and inflater.eof and not inflater.unused_data
    if not whole:
        raise ValueError(f"the columns are not deflated from {size} bytes")
    return columns


def _stored_cells(row: _StoredRow, section: _Section) -> StoredCells:
    """Returns a section's cells unread; raises what reading them raises."""
    _, _, n, start, unit, gap_width, _, at, _, _, _ = section
    if gap_width > 1 or start < 0 or start + n * 255 * unit >= END_OF_TIME:
        _read_cells(row, section)
    elif gap_width and 0 in row.columns[row.at + at : row.at + at + n - 1]:
        raise ValueError("a gap of 0")
    return StoredCells(row, section)


def _read_cells(row: _StoredRow, section: _Section) -> tuple[tuple[int, ...], tuple[int, ...]]:
    _, _, n, start, unit, gap_width, count_width, at, _, _, _ = section
    columns, at = row.columns, row.at + at
    if n == 1:
        starts: tuple[int, ...] = (start,)
    elif gap_width:
        gaps = column(columns, at, n - 1, gap_width)
        if 0 in gaps:
            raise ValueError("a gap of 0")
        starts = tuple(accumulate(map(mul, gaps, repeat(unit)), initial=start))
    else:
        starts = tuple(range(start, start + n * unit, unit))
    if start < 0 or starts[-1] >= END_OF_TIME:
        raise ValueError(f"buckets from {start} to {starts[-1]}")
    counts = tuple(column(columns, at + (n - 1) * gap_width, n, count_width)) if count_width else (1,) * n
    return starts, counts
