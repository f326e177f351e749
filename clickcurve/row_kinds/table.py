"""All kinds of rows, and which of them a stored key names."""

from __future__ import annotations

from collections.abc import Iterable

from clickcurve.buckets.breakdowns.erased import ErasedWords, Instead
from clickcurve.keys import corrected_key, counts_key
from clickcurve.row_kinds.breakdown import BREAKDOWN, NAMED
from clickcurve.row_kinds.counts import CORRECTION, COUNTS
from clickcurve.row_kinds.kind import RowKind
from clickcurve.row_kinds.quarantine import QUARANTINE

# The first whose prefix a stored key has.
KINDS: tuple[RowKind, ...] = (NAMED, BREAKDOWN, CORRECTION, QUARANTINE, COUNTS)


def kind_of(stored: str) -> RowKind:
    """Returns the kind of the rows of a stored key."""
    if stored[:1] != "\0":
        return COUNTS  # of links, of which a flush asks hundreds of thousands
    for kind in KINDS:
        if stored.startswith(kind.prefix):
            break
    return kind


def apart(keys: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the stored keys of rows that stand for themselves, and of those that belong to a row of counts."""
    parted: tuple[list[str], list[str]] = [], []
    for key in keys:
        parted[kind_of(key).beside_counts].append(key)
    return parted


def corrected_by(keys: Iterable[str]) -> list[str]:
    """Returns the stored keys of the rows of counts that corrections among these are of."""
    return [corrected_key(key) for key in keys if kind_of(key) is CORRECTION]


def instead_in(stored: str, words: ErasedWords) -> Instead | None:
    """Returns what happens to erased values in a breakdown of this stored key; None: nothing."""
    return words.instead(corrected_key(stored), kind_of(stored).corrects)


def checked_against(stored: str) -> str | None:
    """Returns the stored key of the row of counts that bounds what a row may hold; None: nothing does."""
    kind = kind_of(stored)
    if kind.beside_counts:
        return counts_key(stored)
    return corrected_key(stored) if kind.corrects else None
