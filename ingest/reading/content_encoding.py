"""Content-Encoding: gzip and zstd, decoded in steps, with a bound that is enforced while decoding.

A body of some kilobytes can hold gigabytes. No step here makes more than a bounded number of bytes, and decoding
stops at the first byte over the limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator

from clickcurve.buckets.errors import BodyTooLarge, BodyUnreadable, ExtraMissing, MediaTypeUnsupported
from clickcurve.extras import extra_for

BODY_BYTES = 64 * 1024 * 1024

# Members of a gzip body or frames of a zstd body: each costs some microseconds however empty it is.
MEMBERS = 10_000

_GZIP_INPUT = 64 * 1024
_GZIP_OUTPUT = 256 * 1024
# zstd has no bound on the output of a step but the input: 3 bytes make at most 128 KiB.
_ZSTD_INPUT = 512
_ZSTD_WINDOW = 8 * 1024 * 1024  # the most that RFC 9659 allows in HTTP


def coding_of(header: str) -> str | None:
    """Returns `gzip`, `zstd` or None for a Content-Encoding header; raises MediaTypeUnsupported for anything else."""
    codings = [coding for part in header.lower().split(",") if (coding := part.strip()) not in ("", "identity")]
    if not codings:
        return None
    if codings == ["zstd"]:
        try:
            with extra_for("a body packed by zstd"):
                import zstandard  # noqa: F401
        except ExtraMissing as missing:
            raise MediaTypeUnsupported(missing.detail, field="Content-Encoding", value="zstd", rule="gzip") from missing
        return "zstd"
    if codings in (["gzip"], ["x-gzip"]):
        return "gzip"
    what = "is not one that is read here" if len(codings) == 1 else "is several on top of one another"
    rule = "gzip, zstd or identity, one of them"
    raise MediaTypeUnsupported(f"the body's encoding {what}", field="Content-Encoding", value=header, rule=rule)


def decoded(body: bytes, coding: str, limit: int) -> Iterator[bytes]:
    """Yields the decoded body in blocks; raises BodyTooLarge over the limit, BodyUnreadable for damage and early ends.

    Several members or frames follow one another as in files; anything else after the end is damage.
    """
    left = limit
    for block in _blocks(body, coding):
        left -= len(block)
        if left < 0:
            raise too_large(limit)
        yield block


def too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limit:,} bytes", rule=f"at most {limit:,} bytes, decoded")


def _blocks(body: bytes, coding: str) -> Iterator[bytes]:
    member = _gzip_member if coding == "gzip" else _zstd_frame
    start = 0
    for _ in range(MEMBERS):
        start = yield from member(body, start)
        if start == len(body):
            return
    raise BodyUnreadable(f"more than {MEMBERS:,} {coding} streams in one body", field="Content-Encoding", value=coding)


def _gzip_member(body: bytes, start: int) -> Generator[bytes, None, int]:
    """Yields the blocks of the member at `start`; returns where the next one begins."""
    decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    while start < len(body):
        piece = body[start : start + _GZIP_INPUT]
        start += len(piece)
        while piece and not decoder.eof:
            try:
                block = decoder.decompress(piece, _GZIP_OUTPUT)
            except zlib.error as error:
                raise _damaged("gzip", error) from None
            yield block
            piece = decoder.unconsumed_tail
        if decoder.eof:
            return start - len(decoder.unused_data)
    raise _cut_short("gzip")


def _zstd_frame(body: bytes, start: int) -> Generator[bytes, None, int]:
    """Yields the blocks of the frame at `start`; returns where the next one begins."""
    import zstandard  # an extra: `coding_of` has said so where it is missing

    decoder = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
    while start < len(body):
        piece = body[start : start + _ZSTD_INPUT]
        start += len(piece)
        try:
            block = decoder.decompress(piece)
        except zstandard.ZstdError as error:
            raise _damaged("zstd", error) from None
        yield block
        if decoder.eof:
            return start - len(decoder.unused_data)
    raise _cut_short("zstd")


def _damaged(coding: str, error: Exception) -> BodyUnreadable:
    return BodyUnreadable(f"the body is not {coding}: {error}", field="Content-Encoding", value=coding)


def _cut_short(coding: str) -> BodyUnreadable:
    return BodyUnreadable(f"the {coding} body is cut short", field="Content-Encoding", value=coding)
