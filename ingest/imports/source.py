"""Reading a source: a file that may be packed by gzip or zstd, a pipe, or a log that is still being written.

A `Stream` gives the decompressed bytes in order and knows the offset, the bytes before it and the beginning. `Cutter`
cuts it into stretches of whole lines. All of this blocks and runs in a thread; inflating lets other threads run.
"""

from __future__ import annotations

import io
import os
import select
import stat
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from clickcurve.buckets.errors import ClickcurveError, ExtraMissing
from clickcurve.extras import extra_for
from ingest.imports.fingerprint import TAIL_BYTES, Beginning

CHUNK_BYTES = 1 << 20
LONGEST_LINE = 16 << 20  # a longer line is bad; it is passed over without being kept in memory
_RAW_BYTES = 1 << 16


class SourceChanged(ClickcurveError, title="source changed"):
    """The bytes before the offset are no longer there: the file was truncated and written anew."""


class SourceUnreadable(ClickcurveError, title="source unreadable"):
    """A file that cannot be imported."""


class Unpacker(Protocol):
    """What zlib and zstandard call a decompression object: one member, or one frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Packing:
    """How files of a coding are unpacked; damaged: what an unpacker raises for bytes that are not of it."""

    coding: str
    unpacker: Callable[[], Unpacker]
    damaged: type[Exception]


def _gzip() -> Packing:
    return Packing("gzip", lambda: zlib.decompressobj(wbits=31), zlib.error)


def _zstd() -> Packing:
    with extra_for("a file packed by zstd"):
        import zstandard
    return Packing("zstd", lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError)


# The first bytes of a packed file -> its packing.
_PACKINGS: Mapping[bytes, Callable[[], Packing]] = {b"\x1f\x8b": _gzip, b"\x28\xb5\x2f\xfd": _zstd}


class PlainSource:
    """A file or pipe as it is."""

    damage: str | None = None  # why the source could not be read to its end

    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw = raw
        status = os.fstat(raw.fileno())
        self._regular = stat.S_ISREG(status.st_mode)
        self._inode = status.st_dev, status.st_ino
        self.final = not self._regular  # what was read as the end is the end: nothing can follow later
        self.raw_at = 0  # bytes of the file read so far

    def read(self, size: int) -> bytes:
        data = self._raw.read(size) if self._regular else self._read_pipe(size)
        self.raw_at += len(data)
        return data

    def _read_pipe(self, size: int) -> bytes:
        """Reads what is there, without waiting for more than the first byte."""
        data = self._raw.read1(size)
        while data and len(data) < size and select.select([self._raw], [], [], 0)[0]:
            more = self._raw.read1(size - len(data))
            if not more:
                break
            data += more
        return data

    def rewind(self) -> bool:
        """Goes back to the first byte; returns False where that cannot be."""
        self.raw_at = 0
        return self._regular and self._raw.seek(0) == 0

    def jump(self, to: int) -> bool:
        """Goes to a byte without reading up to it; returns False where that cannot be."""
        if not self._regular or os.fstat(self._raw.fileno()).st_size < to:
            return False
        self._raw.seek(to)
        self.raw_at = to
        return True

    def still_has(self, at: int, last: bytes) -> bool:
        """Tells whether `last` still are the bytes before byte `at`."""
        return not self._regular or os.pread(self._raw.fileno(), len(last), at - len(last)) == last

    def line_before(self, at: int) -> bytes:
        """Returns the line that ends just before byte `at` of a file; of a long one the last 64 KiB."""
        start = max(0, at - _RAW_BYTES)
        return os.pread(self._raw.fileno(), at - start, start).removesuffix(b"\n").rpartition(b"\n")[2]

    def is_replaced(self, path: Path) -> bool:
        """Tells whether another file has that name now; where none has, this may still be written."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) != self._inode

    def close(self) -> None:
        self._raw.close()


