"""For how long a dimension keeps its values, and from which moment on they are kept on a fold day.

That moment only moves on. It is an edge of the tier that holds values of this age, or of a coarser one: so no bucket,
now or after any later fold, has values from before it beside values from after it.
"""

from __future__ import annotations

from typing import NamedTuple

from clickcurve.buckets.ladder import DAY_S, Ladder


class KeptTime(NamedTuple):
    """How many days a dimension keeps its values; the fold day is the first of them."""

    dimension: str
    days: int

    def __str__(self) -> str:
        return f"{self.dimension}={self.days}d"

    def kept_since(self, fold_day: int, ladder: Ladder) -> int:
        """Returns the first moment whose values are kept on a fold day."""
        return ladder.tier_of_age(self.days).start(max(0, fold_day + 1 - self.days) * DAY_S)

    def expires_at(self, t: int, ladder: Ladder) -> int:
        """Returns the first fold day on which the values of a moment are not kept."""
        end = ladder.tier_of_age(self.days).bucket(t)[1]
        return -(-end // DAY_S) - 1 + self.days
