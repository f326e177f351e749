"""The buckets of one dimension in one tier, as columns: how a closed part has them.

Most answers need sums over buckets, which columns give without making a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, compress
from typing import final

from clickcurve.buckets.breakdowns.breakdown import ValueCounts


@final
class ColumnTier(Mapping[int, ValueCounts]):
    """Buckets of a tier by their starts, each made when it is asked for.

    places  start -> where the bucket's columns begin and end. rest: start -> other and slack, where there are some.
    gaps  of each bucket's values, which ascend: the place of the first in the table, then the gaps. counts: of each.
    """

    __slots__ = ("_counts", "_gaps", "_places", "_rest", "_table")

    def __init__(
        self,
        table: Sequence[str],
        places: Mapping[int, tuple[int, int]],
        gaps: Sequence[int],
        counts: Sequence[int],
        rest: Mapping[int, tuple[int, int]],
    ) -> None:
        """Raises ValueError unless each bucket has values of the table, none twice, with counts of 1 or more."""
        filled = [(since, until) for since, until in places.values() if since < until]
        if 0 in counts:
            raise ValueError("a count of 0")
        if gaps.count(0) != [gaps[since] for since, _ in filled].count(0):
            raise ValueError("a value twice in a bucket")
        if any(sum(gaps[since:until]) >= len(table) for since, until in filled):
            raise ValueError(f"a value that is none of the {len(table)} in the table")
        self._table = table
        self._places = places
        self._gaps = gaps
        self._counts = counts
        self._rest = rest

    def __getitem__(self, start: int) -> ValueCounts:
        since, until = self._places[start]
        values = map(self._table.__getitem__, accumulate(self._gaps[since:until]))
        counted = dict(zip(values, self._counts[since:until], strict=True))
        return ValueCounts(counted, *self._rest.get(start, ()))

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def recorded(self, start: int) -> int:
        """Returns the hits in the bucket that begins at `start`."""
        since, until = self._places[start]
        return sum(self._counts[since:until]) + (self._rest[start][0] if start in self._rest else 0)

    @staticmethod
    def sum_between(tiers: Sequence[ColumnTier], first: int, last: int) -> ValueCounts:
        """Returns the sum of the buckets that begin in [first, last), untrimmed, of tiers that share one table."""
        table = tiers[0]._table if tiers else ()
        sums = [0] * len(table)
        others = slacks = 0
        for tier in tiers:
            if tier._table is not table:
                raise ValueError("tiers of different tables")
            for start, (since, until) in tier._places.items():
                if first <= start < last:
                    for place, count in zip(
                        accumulate(tier._gaps[since:until]), tier._counts[since:until], strict=True
                    ):
                        sums[place] += count
                    if start in tier._rest:
                        other, slack = tier._rest[start]
                        others += other
                        slacks += slack
        return ValueCounts(dict(zip(compress(table, sums), filter(None, sums), strict=True)), others, slacks)
