"""A store that keeps no candidates: its links are ranked by a walk.

On a cluster they would be rows that every flush of each owner reads and writes once more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext

from clickcurve.buckets.candidates import Cutoffs
from clickcurve.buckets.upper_bounds import UpperBounds
from storage.contract import Ranking


class UnrankedStore:
    def ranked(self, ranking: Ranking) -> AbstractContextManager[None]:
        """Shows nothing: only a walk can tell."""
        return nullcontext()

    def cutoffs(self, owner: int) -> None:
        """Returns None: there are none."""

    def rank_prefixes(self, prefixes: Collection[str]) -> None:
        """Returns at once: there is nothing to do."""

    def rank_anew(self) -> None:
        """Returns at once: there is nothing to do."""

    def rank_some(self, bounds_of: Callable[[bytes], UpperBounds]) -> bool:
        """Returns at once: there is nothing to do."""
        return False


class UnrankedView:
    def ranked_prefixes(self) -> list[str]:
        """Returns none: no candidates are kept."""
        return []

    def upper_bounds(self, keys: Sequence[str], prefix: str) -> dict[tuple[str, int], UpperBounds]:
        """Returns none: no prefix is ranked."""
        return {}

    def ranked_cutoffs(self, owner: int, prefix: str) -> Cutoffs:
        """Returns open cutoffs: none was ever compared."""
        return Cutoffs()
