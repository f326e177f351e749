"""How a source is recognised: by its first bytes, and by the bytes before the offset of its import.

| kept | made of | for |
| --- | --- | --- |
| family, in the source's name | hash of the first 256 bytes; of 64 or 16 while it is shorter | finding it again |
| number, in the source's name | 0, 1, 2 ... | sources that begin alike |
| tail, with the offset | hash of the 256 bytes before the offset | telling these apart |
| prefixes, in the tail | hashes of the first 16, 64, 256 ... 1,048,576 bytes before it | the same, if it ends earlier |

A source stays in its family when it grows, is moved by a rotation, packed by gzip, or when only a part of it is there.
Most families have one member, but two servers' logs may begin with the same health check in the same second. The first
member's name is like `256-9f8e7d6c5b4a39281706f5e4d3c2b1a0-0`.

A hash of the first 256 bytes alone would not do: a log of three lines has less than that and must be known again when
it has grown, and of two logs that begin alike the second would pass for the first, and its first lines be lost.
"""

from __future__ import annotations

from enum import Enum
from hashlib import blake2b

FAMILY_BYTES = (256, 64, 16)
PREFIX_BYTES = tuple(4**exponent for exponent in range(2, 11))  # 16 bytes to 1 MiB
TAIL_BYTES = 256
_PREFIX_CHARS = 8


class Likeness(Enum):
    """What a source is to an offset that was kept under one of its names."""

    same = "same"
    shorter = "shorter"  # all that it has is alike, but the offset lies after its end
    other = "other"


class Beginning:
    """Hashes the first bytes of one source, fed in order. `label` makes another source of the same bytes."""

    def __init__(self, label: str = "") -> None:
        self._hash = blake2b(label.encode(), digest_size=16)
        self._fed = 0
        self._digests: list[str] = []  # of the first PREFIX_BYTES, as far as they are known

    def feed(self, at: int, data: bytes | memoryview) -> None:
        """Takes the bytes from byte `at` on, without those that it had before, or that come after a gap."""
        if at > self._fed:
            return
        data = memoryview(data)[max(0, self._fed - at) :]
        while data and len(self._digests) < len(PREFIX_BYTES):
            size = PREFIX_BYTES[len(self._digests)]
            part = data[: size - self._fed]
            self._hash.update(part)
            self._fed += len(part)
            data = data[len(part) :]
            if self._fed == size:
                self._digests.append(self._hash.copy().hexdigest())

    def families(self) -> list[str]:
        """Returns the families in which a source may be recognised, the closest first; none below 16 bytes."""
        digests = dict(zip(PREFIX_BYTES, self._digests, strict=False))
        return [f"{size}-{digests[size]}" for size in FAMILY_BYTES if size in digests]

    def tail(self, offset: int, last: bytes) -> str:
        """Returns what is kept with an offset: `last` are the bytes before it, TAIL_BYTES of them or all."""
        return f"{_hash_of(last)}.{self._prefix_hashes(offset)}"

    def likeness(self, offset: int, tail: str, last: bytes | None) -> Likeness:
        """Compares a kept offset. `last` are this source's bytes before it; None if it ends before."""
        kept, _, prefixes = tail.partition(".")
        mine = self._prefix_hashes(offset)
        common = min(len(mine), len(prefixes))
        if mine[:common] != prefixes[:common]:
            return Likeness.other
        if last is None:
            return Likeness.shorter
        return Likeness.same if _hash_of(last) == kept else Likeness.other

    def _prefix_hashes(self, offset: int) -> str:
        digests = zip(PREFIX_BYTES, self._digests, strict=False)
        return "".join(digest[:_PREFIX_CHARS] for size, digest in digests if size <= offset)


def _hash_of(last: bytes) -> str:
    return blake2b(last, digest_size=8).hexdigest()
