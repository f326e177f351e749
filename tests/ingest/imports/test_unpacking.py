"""Packed files are unpacked in bounded pieces, whatever their bytes say."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import ExtraMissing
from ingest.imports.unpacking import (
    BEGIN_BYTES,
    PIECE_BYTES,
    WINDOW_BYTES,
    DamagedFile,
    PackedBytes,
    UnpackedFile,
    packing_of,
)


def zstd(data: bytes) -> bytes:
    """Packs without the length of the contents, with their checksum, as a program does that writes a stream."""
    return zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(data)


def skippable(contents: bytes, number: int = 0) -> bytes:
    return (0x184D2A50 + number).to_bytes(4, "little") + len(contents).to_bytes(4, "little") + contents


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstd,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
codings = pytest.mark.parametrize("coding", PACK)


def pieces_of(data: bytes) -> list[bytes]:
    packing = packing_of(data[:BEGIN_BYTES])
    assert packing is not None
    return list(packing.pieces(PackedBytes(io.BytesIO(data))))


@codings
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.integers(0, 5000))
def test_members_follow_one_another_with_or_without_padding(coding: str, contents: list[bytes], zeros: int) -> None:
    packed = (b"\0" * zeros).join(PACK[coding](content) for content in contents) + b"\0" * zeros
    assert b"".join(pieces_of(packed)) == b"".join(contents)


@codings
@pytest.mark.parametrize("size", [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 20 * PIECE_BYTES])
def test_no_piece_is_larger_than_allowed_and_none_is_empty(coding: str, size: int) -> None:
    pieces = pieces_of(PACK[coding](b"a" * size))
    assert sum(map(len, pieces)) == size
    assert all(0 < len(piece) <= PIECE_BYTES for piece in pieces)


@codings
@given(st.binary(max_size=2000), st.data())
def test_what_ends_early_is_said_to(coding: str, content: bytes, data: st.DataObject) -> None:
    packed = PACK[coding](content)
    cut = data.draw(st.integers(BEGIN_BYTES, len(packed) - 1))
    with pytest.raises(DamagedFile, match=f"^the {coding} data ends early$"):
        pieces_of(packed[:cut])


@codings
@given(st.binary(min_size=1, max_size=500), st.data())
def test_changed_bytes_are_damage_or_the_contents_still(coding: str, content: bytes, data: st.DataObject) -> None:
    packed = bytearray(PACK[coding](content))
    packed[data.draw(st.integers(BEGIN_BYTES, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(DamagedFile):
        assert b"".join(pieces_of(bytes(packed))) == content  # a field that says nothing of the contents


@codings
def test_anything_else_behind_the_end_is_damage(coding: str) -> None:
    with pytest.raises(DamagedFile, match=f"^damaged {coding} data before byte "):
        pieces_of(PACK[coding](b"abc") + b"this is something else")


def test_frames_of_zstd_without_contents_are_passed_over() -> None:
    packed = skippable(b"x" * 200_000) + zstd(b"one") + skippable(b"", 15) + zstd(b"two") + skippable(b"z", 7)
    assert pieces_of(packed) == [b"one", b"two"]
    with pytest.raises(DamagedFile, match="ends early"):
        pieces_of(zstd(b"one") + skippable(b"12345")[:-1])


@pytest.mark.parametrize("text", [b"BZh9 is no bzip2", b"BZh", b"", b"\x1f", b"\xfd7zXZ", b"PK\x03\x04", b'{"a": 1}'])
def test_other_beginnings_are_no_packing(text: bytes) -> None:
    assert packing_of(text) is None


def test_what_needs_more_memory_than_the_largest_window_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=WINDOW_BYTES.bit_length())
    streamed = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(DamagedFile, match="Frame requires too much memory"):
        pieces_of(streamed.compress(b"abc") + streamed.flush())
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2 * WINDOW_BYTES}]
    with pytest.raises(DamagedFile, match="Memory usage limit exceeded"):
        pieces_of(lzma.compress(b"abc", filters=filters))


def test_a_packed_file_is_read_as_a_file() -> None:
    lines = b"".join(b"line %d\n" % n for n in range(100_000))
    packed = gzip.compress(lines)
    packing = packing_of(packed[:BEGIN_BYTES])
    assert packing is not None
    assert b"".join(io.BufferedReader(UnpackedFile(PackedBytes(io.BytesIO(packed)), packing))) == lines


def test_without_its_library_zstd_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ExtraMissing, match="zstd"):
        packing_of(zstd(b"abc")[:BEGIN_BYTES])
