"""By what a source is known again: its first bytes, and the bytes before the offset that an import has reached.

A family is all sources that have their first 256 decompressed bytes in common (64 or 16 bytes while they are shorter),
so a source is of the same family when it grows, is moved by a rotation, packed by gzip, or only a part of it is there.
In a family sources are numbered: most have one member, but two servers' logs may begin with the same health check in
the same second. `256-9f8e7d6c5b4a39281706f5e4d3c2b1a0-0` is the name of a family's first member.

Which member a source is, the offsets tell. Each has a tail: a hash of the 256 bytes before it, and a mark, a hash of
all bytes up to there, for each rung of 16, 64, ... 1,048,576 bytes before it. A source whose bytes do not give the same
tail is another member, or a new one.
"""

from __future__ import annotations

from enum import Enum
from hashlib import blake2b

FAMILY_BYTES = (256, 64, 16)
RUNGS = tuple(4**exponent for exponent in range(2, 11))  # 16 bytes to 1 MiB
TAIL_BYTES = 256
_MARK_CHARS = 8


class Likeness(Enum):
    """What a source is to an offset that was kept under one of its names."""

    same = "same"
    shorter = "shorter"  # all that it has is alike, but the offset lies behind its end
    other = "other"


class Beginning:
    """Hashes the first bytes of one source, fed in order. `label` makes another source of the same bytes."""

    def __init__(self, label: str = "") -> None:
        self._hash = blake2b(label.encode(), digest_size=16)
        self._fed = 0
        self._digests: list[str] = []

    def feed(self, at: int, data: bytes | memoryview) -> None:
        """`data` stands at byte `at`; what was fed before is passed over, and so is what lies behind a gap."""
        if at > self._fed:
            return
        data = memoryview(data)[max(0, self._fed - at) :]
        while data and len(self._digests) < len(RUNGS):
            part = data[: RUNGS[len(self._digests)] - self._fed]
            self._hash.update(part)
            self._fed += len(part)
            data = data[len(part) :]
            if self._fed == RUNGS[len(self._digests)]:
                self._digests.append(self._hash.copy().hexdigest())

    def families(self) -> list[str]:
        """The families that the source may be known in, the closest first; none if it has fewer than 16 bytes."""
        digests = dict(zip(RUNGS, self._digests, strict=False))
        return [f"{size}-{digests[size]}" for size in FAMILY_BYTES if size in digests]

    def tail(self, offset: int, last: bytes) -> str:
        """What is kept with an offset: `last` are the bytes before it, TAIL_BYTES of them or all."""
        return f"{_hash_of(last)}.{self._marks(offset)}"

    def likeness(self, offset: int, tail: str, last: bytes | None) -> Likeness:
        """Compare a kept offset. `last` are this source's bytes before it; None if it ends before."""
        kept, _, marks = tail.partition(".")
        mine = self._marks(offset)
        common = min(len(mine), len(marks))
        if mine[:common] != marks[:common]:
            return Likeness.other
        if last is None:
            return Likeness.shorter
        return Likeness.same if _hash_of(last) == kept else Likeness.other

    def _marks(self, offset: int) -> str:
        return "".join(
            digest[:_MARK_CHARS] for rung, digest in zip(RUNGS, self._digests, strict=False) if rung <= offset
        )


def _hash_of(last: bytes) -> str:
    return blake2b(last, digest_size=8).hexdigest()
