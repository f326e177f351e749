"""Unpacking files in bounded pieces: gzip, zstd, bzip2 and xz, also of several members or frames.

A packed file of some kilobytes can hold gigabytes. No step here makes more than PIECE_BYTES of it, so what unpacking
holds is a piece and the window of the coding: at most WINDOW_BYTES, which is what `zstd --long` and `xz -9` need.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from clickcurve.extras import extra_for

PIECE_BYTES = 256 << 10
WINDOW_BYTES = 128 << 20
BEGIN_BYTES = 10  # of a file, which tell how it is packed
_PACKED_BYTES = 64 << 10  # that are read at once
_PADDING_BYTES = 4 << 10

_SKIPPABLE_MAGIC = 0x184D2A50  # and 15 more: a zstd frame without contents (RFC 8878, section 3.1.2)
_FRAME_HEADER_BYTES = 18
_BLOCK_HEADER_BYTES = 3
_RLE_BLOCK = 1


class DamagedFile(Exception):
    """A sentence: the packed bytes are damaged, or end early."""


class PackedBytes:
    """The bytes of a packed file, in order. `at`: how many of them were read so far."""

    def __init__(self, raw: io.BufferedIOBase) -> None:
        self.at = 0
        self._raw = raw
        self._left = b""  # given back

    def take(self, size: int) -> bytes:
        """Returns the next bytes: fewer than `size` only at the end."""
        taken, self._left = self._left[:size], self._left[size:]
        if len(taken) < size:
            read = self._raw.read(size - len(taken))
            self.at += len(read)
            taken += read
        return taken

    def give_back(self, data: bytes) -> None:
        self._left = data + self._left

    def skip_padding(self) -> bool:
        """Goes over zeros, which some programs write after a member; returns whether anything is left."""
        while data := self.take(_PADDING_BYTES):
            if rest := data.lstrip(b"\0"):
                self.give_back(rest)
                return True
        return False


@dataclass(frozen=True, slots=True)
class Packing:
    """How files of a coding are unpacked.

    member: yields the pieces of one member, and leaves what is after it. damaged: what it raises for other bytes.
    """

    coding: str
    member: Callable[[PackedBytes], Iterator[bytes]]
    damaged: type[Exception]

    def pieces(self, packed: PackedBytes) -> Iterator[bytes]:
        """Yields what a file holds, at most PIECE_BYTES at a time, none of them empty; raises DamagedFile.

        Members follow one another, perhaps with zeros between; anything else after the last one is damage.
        """
        try:
            while packed.skip_padding():
                yield from self.member(packed)
        except self.damaged as error:
            raise DamagedFile(f"damaged {self.coding} data before byte {packed.at} of the file: {error}") from error
        except EOFError:
            raise DamagedFile(f"the {self.coding} data ends early") from None


def packing_of(begin: bytes) -> Packing | None:
    """Tells by the first bytes of a file how it is packed; None: not at all, or in another way.

    Raises ExtraMissing for a packing whose library is not installed.
    """
    return next((packing() for magic, packing in _PACKINGS.items() if magic.match(begin)), None)


class UnpackedFile(io.RawIOBase):
    """What a packed file holds, as a file that is read forward; reading raises DamagedFile."""

    def __init__(self, packed: PackedBytes, packing: Packing) -> None:
        super().__init__()
        self._pieces = packing.pieces(packed)
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]  # typeshed: any Buffer
        if not self._piece:
            self._piece = memoryview(next(self._pieces, b""))
        size = min(len(buffer), len(self._piece))
        buffer[:size] = self._piece[:size]
        self._piece = self._piece[size:]
        return size


# --- gzip, bzip2, xz ----------------------------------------------------------------------------------------------
class _Unpacker(Protocol):
    """What bz2 and lzma call a decompressor: of one member."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /, max_length: int = -1) -> bytes: ...


class _GzipUnpacker:
    """zlib's, with the attributes of the others."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)
        self._is_full = False  # there may be more, which takes no more of the file

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not (self._is_full or self._zlib.unconsumed_tail)

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, /, max_length: int = -1) -> bytes:
        piece = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self._is_full = len(piece) == max_length
        return piece


def _member_of(new: Callable[[], _Unpacker]) -> Callable[[PackedBytes], Iterator[bytes]]:
    def member(packed: PackedBytes) -> Iterator[bytes]:
        unpacker = new()
        while not unpacker.eof:
            data = packed.take(_PACKED_BYTES) if unpacker.needs_input else b""
            if unpacker.needs_input and not data:
                raise EOFError
            if piece := unpacker.decompress(data, max_length=PIECE_BYTES):
                yield piece
        packed.give_back(unpacker.unused_data)

    return member


def _gzip() -> Packing:
    return Packing("gzip", _member_of(_GzipUnpacker), zlib.error)


def _bzip2() -> Packing:
    return Packing("bzip2", _member_of(bz2.BZ2Decompressor), OSError)


def _xz() -> Packing:
    unpacker = _member_of(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, WINDOW_BYTES))
    return Packing("xz", unpacker, lzma.LZMAError)


# --- zstd ---------------------------------------------------------------------------------------------------------
def _zstd() -> Packing:
    with extra_for("a file packed by zstd"):
        import zstandard

    # Its decompressor has no bound on what it makes of some bytes, but a block of a frame makes at most 128 KiB: so it
    # is given one block at a time (RFC 8878, section 3.1.1).
    def frame(packed: PackedBytes) -> Iterator[bytes]:
        begin = packed.take(_FRAME_HEADER_BYTES)
        if int.from_bytes(begin[:4], "little") & ~15 == _SKIPPABLE_MAGIC:
            packed.give_back(begin[8:])
            _pass(packed, int.from_bytes(_whole(begin[:8], 8)[4:], "little"))
            return
        header_bytes = zstandard.frame_header_size(_whole(begin, 5))
        packed.give_back(begin[header_bytes:])
        header = _whole(begin[:header_bytes], header_bytes)
        unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES).decompressobj()
        unpacker.decompress(header)
        is_last = False
        while not is_last:
            block = int.from_bytes(_whole(packed.take(_BLOCK_HEADER_BYTES), _BLOCK_HEADER_BYTES), "little")
            is_last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
            size = 1 if kind == _RLE_BLOCK else size
            data = _whole(packed.take(size), size)
            if piece := unpacker.decompress(block.to_bytes(_BLOCK_HEADER_BYTES, "little") + data):
                yield piece
        if zstandard.get_frame_parameters(header).has_checksum:
            unpacker.decompress(_whole(packed.take(4), 4))

    return Packing("zstd", frame, zstandard.ZstdError)


def _whole(data: bytes, size: int) -> bytes:
    if len(data) < size:
        raise EOFError
    return data


def _pass(packed: PackedBytes, size: int) -> None:
    while size > 0:
        size -= len(_whole(packed.take(min(size, _PACKED_BYTES)), 1))


# The first bytes of a packed file: of bzip2 those of its first block too, since a text may begin with "BZh".
_PACKINGS: Mapping[re.Pattern[bytes], Callable[[], Packing]] = {
    re.compile(rb"\x1f\x8b"): _gzip,
    re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"): _zstd,
    re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"): _bzip2,
    re.compile(rb"\xfd7zXZ\0"): _xz,
}
