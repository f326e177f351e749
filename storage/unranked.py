"""A store that keeps no leaders: its links are ranked by a walk.

On a cluster they would be rows that every flush of each owner reads and writes once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from clickcurve.buckets.leaders import Bars
from clickcurve.buckets.weight import Weight
from storage.contract import Ranking


class UnrankedStore:
    def ranked(self, ranking: Ranking) -> AbstractContextManager[None]:
        """Shows nothing: only a walk can tell."""
        return nullcontext()

    def bars(self, owner: int) -> None:
        """Returns None: there are none."""

    def rank_anew(self) -> None:
        """Returns at once: there is nothing to do."""

    def rank_some(self, weight: Callable[[bytes], Weight]) -> bool:
        """Returns at once: there is nothing to do."""
        return False


class UnrankedView:
    def weights(self, keys: Sequence[str]) -> None:
        """Returns None: there are none."""

    def bars(self, owner: int) -> Bars:
        """Returns bars that nothing was held against."""
        return Bars()
