"""What both parts of a breakdown are written with: deflated bodies, names of dimensions, texts and codes of values."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

from clickcurve.buckets.breakdowns.vocabulary import VOCABULARIES, VOCABULARY
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.integers import put_varint, varints
from clickcurve.buckets.ladder import MAX_TIERS

MAX_PLAIN = (
    1 << 22
)  # bytes of a body that are deflated: what is larger stays as it is, and bad bytes inflate no further

_DEFLATE_ABOVE = 120
_SMALL = 4_096
_BAD_BYTES = (IndexError, KeyError, ValueError, struct.error, zlib.error, OverflowError)

P = ParamSpec("P")
R = TypeVar("R")


def or_corrupt(read: Callable[P, R]) -> Callable[P, R]:
    """Returns the function so that it raises RowCorrupt for bytes that it cannot read, and for nothing else."""

    @wraps(read)
    def reads(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return read(*args, **kwargs)
        except _BAD_BYTES as error:
            raise RowCorrupt(f"not a breakdown: {error}") from error

    return reads


def require_version(first_byte: int) -> None:
    """Raises ValueError unless a part's first byte is that of a known version and a possible ladder."""
    if first_byte & 15 not in VOCABULARIES or not 2 <= first_byte >> 4 <= MAX_TIERS:
        raise ValueError(f"version {first_byte & 15} of {first_byte >> 4} tiers is not known")


def deflate(body: bytes, level: int) -> tuple[bool, bytes]:
    """Returns the body deflated if that makes it a tenth shorter, and whether it is.

    A body of a few hundred bytes with the window and memory of the default takes 40 us, nearly all of it to set up the
    tables; with small ones 2.5 us and the same bytes.
    """
    if not _DEFLATE_ABOVE < len(body) <= MAX_PLAIN:
        return False, body
    window, memory = (-12, 5) if len(body) <= _SMALL else (-15, 8)
    deflater = zlib.compressobj(level, zlib.DEFLATED, window, memory)
    packed = deflater.compress(body) + deflater.flush()
    return (True, packed) if len(packed) <= len(body) * 0.9 else (False, body)


def inflate(packed: bytes) -> bytes:
    """Returns the body; raises ValueError if it is not whole, or larger than MAX_PLAIN."""
    inflater = zlib.decompressobj(-15)
    body = inflater.decompress(packed, MAX_PLAIN)
    if not inflater.eof or inflater.unused_data:
        raise ValueError(f"{len(packed)} bytes are not one deflated body of {MAX_PLAIN} bytes or less")
    return body


@lru_cache(maxsize=256)
def dimension_bytes(name: str) -> bytes:
    """Writes a dimension's name: the code of a known one, else 0, the length, and the text."""
    code = VOCABULARIES[VOCABULARY].dimension_codes.get(name)
    if code is not None:
        return bytes((code,))
    text = name.encode()
    if not 0 < len(text) < 256:
        raise ValueError(f"a dimension's name of {len(text)} bytes, not 1 to 255")
    return bytes((0, len(text))) + text


def read_dimension(data: bytes, at: int, version: int) -> tuple[str, int]:
    """Reads a dimension's name, and where it ends."""
    code = data[at]
    if code:
        return VOCABULARIES[version].dimensions[code - 1], at + 1
    end = at + 2 + data[at + 1]
    if not at + 2 < end <= len(data):
        raise ValueError("a dimension without a name")
    return data[at + 2 : end].decode(), end


def value_codes(name: str, values: list[str]) -> list[int] | None:
    """Returns the codes of a dimension's values; None if one of them, or the dimension, has none."""
    codes = VOCABULARIES[VOCABULARY].value_codes.get(name)
    if codes is None:
        return None
    try:
        return [codes[value] for value in values]
    except KeyError:
        return None


def put_texts(out: bytearray, values: list[str]) -> None:
    """Writes the length of the joined texts, then the texts with zero bytes between them; nothing if there are none."""
    if not values:
        return
    joined = "\0".join(values)
    if joined.count("\0") >= len(values):
        raise ValueError("a value with a zero byte in it")
    text = joined.encode()
    if len(text) < 128:
        out.append(len(text))
    else:
        put_varint(out, len(text))
    out += text


def read_texts(data: bytes, at: int, n: int) -> tuple[list[str], int]:
    """Reads n texts, and where they end."""
    if not n:
        return [], at
    size = data[at]
    at += 1
    if size > 127:
        (size,), at = varints(data, at - 1, 1)
    end = at + size
    if end > len(data):
        raise ValueError(f"texts of {size} bytes, {len(data) - at} are there")
    texts = data[at:end].decode().split("\0")
    if len(texts) != n:
        raise ValueError(f"{len(texts)} texts, not {n}")
    return texts, end
