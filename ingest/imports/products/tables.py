"""Files of an export: tables (CSV with names in the first line), JSON, or lines of JSON; plain, gzip or zip."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ingest.imports.source import SourceUnreadable

Row: TypeAlias = Mapping[str, str]
_MOST_FIELD = 1 << 20
_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"
_DELIMITERS = ",;\t"


class ExportFile:
    """One file. Exactly one of `rows`, `values` and `parts` is what it holds."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.header: tuple[str, ...] = ()
        self._text = ""
        self._values: list[Any] = []
        self.parts: dict[str, bytes] = {}
        if data.startswith(_ZIP):
            self.parts = _parts_of(name, data)
            return
        self._text = _text_of(name, data)
        begin = self._text.lstrip()[:1]
        if begin in ("{", "["):
            self._values = _values_of(name, self._text)
        else:
            self.header = tuple(next(self._reader(), ()))

    @property
    def values(self) -> list[Any]:
        """The objects of a JSON file, or of lines of JSON."""
        return self._values

    def has(self, *columns: str) -> bool:
        """Returns whether it is a table with these columns."""
        return set(columns) <= set(self.header)

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Yields the number of each row's last line, and the row by the names of its columns."""
        reader = self._reader()
        next(reader, None)
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, dict(zip(self.header, cells, strict=False))
        except csv.Error as error:
            raise SourceUnreadable(f"{self.name}, line {reader.line_num}: {error}") from error

    def _reader(self) -> Any:
        csv.field_size_limit(_MOST_FIELD)
        first = self._text.partition("\n")[0]
        delimiter = max(_DELIMITERS, key=first.count)
        return csv.reader(io.StringIO(self._text, newline=""), delimiter=delimiter)


def read_export(path: Path) -> ExportFile:
    """Reads a file whole; raises SourceUnreadable."""
    try:
        return ExportFile(path.name, path.read_bytes())
    except OSError as error:
        raise SourceUnreadable(f"{path} cannot be read: {error.strerror or error}") from error


def _text_of(name: str, data: bytes) -> str:
    try:
        plain = gzip.decompress(data) if data.startswith(_GZIP) else data
    except (OSError, EOFError) as error:
        raise SourceUnreadable(f"{name} is damaged: {error}") from error
    # Bytes that are not UTF-8 become lone surrogates, which no key may hold: only their own line is refused.
    return plain.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _values_of(name: str, text: str) -> list[Any]:
    data = text.encode("utf-8", "surrogateescape")
    try:
        return [msgspec.json.decode(data)]
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # several lines, perhaps
    try:
        return [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceUnreadable(f"{name} is neither JSON nor lines of JSON: {error}") from error


def _parts_of(name: str, data: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            return {Path(each).name: packed.read(each) for each in packed.namelist() if not each.endswith("/")}
    except (zipfile.BadZipFile, OSError, RuntimeError) as error:
        raise SourceUnreadable(f"{name} is damaged: {error}") from error


def lines_of(name: str, data: bytes) -> Iterator[Any]:
    """Yields the objects of lines of JSON."""
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                yield msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise SourceUnreadable(f"{name}, line {number}: {error}") from error
