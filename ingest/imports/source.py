"""Reading a source: a file that may be packed, a pipe, or a log that is still being written.

A `Stream` gives the decompressed bytes in stretches of whole lines, and knows the offset, the bytes before it and the
beginning. All of this blocks and runs in a thread; inflating lets other threads run.
"""

from __future__ import annotations

import io
import os
import select
import stat
from dataclasses import dataclass
from pathlib import Path

from clickcurve.buckets.errors import ClickcurveError, ExtraMissing
from ingest.imports.fingerprint import TAIL_BYTES, Beginning, Tail
from ingest.imports.unpacking import BEGIN_BYTES, DamagedFile, PackedBytes, Packing, packing_of

CHUNK_BYTES = 1 << 20
LONGEST_LINE = 16 << 20  # a longer line is bad; it is passed over without being kept in memory
_RAW_BYTES = 1 << 16


class SourceChanged(ClickcurveError, title="source changed"):
    """The bytes before the offset are no longer there: the file was truncated and written anew."""


class SourceUnreadable(ClickcurveError, title="source unreadable"):
    """A file that cannot be imported."""


class PlainSource:
    """A file or pipe as it is."""

    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw = raw
        self.damage: str | None = None  # why the source could not be read to its end
        status = os.fstat(raw.fileno())
        self._inode = status.st_dev, status.st_ino
        # What was read as the end is the end: nothing can follow later, and no byte can be found by its place.
        self.final = not stat.S_ISREG(status.st_mode)
        self.raw_at = 0  # bytes of the file read so far

    def read(self, size: int) -> bytes:
        data = self._read_pipe(size) if self.final else self._raw.read(size)
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
        return not self.final and self._raw.seek(0) == 0

    def jump(self, to: int) -> bool:
        """Goes to a byte without reading up to it; returns False where that cannot be."""
        if self.final or os.fstat(self._raw.fileno()).st_size < to:
            return False
        self._raw.seek(to)
        self.raw_at = to
        return True

    def still_has(self, at: int, last: bytes) -> bool:
        """Tells whether `last` still are the bytes before byte `at`."""
        return self.final or os.pread(self._raw.fileno(), len(last), at - len(last)) == last

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


class PackedSource(PlainSource):
    """A packed file, unpacked. What is before damage is read, and `damage` says what is wrong then."""

    def __init__(self, raw: io.BufferedReader, packing: Packing) -> None:
        super().__init__(raw)
        self.final = True
        self._packing = packing
        self._start_unpacking()

    def _start_unpacking(self) -> None:
        self._packed = PackedBytes(self._raw)
        self._pieces = self._packing.pieces(self._packed)
        self._ready = io.BytesIO()  # unpacked
        self.raw_at = 0
        self.damage = None

    def read(self, size: int) -> bytes:
        """Returns the next `size` bytes; fewer at the end, or where damage begins."""
        pieces: list[bytes] = []
        while size > 0:
            if data := self._ready.read(size):
                size -= len(data)
                pieces.append(data)
            elif unpacked := self._unpack():
                self._ready = io.BytesIO(unpacked)
            else:
                break
        return b"".join(pieces)

    def _unpack(self) -> bytes:
        """Returns the next piece; b"" at the end."""
        try:
            return next(self._pieces, b"")
        except DamagedFile as damage:
            self.damage = str(damage)
            return b""
        finally:
            self.raw_at = self._packed.at

    def rewind(self) -> bool:
        if not self._raw.seekable():
            return False
        self._raw.seek(0)
        self._start_unpacking()
        return True


def open_reader(source: Path | io.BufferedReader) -> PlainSource:
    """Opens a source and tells by its first bytes how it is packed.

    Raises SourceUnreadable with the reason, and ExtraMissing for a packing whose library is not installed.
    """
    try:
        opened = source.open("rb") if isinstance(source, Path) else source
        begin = opened.peek(BEGIN_BYTES)
    except OSError as error:
        raise SourceUnreadable(f"{source}: {error.strerror}", value=str(source)) from None
    try:
        packing = packing_of(begin)
    except ExtraMissing:
        opened.close()
        raise
    return PlainSource(opened) if packing is None else PackedSource(opened, packing)


@dataclass(frozen=True, slots=True)
class SourceLines:
    """Bytes [start, end) of a source, in whole lines; without `ended` the last one has no newline.

    `too_long` lines were passed over. `tail` is what is kept with the offset `end`.
    """

    start: int
    end: int
    data: bytes
    tail: Tail
    ended: bool = True
    too_long: int = 0


