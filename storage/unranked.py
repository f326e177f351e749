"""A store that keeps no weights: its links are ranked by a walk.

On a cluster a weight would be one more cell of each row, and no node could sum up those of all owners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from clickcurve.buckets.weight import Weight
from storage.contract import Ranking


class UnrankedStore:
    def ranked(self, ranking: Ranking) -> AbstractContextManager[None]:
        """Shows nothing: only a walk can tell."""
        return nullcontext()

    def rank_some(self, weight: Callable[[bytes], Weight]) -> bool:
        """Returns at once: there is nothing to do."""
        return False


class UnrankedView:
    def weights(self, keys: Sequence[str]) -> None:
        """Returns None: there are none."""
