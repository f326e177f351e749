"""The buckets of one dimension in one tier, as columns: how a closed part has them.

Most answers need sums over buckets, which columns give without making a bucket.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from itertools import accumulate, compress, pairwise
from typing import final

from clickcurve.buckets.breakdowns.breakdown import ValueCounts


@final
class ColumnTier(Mapping[int, ValueCounts]):
    """Buckets of a tier by their starts, made when one is asked for.

    starts  of the buckets, ascending. ends: 0, then where each bucket's columns end. rest: start -> other and slack.
    gaps  of each bucket's values, which ascend: the place of the first in the table, then the gaps. counts: of each.
    """

    __slots__ = ("_counts", "_ends", "_gaps", "_made", "_rest", "_starts", "_table")

    def __init__(
        self,
        table: Sequence[str],
        starts: Sequence[int],
        ends: Sequence[int],
        gaps: Sequence[int],
        counts: Sequence[int],
        rest: Mapping[int, tuple[int, int]],
    ) -> None:
        """Raises ValueError unless each bucket has values of the table, none twice, with counts of 1 or more."""
        filled = [(since, until) for since, until in pairwise(ends) if since < until]
        if 0 in counts:
            raise ValueError("a count of 0")
        if gaps.count(0) != [gaps[since] for since, _ in filled].count(0):
            raise ValueError("a value twice in a bucket")
        if filled and max([sum(gaps[since:until]) for since, until in filled]) >= len(table):
            raise ValueError(f"a value that is none of the {len(table)} in the table")
        self._table = table
        self._starts = starts
        self._ends = ends
        self._gaps = gaps
        self._counts = counts
        self._rest = rest
        self._made: dict[int, ValueCounts] | None = None

    def _buckets(self) -> dict[int, ValueCounts]:
        if self._made is None:
            made = self._made = {}
            for start, (since, until) in zip(self._starts, pairwise(self._ends), strict=True):
                values = [self._table[place] for place in accumulate(self._gaps[since:until])]
                counted = dict(zip(values, self._counts[since:until], strict=True))
                made[start] = ValueCounts(counted, *self._rest[start]) if start in self._rest else ValueCounts(counted)
        return self._made

    def __getitem__(self, start: int) -> ValueCounts:
        return self._buckets()[start]

    def __iter__(self) -> Iterator[int]:
        return iter(self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def items(self) -> ItemsView[int, ValueCounts]:
        # As a dict has it, and so `values`: those of Mapping look each bucket up in Python, a merge asks for all.
        return self._buckets().items()

    def values(self) -> ValuesView[ValueCounts]:
        return self._buckets().values()

    def recorded_between(self, edges: Sequence[int]) -> list[int]:
        """Counts the hits of the buckets that begin in each [edges[i], edges[i + 1]); the edges ascend."""
        sums = []
        for first, last in pairwise([bisect_left(self._starts, edge) for edge in edges]):
            others = [self._rest[start][0] for start in self._starts[first:last] if start in self._rest]
            sums.append(sum(self._counts[self._ends[first] : self._ends[last]]) + sum(others))
        return sums

    @staticmethod
    def sum_between(tiers: Sequence[ColumnTier], first: int, last: int) -> ValueCounts:
        """Returns the sum of the buckets that begin in [first, last), untrimmed, of tiers that share one table."""
        table = tiers[0]._table if tiers else ()
        sums = [0] * len(table)
        rest = []
        for tier in tiers:
            if tier._table is not table:
                raise ValueError("tiers of different tables")
            low, high = bisect_left(tier._starts, first), bisect_left(tier._starts, last)
            for since, until in pairwise(tier._ends[low : high + 1]):
                places = accumulate(tier._gaps[since:until])
                for place, count in zip(places, tier._counts[since:until], strict=True):
                    sums[place] += count
            rest += [tier._rest[start] for start in tier._starts[low:high] if start in tier._rest]
        values = dict(zip(compress(table, sums), filter(None, sums), strict=True))
        return ValueCounts(values, sum([other for other, _ in rest]), sum([slack for _, slack in rest]))
