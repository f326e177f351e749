"""Hits of people that are called bots since: how many, in which spans of whole buckets. Part of a row as it is read.

Where a span lies whole in a range the correction is exact. Of a span that is cut nobody knows on which side of the cut
the called hits are, so there it widens the bounds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Disavowed(NamedTuple):
    """The called hits of a row. starts, ends, counts: one for each span, ascending, apart from one another.

    total  all of them. The spans are empty where only the head of a row is read.
    """

    total: int
    starts: Sequence[int] = ()
    ends: Sequence[int] = ()
    counts: Sequence[int] = ()

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int, int]]) -> Disavowed | None:
        """Returns spans of start, end and count, in order, as one; None if nothing is called."""
        some = [span for span in spans if span[2] > 0]
        if not some:
            return None
        starts, ends, counts = zip(*some, strict=True)
        return cls(sum(counts), starts, ends, counts)

    def overlapping(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yields start, end and count of the spans that [start, end) touches."""
        first, last = bisect_right(self.ends, start), bisect_left(self.starts, end)
        return zip(self.starts[first:last], self.ends[first:last], self.counts[first:last], strict=True)

    def cuts(self, edge: int) -> tuple[int, int] | None:
        """Returns the span that an edge lies inside, None if there is none."""
        at = bisect_right(self.starts, edge) - 1
        if at >= 0 and self.starts[at] < edge < self.ends[at]:
            return self.starts[at], self.ends[at]
        return None
