"""Files of an export: tables (CSV with names in the first line), JSON, or lines of JSON; packed, or a zip file's parts.

An export may be of any length: it is read forward, a row or an entry at a time, and these are bounded. Whatever is
damaged in it is one sentence, a SourceUnreadable. At the end: times and counts as products write them.
"""

from __future__ import annotations

import csv
import io
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, tzinfo
from pathlib import Path
from typing import IO, TypeAlias, cast

from clickcurve.times import parse_iso
from ingest.imports.logs.times import in_zone
from ingest.imports.products.json_documents import Found, LongLists, documents
from ingest.imports.source import SourceUnreadable
from ingest.imports.unpacking import DamagedFile, PackedBytes, UnpackedFile, packing_of

Row: TypeAlias = Mapping[str, str]
_Cells: TypeAlias = tuple[int, list[str]]
MOST_COLUMNS = 1000
_MOST_ROW = 1 << 20  # characters of a row, line ends in its cells included
_ZIP_LIST_BYTES = 4 << 20  # the list of a zip file's parts, some 90,000: zipfile takes ten times as much of memory
_BEGIN_BYTES = 4096
_ZIP, _BOM = b"PK\x03\x04", b"\xef\xbb\xbf"
_DELIMITERS = b",;\t"
_ZIP_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGED = (DamagedFile, zlib.error, zipfile.BadZipFile, OSError, EOFError, RuntimeError, NotImplementedError)


class ExportFile:
    """One file, read forward: a table has `rows`, JSON has `found`, and a zip file has parts, see `found_in`."""

    def __init__(self, path: Path) -> None:
        """Opens it and reads a table's header; raises SourceUnreadable."""
        self.name = path.name
        self.header: tuple[str, ...] = ()
        self.is_json = False
        self._zip: zipfile.ZipFile | None = None
        with ExitStack() as opened:
            try:
                file = opened.enter_context(_ShortReads(io.FileIO(path)))
            except OSError as error:
                raise SourceUnreadable(f"{path} cannot be read: {error.strerror or error}") from error
            self._opening = opened
            with _damage_told(self.name):
                self._begin(file)
            self._opening = opened.pop_all()

    def _begin(self, file: io.BufferedReader) -> None:
        begin = file.peek(_BEGIN_BYTES)
        if begin.startswith(_ZIP):
            if not file.seekable():
                raise SourceUnreadable(f"{self.name} is a zip file, which cannot be read from a pipe")
            self._zip = self._opening.enter_context(zipfile.ZipFile(file))
            return
        packing = packing_of(begin)
        opened = file
        if packing is not None:
            opened = io.BufferedReader(UnpackedFile(PackedBytes(file), packing), _BEGIN_BYTES)
            begin = opened.peek(_BEGIN_BYTES)
        if begin.startswith(_BOM):
            opened.read(len(_BOM))
            begin = begin.removeprefix(_BOM)
        self._opened = opened
        self.is_json = begin.lstrip()[:1] in (b"{", b"[")
        if not self.is_json:
            self._cells = self._read_cells(self.name, self._opened, begin)
            self.header = _header(self.name, self._cells)

    def close(self) -> None:
        self._opening.close()

    def has(self, *columns: str) -> bool:
        """Returns whether it is a table with these columns."""
        return set(columns) <= set(self.header)

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yields the number of each row's last line, and the row by columns: "" where it is short."""
        yield from _rows(self.header, self._cells)

    def tables_in(self, beginning: str) -> Iterator[tuple[str, tuple[str, ...], Iterator[tuple[int, Row]]]]:
        """Yields the tables in a zip file whose names begin so: name, header, and rows as `rows`."""
        for member in self._members():
            name = Path(member.filename).name
            if name.startswith(beginning) and name.endswith(".csv"):
                with _damage_told(self.name):
                    opened = self._part(member)
                    begin = cast(zipfile.ZipExtFile, opened).peek(_BEGIN_BYTES)
                    if begin.startswith(_BOM):
                        opened.read(len(_BOM))
                    cells = self._read_cells(name, opened, begin.removeprefix(_BOM))
                    header = _header(name, cells)
                yield name, header, _rows(header, cells)

    def _read_cells(self, name: str, opened: IO[bytes], begin: bytes) -> Iterator[_Cells]:
        """Yields the number of each row's last line, and its cells. begin: some of the first bytes."""
        first_line = begin[:_BEGIN_BYTES].partition(b"\n")[0]
        csv.field_size_limit(_MOST_ROW)
        # Bytes that are not UTF-8 become lone surrogates, which no key may hold: only their own line is refused.
        text = self._opening.enter_context(io.TextIOWrapper(opened, "utf-8", "surrogateescape", newline=""))
        held = 0  # characters of the row so far

        def lines() -> Iterator[str]:
            nonlocal held
            while line := text.readline(_MOST_ROW + 1 - held):
                held += len(line)
                if held > _MOST_ROW:
                    line_number = reader.line_num + 1
                    raise SourceUnreadable(f"{name}, line {line_number}: a row of more than {_MOST_ROW:,} characters")
                yield line

        reader = csv.reader(lines(), delimiter=chr(max(_DELIMITERS, key=first_line.count)))
        try:
            for cells in reader:
                held = 0
                yield reader.line_num, cells
        except csv.Error as error:
            raise SourceUnreadable(f"{name}, line {reader.line_num}: {error}") from error
        except _DAMAGED as error:
            raise _damaged(name, error) from error

    def found(self, lists: LongLists) -> Iterator[Found]:
        """Yields the documents of a JSON file, after the items of their long lists; nothing for other files."""
        if self.is_json:
            yield from _found(self.name, self._opened, lists)

    def found_in(self, part: str) -> Iterator[Found] | None:
        """Returns the documents in the part of a zip file whose last name this is; None if there is none."""
        for member in self._members():
            if Path(member.filename).name == part:
                with _damage_told(self.name):
                    return _found(part, self._part(member), {})
        return None

    def _members(self) -> list[zipfile.ZipInfo]:
        return [] if self._zip is None else [each for each in self._zip.infolist() if not each.is_dir()]

    def _part(self, member: zipfile.ZipInfo) -> IO[bytes]:
        if member.compress_type not in _ZIP_PACKINGS:
            part = Path(member.filename).name
            raise SourceUnreadable(f"{self.name}: {part} is packed in a way that is not read; pack it anew")
        assert self._zip is not None
        return self._zip.open(member)