class PackedSource:
    """gzip members or zstd frames, one after the other, unpacked. Anything after the last one is damage."""

    final = True

    def __init__(self, raw: io.BufferedReader, packing: Packing) -> None:
        self._raw = raw
        self._packing = packing
        self._unpacker = packing.unpacker()
        self._left = b""  # read, not unpacked
        self._ready = b""  # unpacked; the first _given bytes of it were given out
        self._given = 0
        self._begun = False  # inside a member
        self.damage: str | None = None
        self.raw_at = 0

    def read(self, size: int) -> bytes:
        """Returns the next `size` bytes; fewer at the end, or where damage begins."""
        pieces: list[bytes] = []
        while size > 0:
            if self._given == len(self._ready):
                self._ready, self._given = self._unpack(), 0
                if not self._ready:
                    break
            data = self._ready[self._given : self._given + size]
            self._given += len(data)
            size -= len(data)
            pieces.append(data)
        return b"".join(pieces)

    def _unpack(self) -> bytes:
        """Returns what the next bytes of the file unpack to, which may be much; b"" at the end."""
        while self.damage is None:
            data = self._left or self._raw.read(_RAW_BYTES)
            self.raw_at += 0 if self._left else len(data)
            self._left = b""
            if not data:
                if self._begun:
                    self.damage = f"the {self._packing.coding} data ends early"
                break
            if not self._begun and not (data := data.lstrip(b"\0")):
                continue  # padding after a member
            self._begun = True
            try:
                unpacked = self._unpacker.decompress(data)
            except self._packing.damaged as error:
                self.damage = f"damaged {self._packing.coding} data before byte {self.raw_at} of the file: {error}"
                break
            if self._unpacker.eof:
                self._left = self._unpacker.unused_data
                self._unpacker = self._packing.unpacker()
                self._begun = False
            if unpacked:
                return unpacked
        return b""

    def rewind(self) -> bool:
        if not self._raw.seekable():
            return False
        self._raw.seek(0)
        self._unpacker, self._begun, self.damage = self._packing.unpacker(), False, None
        self._left = self._ready = b""
        self._given = self.raw_at = 0
        return True

    def jump(self, to: int) -> bool:
        return False

    def still_has(self, at: int, last: bytes) -> bool:
        return True

    def line_before(self, at: int) -> bytes:
        """Returns nothing: where no line can go on later, none is compared."""
        return b""

    def is_replaced(self, path: Path) -> bool:
        return False

    def close(self) -> None:
        self._raw.close()


SourceReader = PlainSource | PackedSource


def open_reader(source: Path | io.BufferedReader) -> SourceReader:
    """Opens a source and tells by its first bytes how it is packed.

    Raises SourceUnreadable with the reason, and ExtraMissing for a packing whose library is not installed.
    """
    try:
        opened = source.open("rb") if isinstance(source, Path) else source
        magic = opened.peek(4)
    except OSError as error:
        raise SourceUnreadable(f"{source}: {error.strerror}", value=str(source)) from None
    for first_bytes, packing in _PACKINGS.items():
        if magic.startswith(first_bytes):
            try:
                return PackedSource(opened, packing())
            except ExtraMissing:
                opened.close()
                raise
    return PlainSource(opened)


