"""How a source is recognised: by its first bytes and lines, and by the bytes before the offset of its import.

| kept | made of | for |
| --- | --- | --- |
| family, in the source's name | hash of the first 256 bytes; of 64 or 16 while it is shorter | finding it again |
| level, in the name of one whose family is taken | hash of its first 1, 2, 3 ... lines | the same |
| tail, with the offset | hash of the 256 bytes before the offset | telling these apart |
| prefixes, in the tail | hashes of the first 16, 64, 256 ... 1,048,576 bytes before it | the same, if it ends earlier |
| lines, in the tail | hashes of the first 1, 2, 3 ... lines before it | the same, between two of these |

A source stays in its family when it grows, is moved by a rotation, packed by gzip, or when only a part of it is there.
Most families have one member, with a name like `256-9f8e7d6c5b4a39281706f5e4d3c2b1a0-0`. Where many begin alike, as all
logs do that begin with the names of their columns, each further one takes the first level that no other has:
`1L-...-0` if its first line is its own, `2L-...-0` if another source has the same first line, and so on. So a source is
found by as many questions as it has lines in common with another, however many begin like it. Lines that begin with #
are counted with the next one. Older versions numbered the members of a family; these names are still asked for.

A hash of the first 256 bytes alone would not do: a log of three lines has less than that and must be known again when
it has grown, and of two logs that begin alike the second would pass for the first, and its first lines be lost.

What is not told apart: of two sources that have their first 32 lines in common, and differ only in the last sixth of
the shorter one, the shorter one passes for a part of the other.
"""

from __future__ import annotations

from base64 import b64encode
from enum import Enum
from hashlib import blake2b
from math import ceil
from typing import NamedTuple

FAMILY_BYTES = (256, 64, 16)
PREFIX_BYTES = tuple(4**exponent for exponent in range(2, 11))  # 16 bytes to 1 MiB
TAIL_BYTES = 256
_PREFIX_CHARS = 8
_LINE_CHARS = 4
_COMMENT = ord("#")


def _levels() -> tuple[int, ...]:
    """Returns 1 to 32, and 28 numbers more, each a sixth greater than the one before."""
    levels = list(range(1, 33))
    while len(levels) < 60:
        levels.append(ceil(levels[-1] * 7 / 6))
    return tuple(levels)


LEVELS = _levels()


class Likeness(Enum):
    """What a source is to an offset that was kept under one of its names."""

    same = "same"
    shorter = "shorter"  # all that it has is alike, but the offset lies after its end
    other = "other"


class Tail(NamedTuple):
    """What is kept with an offset: hashes of the bytes before it, of prefixes, of lines; and the columns of a log."""

    last: str
    prefixes: str = ""
    lines: str = ""
    log: str = ""

    def text(self) -> str:
        """Returns it as it is kept: without its last parts if they are empty, as older versions wrote it."""
        return ".".join(self).rstrip(".") if self.prefixes else f"{self.last}."


def tail_of(text: str) -> Tail:
    """Returns what a kept text says; older versions kept the first two."""
    return Tail(*text.split(".", 3))


class Beginning:
    """Hashes the first bytes of one source, fed in order. `label` makes another source of the same bytes."""

    def __init__(self, label: str = "") -> None:
        self._hash = blake2b(label.encode(), digest_size=16)
        self._fed = 0
        self._digests: list[str] = []  # of the first PREFIX_BYTES, as far as they are known
        self._lines = 0  # that have ended, without comments
        self._is_comment: bool | None = None  # of the line that has not ended; None between lines
        self._line_digests: list[tuple[int, bytes]] = []  # where LEVELS lines end, and the digests up to there

    def feed(self, at: int, data: bytes | memoryview) -> None:
        """Takes the bytes from byte `at` on, without those that it had before, or that come after a gap."""
        if at > self._fed or self._fed == PREFIX_BYTES[-1]:
            return
        data = bytes(data[self._fed - at : PREFIX_BYTES[-1] - at])
        start = 0
        while start < len(data):
            end = min(self._line_end(data, start), start + PREFIX_BYTES[len(self._digests)] - self._fed)
            self._hash.update(data[start:end])
            self._fed += end - start
            if self._fed == PREFIX_BYTES[len(self._digests)]:
                self._digests.append(self._hash.copy().hexdigest())
            self._end_line(data[end - 1])
            start = end

    def _line_end(self, data: bytes, start: int) -> int:
        """Returns where the next line ends that is to be noted, or the data."""
        if len(self._line_digests) == len(LEVELS):
            return len(data)
        if self._is_comment is None:
            self._is_comment = data[start] == _COMMENT
        return data.find(b"\n", start) + 1 or len(data)

    def _end_line(self, last: int) -> None:
        if last != _NEWLINE or len(self._line_digests) == len(LEVELS):
            return
        self._lines += not self._is_comment
        if not self._is_comment and self._lines == LEVELS[len(self._line_digests)]:
            self._line_digests.append((self._fed, self._hash.copy().digest()))
        self._is_comment = None

    def families(self) -> list[str]:
        """Returns the families in which a source may be recognised, the closest first; none below 16 bytes."""
        digests = dict(zip(PREFIX_BYTES, self._digests, strict=False))
        return [f"{size}-{digests[size]}" for size in FAMILY_BYTES if size in digests]

    def levels(self) -> list[str]:
        """Returns the names that a source may have whose family is taken, the level of the fewest lines first."""
        levels = zip(LEVELS, self._line_digests, strict=False)
        return [f"{lines}L-{digest.hex()}-0" for lines, (_, digest) in levels]

    def tail(self, offset: int, last: bytes) -> Tail:
        """Returns what is kept with an offset: `last` are the bytes before it, TAIL_BYTES of them or all."""
        return Tail(_hash_of(last), self._prefix_hashes(offset), self._line_hashes(offset))

    def likeness(self, offset: int, tail: Tail, last: bytes | None) -> Likeness:
        """Compares a kept offset. `last` are this source's bytes before it; None if it ends before."""
        hashes = (self._prefix_hashes(offset), tail.prefixes), (self._line_hashes(offset), tail.lines)
        if any(not mine.startswith(kept) and not kept.startswith(mine) for mine, kept in hashes):
            return Likeness.other
        if last is None:
            return Likeness.shorter
        return Likeness.same if _hash_of(last) == tail.last else Likeness.other

    def _prefix_hashes(self, offset: int) -> str:
        digests = zip(PREFIX_BYTES, self._digests, strict=False)
        return "".join(digest[:_PREFIX_CHARS] for size, digest in digests if size <= offset)

    def _line_hashes(self, offset: int) -> str:
        ends = (digest for end, digest in self._line_digests if end <= offset)
        return "".join(b64encode(digest, b"-_")[:_LINE_CHARS].decode() for digest in ends)


_NEWLINE = ord("\n")


def _hash_of(last: bytes) -> str:
    return blake2b(last, digest_size=8).hexdigest()
