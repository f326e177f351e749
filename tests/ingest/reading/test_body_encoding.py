"""gzip and zstd: whatever a client sends is decoded, refused as unreadable, or stopped at the limit."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import BodyTooLarge, BodyUnreadable, MediaTypeUnsupported
from ingest.reading.body_budget import MEMBERS, coding_of, decoded
from tests.ingest.http_kit import law

TEXT = b'{"key":"abc","ts":1767225600},' * 5000
SKIPPABLE = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"


def zstd(data: bytes, level: int = 3) -> bytes:
    return zstandard.ZstdCompressor(level=level).compress(data)


PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd}
codings = pytest.mark.parametrize("coding", ["gzip", "zstd"])


def unpacked(body: bytes, coding: str, limit: int = 1 << 22) -> bytes:
    return b"".join(decoded(body, coding, limit))


@codings
@law
@given(data=st.binary(max_size=5000))
def test_what_was_packed_is_unpacked(coding: str, data: bytes) -> None:
    assert unpacked(PACK[coding](data), coding) == data


@codings
def test_members_follow_one_another(coding: str) -> None:
    pack = PACK[coding]
    assert unpacked(pack(TEXT) + pack(b"") + pack(b"end"), coding) == TEXT + b"end"


def test_zstd_in_other_shapes() -> None:
    streamed = zstandard.ZstdCompressor(level=19, write_checksum=True).compressobj()
    body = streamed.compress(TEXT) + streamed.flush()
    assert unpacked(SKIPPABLE + body + SKIPPABLE, "zstd") == TEXT


@codings
@pytest.mark.parametrize("garbage", [b"x", b"\0", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"garbage" * 100])
def test_garbage_behind_the_end_is_refused(coding: str, garbage: bytes) -> None:
    with pytest.raises(BodyUnreadable):
        unpacked(PACK[coding](TEXT) + garbage, coding)


@codings
def test_a_body_that_is_cut_short_is_refused_at_every_length(coding: str) -> None:
    body = PACK[coding](TEXT)
    for length in range(0, len(body), max(1, len(body) // 300)):
        with pytest.raises(BodyUnreadable):
            unpacked(body[:length], coding)


@codings
def test_damage_is_found_or_harmless(coding: str) -> None:
    rng = random.Random(5)
    body = (
        gzip.compress(TEXT, mtime=0)
        if coding == "gzip"
        else zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
    )
    for _ in range(300):
        damaged = bytearray(body)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        with suppress(BodyUnreadable, BodyTooLarge):
            assert unpacked(bytes(damaged), coding) == TEXT


@codings
def test_the_limit_is_exact(coding: str) -> None:
    body = PACK[coding](TEXT)
    assert unpacked(body, coding, len(TEXT)) == TEXT
    with pytest.raises(BodyTooLarge) as caught:
        unpacked(body, coding, len(TEXT) - 1)
    assert caught.value.status == 413


@codings
def test_a_bomb_is_not_inflated(coding: str) -> None:
    packer = zlib.compressobj(9, wbits=31) if coding == "gzip" else zstandard.ZstdCompressor().compressobj()
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(256)) + packer.flush()
    assert len(bomb) < 300_000
    tracemalloc.start()
    with pytest.raises(BodyTooLarge):
        for _ in decoded(bomb, coding, 1 << 20):
            pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 << 20


@codings
def test_a_bomb_of_empty_members_is_refused(coding: str) -> None:
    with pytest.raises(BodyUnreadable):
        unpacked(PACK[coding](b"") * (MEMBERS + 1), coding)


@codings
def test_no_block_is_large(coding: str) -> None:
    assert max(len(block) for block in decoded(PACK[coding](TEXT * 20), coding, 1 << 22)) <= 4 << 20


def test_a_zstd_window_over_8_mib_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=24)
    streamed = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(BodyUnreadable):
        unpacked(streamed.compress(TEXT) + streamed.flush(), "zstd")


@pytest.mark.parametrize(
    ("header", "coding"),
    [
        ("", None),
        ("identity", None),
        (" Identity , ", None),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        ("zstd", "zstd"),
        ("identity, gzip", "gzip"),
    ],
)
def test_codings_that_are_read(header: str, coding: str | None) -> None:
    assert coding_of(header) == coding


@pytest.mark.parametrize(
    "header", ["br", "deflate", "compress", "gzip, zstd", "gzip,gzip", "gzip;q=1", "*", "x-zstd", "\xff"]
)
def test_other_codings_are_not_supported(header: str) -> None:
    with pytest.raises(MediaTypeUnsupported) as caught:
        coding_of(header)
    assert caught.value.field == "Content-Encoding"
    assert caught.value.status == 415
