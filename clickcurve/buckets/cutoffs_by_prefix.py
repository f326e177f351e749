"""The cutoffs of one owner in several rankings: of all links, and of the links whose keys begin with some prefixes.

Each of these rankings has candidates and cutoffs of its own (`candidates`). A row must be a candidate in each ranking
whose cutoffs it passes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

from clickcurve.buckets.candidates import Cutoffs
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.row import Row
from clickcurve.buckets.upper_bounds import UpperBounds

ALL_KEYS = ""  # the prefix of every key
_ALL_KEYS_ALONE = (ALL_KEYS,)
_NONE = -1


class Prefixes:
    """Some prefixes, ALL_KEYS among them; finds those that a key begins with."""

    __slots__ = ("_next_shorter", "_sorted")

    def __init__(self, prefixes: Iterable[str] = ()) -> None:
        self._sorted = sorted({ALL_KEYS, *prefixes})
        self._next_shorter: list[int] = []  # for each, where the longest other one is that it begins with
        for at, prefix in enumerate(self._sorted):
            shorter = at - 1
            while shorter != _NONE and not prefix.startswith(self._sorted[shorter]):
                shorter = self._next_shorter[shorter]
            self._next_shorter.append(shorter)

    def of(self, key: str) -> tuple[str, ...]:
        """Returns the prefixes that a key begins with, the longest first, ALL_KEYS last."""
        if len(self._sorted) == 1:
            return _ALL_KEYS_ALONE
        at = bisect_right(self._sorted, key) - 1  # the key begins with this one, or with some of those that it has
        while not key.startswith(self._sorted[at]):
            at = self._next_shorter[at]
        found = []
        while at != _NONE:
            found.append(self._sorted[at])
            at = self._next_shorter[at]
        return tuple(found)


class CutoffsByPrefix:
    """The cutoffs of one owner by prefix. read: returns those of a prefix; called again when another key asks."""

    def __init__(self, prefixes: Prefixes, read: Callable[[str], Cutoffs]) -> None:
        self._prefixes = prefixes
        self._read = read
        self._last: tuple[tuple[str, ...], list[Cutoffs]] = (), []  # keys come in order: mostly of the same prefixes

    def bounds_if_candidate(self, key: str, row: Row, ladder: Ladder) -> UpperBounds | None:
        """Returns the upper bounds of a row if it must be a candidate of any ranking, else None."""
        prefixes = self._prefixes.of(key)
        if prefixes != self._last[0]:
            self._last = prefixes, [self._read(prefix) for prefix in prefixes]
        for cutoffs in self._last[1]:
            if (bounds := cutoffs.bounds_if_candidate(key, row, ladder)) is not None:
                return bounds
        return None


def open_cutoffs() -> CutoffsByPrefix:
    """Returns cutoffs that every row passes which counts anything."""
    return CutoffsByPrefix(Prefixes(), lambda prefix: Cutoffs())
