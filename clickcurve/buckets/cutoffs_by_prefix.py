"""The cutoffs of one owner in several rankings: of all links, and of the links whose keys begin with some prefixes.

Each of these rankings has candidates and cutoffs of its own (`candidates`). A row must be a candidate in each ranking
whose cutoffs it passes.
"""

from __future__ import annotations

from collections.abc import Callable

from clickcurve.buckets.candidates import Cutoffs
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.prefixes import Prefixes
from clickcurve.buckets.row import Row
from clickcurve.buckets.upper_bounds import UpperBounds


class CutoffsByPrefix:
    """The cutoffs of one owner by prefix. read: returns those of a prefix; called again when another key asks."""

    def __init__(self, prefixes: Prefixes, read: Callable[[str], Cutoffs]) -> None:
        self._prefixes = prefixes
        self._read = read
        self._last: tuple[tuple[str, ...], list[Cutoffs]] = (), []  # keys come in order: mostly of the same prefixes

    def bounds_if_candidate(self, key: str, row: Row, ladder: Ladder) -> UpperBounds | None:
        """Returns the upper bounds of a row if it must be a candidate of any ranking, else None."""
        prefixes = self._prefixes.of(key)
        if prefixes is not self._last[0]:
            self._last = prefixes, [self._read(prefix) for prefix in prefixes]
        for cutoffs in self._last[1]:
            if (bounds := cutoffs.bounds_if_candidate(key, row, ladder)) is not None:
                return bounds
        return None


def open_cutoffs() -> CutoffsByPrefix:
    """Returns cutoffs that every row passes which counts anything."""
    return CutoffsByPrefix(Prefixes(), lambda prefix: Cutoffs())