class _ShortReads(io.BufferedReader):
    """A file of which no more is read at once than fits into memory: the length of a zip file's list is in the file."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _ZIP_LIST_BYTES:
            raise zipfile.BadZipFile(f"a list of parts of more than {_ZIP_LIST_BYTES >> 20} MiB")
        return super().read(size)


def _header(name: str, cells: Iterator[_Cells]) -> tuple[str, ...]:
    header = tuple(next(cells, (0, []))[1])
    if len(header) > MOST_COLUMNS:
        raise SourceUnreadable(f"{name} has more than {MOST_COLUMNS:,} columns")
    return header


def _rows(header: tuple[str, ...], cells: Iterator[_Cells]) -> Iterator[tuple[int, Row]]:
    for line, row in cells:
        if row:
            yield line, dict.fromkeys(header, "") | dict(zip(header, row, strict=False))


def _found(name: str, opened: IO[bytes], lists: LongLists) -> Iterator[Found]:
    found = documents(name, opened, lists)
    while True:
        with _damage_told(name):
            item = next(found, None)
        if item is None:
            return
        yield item


@contextmanager
def _damage_told(name: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise _damaged(name, error) from error


def _damaged(name: str, error: BaseException) -> SourceUnreadable:
    return SourceUnreadable(f"{name} is damaged: {error}")


def second_of(when: object, zone: tzinfo = UTC) -> int | None:
    """Returns the epoch seconds of a time, in the zone if it has no offset; None if it is none."""
    if isinstance(when, str):
        text = when.strip()
        return int(text) if len(text) == 10 and text.isascii() and text.isdigit() else in_zone(parse_iso(text), zone)
    is_number = isinstance(when, int | float) and not isinstance(when, bool)
    return int(when) if is_number and math.isfinite(when) else None  # type: ignore[arg-type,call-overload]


def whole_count(value: object) -> int | None:
    """Returns a count of 0 or more, also one written as text; None for any other value."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value) if len(value) < 20 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
