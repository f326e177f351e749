"""Files of an export: tables (CSV with names in the first line), JSON, or lines of JSON; plain, gzip or zip.

An export is read whole, so it is bounded: unpacked at most EXPORT_BYTES, JSON at most JSON_BYTES. Whatever is damaged
in it is one sentence, a SourceUnreadable. At the end: times and counts as products write them.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

import msgspec

from clickcurve.times import iso_seconds
from ingest.imports.source import SourceUnreadable

Row: TypeAlias = Mapping[str, str]
EXPORT_BYTES = 256 << 20
JSON_BYTES = 64 << 20  # it takes some ten times as much in memory
_MOST_FIELD = 1 << 20
_BEGIN_BYTES = 4096
_ZIP, _GZIP, _BOM = b"PK\x03\x04", b"\x1f\x8b", b"\xef\xbb\xbf"
_DELIMITERS = b",;\t"
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_DAMAGED = (zlib.error, zipfile.BadZipFile, OSError, EOFError, RuntimeError, NotImplementedError)


class ExportFile:
    """One file: a table has `rows`, JSON has `values`, and a zip file has parts, see `part`."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.header: tuple[str, ...] = ()
        self.values: list[Any] = []  # the objects of a JSON file, or of lines of JSON
        self._zip: zipfile.ZipFile | None = None
        self._data = b""
        if data.startswith(_ZIP):
            with _damage_told(name):
                self._zip = zipfile.ZipFile(io.BytesIO(data))
            return
        self._data = _unpacked(name, data).removeprefix(_BOM)
        if self._data[:_BEGIN_BYTES].lstrip()[:1] in (b"{", b"["):
            self.values = _values_of(name, self._data)
        else:
            self.header = tuple(next(self._cells(), (0, []))[1])

    def has(self, *columns: str) -> bool:
        """Returns whether it is a table with these columns."""
        return set(columns) <= set(self.header)

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yields the number of each row's last line, and the row by columns: "" where it is short."""
        cells = self._cells()
        next(cells, None)
        for line, row in cells:
            if row:
                yield line, dict.fromkeys(self.header, "") | dict(zip(self.header, row, strict=False))

    def _cells(self) -> Iterator[tuple[int, list[str]]]:
        csv.field_size_limit(_MOST_FIELD)
        first = self._data[:_BEGIN_BYTES].partition(b"\n")[0]
        delimiter = chr(max(_DELIMITERS, key=first.count))
        # Bytes that are not UTF-8 become lone surrogates, which no key may hold: only their own line is refused.
        text = io.TextIOWrapper(io.BytesIO(self._data), "utf-8", "surrogateescape", newline="")
        reader = csv.reader(text, delimiter=delimiter)
        try:
            for cells in reader:
                yield reader.line_num, cells
        except csv.Error as error:
            raise SourceUnreadable(f"{self.name}, line {reader.line_num}: {error}") from error

    def part(self, name: str) -> bytes | None:
        """Returns the part of a zip file whose last name this is; None if there is none."""
        if self._zip is None:
            return None
        for member in self._zip.infolist():
            if not member.is_dir() and Path(member.filename).name == name:
                with _damage_told(self.name), self._zip.open(member) as opened:
                    return _bounded(name, opened)
        return None


def read_export(path: Path) -> ExportFile:
    """Reads a file whole; raises SourceUnreadable."""
    try:
        with path.open("rb") as opened:
            return ExportFile(path.name, _bounded(path.name, opened))
    except OSError as error:
        raise SourceUnreadable(f"{path} cannot be read: {error.strerror or error}") from error


def _bounded(name: str, opened: IO[bytes]) -> bytes:
    data = opened.read(EXPORT_BYTES + 1)
    if len(data) > EXPORT_BYTES:
        raise SourceUnreadable(f"{name} has more than {EXPORT_BYTES >> 20} MiB, unpacked; import it in several files")
    return data


def _unpacked(name: str, data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    with _damage_told(name):
        return _bounded(name, gzip.GzipFile(fileobj=io.BytesIO(data)))  # type: ignore[arg-type]  # it reads bytes


def _values_of(name: str, data: bytes) -> list[Any]:
    if len(data) > JSON_BYTES:
        raise SourceUnreadable(f"{name} has more than {JSON_BYTES >> 20} MiB of JSON; import it in several files")
    try:
        return [msgspec.json.decode(data)]
    except _NOT_JSON:
        pass  # several lines, perhaps
    try:
        return [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
    except _NOT_JSON as error:
        raise SourceUnreadable(f"{name} is neither JSON nor lines of JSON: {error}") from error


@contextmanager
def _damage_told(name: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise SourceUnreadable(f"{name} is damaged: {error}") from error


def objects_of(name: str, data: bytes) -> Iterator[Mapping[str, Any]]:
    """Yields the objects of lines of JSON; raises SourceUnreadable for a line that is not an object."""
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                value = msgspec.json.decode(line)
            except _NOT_JSON as error:
                raise SourceUnreadable(f"{name}, line {number}: {error}") from error
            if not isinstance(value, dict):
                raise SourceUnreadable(f"{name}, line {number} is not an object")
            yield value


def second_of(when: object) -> int | None:
    """Returns the epoch seconds of a time, UTC where it has no offset; None if the text is not one."""
    if isinstance(when, str):
        text = when.strip()
        return int(text) if len(text) == 10 and text.isascii() and text.isdigit() else iso_seconds(text)
    is_number = isinstance(when, int | float) and not isinstance(when, bool)
    return int(when) if is_number and math.isfinite(when) else None  # type: ignore[arg-type,call-overload]


def whole_count(value: object) -> int | None:
    """Returns a count of 0 or more, also one written as text; None for any other value."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value) if len(value) < 20 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