class Stream:
    """The bytes of a reader in order, from any offset on in stretches of whole lines.

    `at`: the next byte to be read; `recent`: up to 64 KiB before it, some lines; `before`: up to TAIL_BYTES of them.
    """

    def __init__(
        self,
        reader: PlainSource,
        label: str = "",
        chunk_bytes: int = CHUNK_BYTES,
        longest_line: int = LONGEST_LINE,
    ) -> None:
        self.reader = reader
        self.beginning = Beginning(label)
        self.longest_line = longest_line
        self._chunk_bytes = chunk_bytes
        self._begin_at(0)

    @property
    def before(self) -> bytes:
        return self.recent[-TAIL_BYTES:]

    def _begin_at(self, at: int) -> None:
        self.at, self.recent = at, b""
        self._ahead = b""  # was looked at
        self._begin_line()

    def _begin_line(self) -> None:
        self._start = self.at  # of the next line
        self._rest = b""  # the beginning of a line whose end was not read yet
        self._passing = False  # inside a line that is too long, whose beginning was thrown away

    # --- bytes --------------------------------------------------------------------------------------------------
    def look(self, size: int) -> bytes:
        """Returns the next bytes, `size` of them if there are so many, without taking them."""
        while len(self._ahead) < size:
            data = self.reader.read(max(size - len(self._ahead), _RAW_BYTES))
            if not data:
                break
            self.beginning.feed(self.at + len(self._ahead), data)
            self._ahead += data
        return self._ahead[:size]

    def rewind(self) -> bool:
        """Goes back to the first byte; returns False where that cannot be."""
        self._begin_at(0)
        return self.reader.rewind()

    def skip(self, to: int) -> bool:
        """Goes forward to byte `to`, where a line begins; returns False if the source ends before."""
        near = max(self.at, to - _RAW_BYTES)
        if near > self.at + len(self._ahead) and self.reader.jump(near):
            self._begin_at(near)
        while self.at < to and self._take(min(to - self.at, CHUNK_BYTES)):
            pass
        self._begin_line()
        return self.at >= to

    def _take(self, size: int) -> bytes:
        """Returns the next bytes, `size` or fewer; b"" at the end for now.

        Raises SourceChanged if the file was written anew.
        """
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data = self.reader.read(size)
            # Asked after reading: what was read was there while the bytes before it still were.
            if not self.reader.still_has(self.at, self.before):
                raise SourceChanged("the file was truncated and written anew")
            self.beginning.feed(self.at, data)
        self.at += len(data)
        self.recent = (self.recent + data[-_RAW_BYTES:])[-_RAW_BYTES:]
        return data

    # --- lines --------------------------------------------------------------------------------------------------
    @property
    def unfinished_bytes(self) -> int:
        """Bytes after the last whole line."""
        return self.at - self._start

    def next_lines(self) -> SourceLines | None:
        """Returns the next whole lines; None where there are none for now. Raises SourceChanged."""
        while True:
            before = self.before
            data = self._take(self._chunk_bytes)
            if not data:
                return None
            end = data.rfind(b"\n") + 1
            if end:
                before_end = (before + data[max(0, end - TAIL_BYTES) : end])[-TAIL_BYTES:]
                passed = self._passing
                lines = data[data.index(b"\n") + 1 : end] if passed else self._rest + data[:end]
                self._rest, self._passing = data[end:], False
                return self._cut(self.at - len(self._rest), lines, before_end, too_long=int(passed))
            if not self._passing:
                self._rest += data
                if len(self._rest) > self.longest_line:
                    self._passing, self._rest = True, b""

    def last_line(self) -> SourceLines | None:
        """Returns what is left at the end: a line without its newline."""
        if not (self._rest or self._passing):
            return None
        line, passed = self._rest, self._passing
        self._rest, self._passing = b"", False
        return self._cut(self.at, line, self.before, ended=False, too_long=int(passed))

    def _cut(self, end: int, data: bytes, before_end: bytes, ended: bool = True, too_long: int = 0) -> SourceLines:
        start, self._start = self._start, end
        data, more_too_long = _without_long_lines(data, self.longest_line)
        return SourceLines(start, end, data, self.beginning.tail(end, before_end), ended, too_long + more_too_long)


def _without_long_lines(data: bytes, longest: int) -> tuple[bytes, int]:
    """Returns the lines without those that have more bytes, and how many these are."""
    kept = []
    begin = at = 0
    while len(data) - at > longest:
        if end := data.rfind(b"\n", at, at + longest + 1) + 1:
            at = end  # the lines up to here fit together
            continue
        kept.append(data[begin:at])
        begin = at = data.find(b"\n", at) + 1 or len(data)
    return (b"".join([*kept, data[begin:]]), len(kept)) if kept else (data, 0)
