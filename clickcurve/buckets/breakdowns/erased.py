"""Erasing a value: it must be forgotten, so its hits become `other`, in every bucket of a breakdown.

The slack grows by as many as `other`: the erased value, asked for, has between none of them and all. So no law of a
breakdown has an exception. In corrections (`disavow`) the value gets another name instead: what is called of it comes
off `other` from then on, and can be called back by that name.

The laws, each with a property test against raw hits (`tests/buckets/breakdowns/test_erased.py`):

1. The hits recorded in each bucket and dimension stay as they were; so does what a correction calls.
2. The value is in no bucket, and the bounds of every other value are true. `""` cannot be erased.
3. Erasing twice is erasing once. Before a fold it gives what it gives after, where nothing is trimmed.

A value is known by its digest alone (`digest_of`): to note it would keep it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from clickcurve.buckets.breakdowns.breakdown import (
    CUT_OFF,
    CUT_SLACK,
    NOT_GIVEN,
    BoundedLadder,
    Breakdown,
    BreakdownDelta,
    Tiers,
    ValueCounts,
)
from clickcurve.buckets.breakdowns.check import BACK
from clickcurve.buckets.breakdowns.parts import Parts, decode_parts, encode_parts
from clickcurve.buckets.measures import clicks_row

ERASED = "erased:"  # before the id of an erasure: the name of its value in corrections and rules
_VALUES_MOST = 100_000  # values whose digests are remembered: some 20 MB

# Given a dimension and a value: None, it stays; CUT_OFF, its hits become `other`; else its new name.
Instead: TypeAlias = Callable[[str, str], str | None]


class ErasedWord(NamedTuple):
    """A value of a dimension that must be forgotten. row: the stored key of the one row of counts; None: all rows."""

    id: str
    dimension: str
    digest: str
    row: str | None


def digest_of(secret: bytes, dimension: str, value: str) -> str:
    """Returns what stands for a value of a dimension in notes, by a secret of the store."""
    return hmac.digest(secret, f"{dimension}\0{value}".encode("utf-8", "surrogatepass"), "sha256").hex()


class ErasedWords:
    """The values to be forgotten now; none is false."""

    def __init__(self, secret: bytes = b"", words: Iterable[ErasedWord] = ()) -> None:
        self.words = tuple(words)
        self._secret = secret
        self._dimensions = frozenset(word.dimension for word in self.words)
        self._found: dict[tuple[str, str], tuple[ErasedWord, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self.words)

    def instead(self, row: str, is_correction: bool) -> Instead | None:
        """Returns what happens to values of the breakdown of a row of counts (a stored key); None: nothing.

        is_correction: the breakdown of what was called bots of that row. A word of one row is meant in those of events
        beside it, too.
        """
        row = clicks_row(row)
        if all(word.row not in (None, row) for word in self.words):
            return None

        def of_value(dimension: str, value: str) -> str | None:
            found = self._words_of(dimension.removeprefix(BACK) if is_correction else dimension, value)
            for word in found:
                if word.row is None or word.row == row:
                    return ERASED + word.id if is_correction else CUT_OFF
            return None

        return of_value

    def is_erased(self, row: str, dimension: str, value: str) -> bool:
        """Tells whether a value must be forgotten in the breakdown of a row of counts (a stored key)."""
        instead = self.instead(row, is_correction=False)
        return instead is not None and instead(dimension, value) is not None

    def is_named(self, dimension: str, value: str) -> bool:
        """Tells whether a value must be forgotten in some row or in all."""
        return bool(self._words_of(dimension, value))

    def _words_of(self, dimension: str, value: str) -> tuple[ErasedWord, ...]:
        if dimension not in self._dimensions or value == NOT_GIVEN:
            return ()
        found = self._found.get((dimension, value))
        if found is None:
            if len(self._found) >= _VALUES_MOST:
                self._found.clear()
            digest = digest_of(self._secret, dimension, value)
            found = tuple(word for word in self.words if word.dimension == dimension and word.digest == digest)
            self._found[dimension, value] = found
        return found


NO_WORDS = ErasedWords()


class Erased(NamedTuple):
    """A breakdown after an erasure, as a store keeps it. hits: how many had an erased value, of all dimensions."""

    parts: Parts
    hits: int


def erase_in_parts(parts: Parts, instead: Instead, bounded: BoundedLadder) -> Erased:
    """Erases values in a stored breakdown; the very same parts if none is there. Raises RowCorrupt."""
    row = decode_parts(parts)
    erased = erase_words(row, instead)
    if erased is row:
        return Erased(parts, 0)
    return Erased(encode_parts(erased, bounded), sum(_hits_of(*each, instead) for each in row.dimensions.items()))


def _hits_of(dimension: str, tiers: Tiers, instead: Instead) -> int:
    buckets = (counts.values.items() for tier in tiers for _, counts in tier.items())
    return sum(count for values in buckets for value, count in values if instead(dimension, value) is not None)


def erase_words(row: Breakdown, instead: Instead) -> Breakdown:
    """Returns the breakdown without the values that `instead` erases; the very same one if it has none of them."""
    dimensions = {name: _tiers_without(name, tiers, instead) for name, tiers in row.dimensions.items()}
    if all(dimensions[name] is tiers for name, tiers in row.dimensions.items()):
        return row
    return row._replace(dimensions=dimensions)


def _tiers_without(dimension: str, tiers: Tiers, instead: Instead) -> Tiers:
    known: dict[str, str | None] = {}
    found = False
    new: list[Mapping[int, ValueCounts]] = []
    for tier in tiers:
        buckets: dict[int, ValueCounts] = {}
        for start, counts in tier.items():
            for value in counts.values:
                if value not in known:
                    known[value] = instead(dimension, value)
            gone = {value: name for value in counts.values if (name := known[value]) is not None}
            buckets[start] = _bucket_without(counts, gone) if gone else counts
            found = found or bool(gone)
        new.append(buckets)
    return tuple(new) if found else tiers


def _bucket_without(counts: ValueCounts, gone: Mapping[str, str]) -> ValueCounts:
    values, other, slack = dict(counts.values), counts.other, counts.slack
    for value, name in gone.items():
        count = values.pop(value)
        if name == CUT_OFF:
            other, slack = other + count, slack + count
        else:
            values[name] = values.get(name, 0) + count
    return ValueCounts(values, other, slack)


def erase_in_delta(delta: BreakdownDelta, instead: Instead) -> BreakdownDelta:
    """Returns the delta so that it lands without the values that `instead` erases."""
    values = {
        dimension: {hour: _counts_without(dimension, counts, instead) for hour, counts in hours.items()}
        for dimension, hours in delta.values.items()
    }
    return BreakdownDelta(values, delta.visitors, delta.known)


def _counts_without(dimension: str, counts: Mapping[str, int], instead: Instead) -> Mapping[str, int]:
    gone = {
        value: name
        for value in counts
        if value not in (CUT_OFF, CUT_SLACK) and (name := instead(dimension, value)) is not None
    }
    if not gone:
        return counts
    left = {value: count for value, count in counts.items() if value not in gone}
    for value, name in gone.items():
        left[name] = left.get(name, 0) + counts[value]
        if name == CUT_OFF:
            left[CUT_SLACK] = left.get(CUT_SLACK, 0) + counts[value]
    return left
