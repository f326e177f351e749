"""Where buckets of a history count that cannot count where they were: too wide for what is kept, or ahead of the clock.

What a line says of one time stays together: its hits, their breakdown, what came of them and its values may be kept in
buckets of different widths, and no breakdown may hold more hits of a time than were counted then. So all that begins
within the widest of them counts at its start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ingest.hit import Moment


class Wide(StrEnum):
    """What becomes of a bucket that is wider than what is kept at its time."""

    refuse = "refuse"
    start = "start"  # all of it counts at its start


class Ahead(StrEnum):
    """What becomes of a bucket that begins ahead of the clock, as a clock that was wrong has left it."""

    refuse = "refuse"
    now = "now"  # all of it counts when it is imported


class Placing(NamedTuple):
    """What becomes of buckets that cannot count where they were."""

    wide: Wide = Wide.refuse
    ahead: Ahead = Ahead.refuse


AS_IT_WAS = Placing()


@dataclass(frozen=True, slots=True)
class Places:
    """Where the buckets of one line count.

    read_at: the moment by which the line's times are read: if any may lie ahead, one that is far ahead of `moment`.
    starts, ends: of the line's spans that are too wide, ascending and apart.
    """

    moment: Moment
    read_at: Moment
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    @classmethod
    def among(cls, wide: Iterable[tuple[int, int]], moment: Moment, read_at: Moment) -> Places:
        """Makes the places of a line from its buckets that are too wide, each [start, end)."""
        starts: list[int] = []
        ends: list[int] = []
        for start, end in sorted(wide):
            if ends and start < ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        return cls(moment, read_at, tuple(starts), tuple(ends))

    def of(self, start: int) -> int | None:
        """Returns when all of the bucket from `start` counts; None: where it is."""
        at = bisect_right(self.starts, start) - 1
        placed = self.starts[at] if at >= 0 and start < self.ends[at] else None
        return self.moment.now if (start if placed is None else placed) > self.moment.latest else placed