class Stream:
    """The bytes of a reader in order. `at`: the next byte; `last`: up to TAIL_BYTES before it."""

    def __init__(self, reader: SourceReader, label: str = "") -> None:
        self.reader = reader
        self.beginning = Beginning(label)
        self.at = 0
        self.last = b""
        self._ahead = b""

    def look(self, size: int) -> bytes:
        """Returns the next bytes, `size` of them if there are so many, without taking them."""
        while len(self._ahead) < size:
            data = self.reader.read(max(size - len(self._ahead), _RAW_BYTES))
            if not data:
                break
            self.beginning.feed(self.at + len(self._ahead), data)
            self._ahead += data
        return self._ahead[:size]

    def take(self, size: int) -> bytes:
        """Returns the next bytes, `size` or fewer; b"" at the end for now.

        Raises SourceChanged if the file was written anew.
        """
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data = self.reader.read(size)
            # Asked after reading: what was read was there while the bytes before it still were.
            if not self.reader.still_has(self.at, self.last):
                raise SourceChanged("the file was truncated and written anew")
            self.beginning.feed(self.at, data)
        self.at += len(data)
        self.last = (self.last + data[-TAIL_BYTES:])[-TAIL_BYTES:]
        return data

    def rewind(self) -> bool:
        """Goes back to the first byte; returns False where that cannot be."""
        self.at, self.last, self._ahead = 0, b"", b""
        return self.reader.rewind()

    def skip(self, to: int) -> bool:
        """Goes forward to byte `to`; returns False if the source ends before."""
        before = max(self.at, to - TAIL_BYTES)
        if before > self.at + len(self._ahead) and self.reader.jump(before):
            self._ahead, self.at, self.last = b"", before, b""
        while self.at < to:
            if not self.take(min(to - self.at, CHUNK_BYTES)):
                return False
        return True

    def tail(self, end: int, last: bytes) -> str:
        return self.beginning.tail(end, last)


@dataclass(frozen=True, slots=True)
class SourceLines:
    """Bytes [start, end) of a source, in whole lines; without `ended` the last one has no newline.

    `too_long` lines were passed over. `tail` is what is kept with the offset `end`.
    """

    start: int
    end: int
    data: bytes
    tail: str
    ended: bool = True
    too_long: int = 0


class Cutter:
    """Cuts a stream, from its next byte on, into stretches of whole lines."""

    def __init__(self, stream: Stream, chunk_bytes: int = CHUNK_BYTES, longest_line: int = LONGEST_LINE) -> None:
        self._stream = stream
        self._chunk_bytes = chunk_bytes
        self._longest_line = longest_line
        self._start = stream.at
        self._before = stream.last  # the bytes before _start
        self._rest = b""  # the beginning of a line whose end was not read yet
        self._passing = False  # inside a line that is too long, whose beginning was thrown away

    @property
    def unfinished_bytes(self) -> int:
        """Bytes after the last whole line."""
        return self._stream.at - self._start

    def next(self) -> SourceLines | None:
        """Returns the next whole lines; None where there are none for now."""
        while True:
            before = self._stream.last
            data = self._stream.take(self._chunk_bytes)
            if not data:
                return None
            end = data.rfind(b"\n") + 1
            if end and self._passing:
                return self._passed(data, before)
            if end:
                whole, self._rest = self._rest + data[:end], data[end:]
                return self._lines(whole)
            if not self._passing:
                self._rest += data
                if len(self._rest) > self._longest_line:
                    self._passing, self._rest = True, b""

    def last(self) -> SourceLines | None:
        """Returns what is left at the end: a line without its newline."""
        if self._passing:
            self._passing = False
            return self._step(self._stream.at, b"", self._stream.last, ended=False, too_long=1)
        if not self._rest:
            return None
        data, self._rest = self._rest, b""
        return self._lines(data, ended=False)

    def _passed(self, data: bytes, before: bytes) -> SourceLines:
        """Returns the lines after the end of one that is too long, both in `data`."""
        self._passing = False
        begin, end = data.index(b"\n") + 1, data.rfind(b"\n") + 1
        whole, self._rest = data[:end], data[end:]
        at = self._stream.at - len(self._rest)
        return self._step(at, whole[begin:], (before + whole)[-TAIL_BYTES:], too_long=1)

    def _lines(self, data: bytes, ended: bool = True) -> SourceLines:
        return self._step(self._start + len(data), data, (self._before + data[-TAIL_BYTES:])[-TAIL_BYTES:], ended)

    def _step(self, end: int, data: bytes, last: bytes, ended: bool = True, too_long: int = 0) -> SourceLines:
        lines = SourceLines(self._start, end, data, self._stream.tail(end, last), ended, too_long)
        self._start, self._before = end, last
        return lines
