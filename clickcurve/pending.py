"""What an owner holds of a link that may not be in its stored row yet: hits, and what they said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from clickcurve.buckets.breakdowns.breakdown import BreakdownDelta
from clickcurve.buckets.row import NO_MARK, Delta


class AwaitsFlush:
    """What an owner holds that may not be in its stored row yet.

    flush returns the number of the flush that took it, None as long as none has, and `whose` the owner's number. They
    are functions because between the moment it was looked up and the moment the row was read it may be taken, and
    stored, and the owner may get another number by a claim. A mark from `others_from` on is of another process, which
    has taken all that this one holds.
    """

    __slots__ = ()
    whose: Callable[[], int]
    flush: Callable[[], int | None]
    others_from: int

    @property
    def owner(self) -> int:
        return self.whose()

    def is_missing(self, marks: Mapping[int, int]) -> bool:
        """Returns whether the stored rows lack it. marks: of the rows by owner, read after it was looked up."""
        flush = self.flush()  # first: a flush is of the number that the owner has by then
        mark = marks.get(self.owner, 0)
        return mark < self.others_from and (flush is None or flush > mark)


@dataclass(frozen=True, slots=True)
class Pending(AwaitsFlush):
    """Hits of an owner that may not be in its stored row yet."""

    whose: Callable[[], int]
    flush: Callable[[], int | None]
    delta: Delta
    others_from: int = NO_MARK


@dataclass(frozen=True)
class PendingBreakdown(AwaitsFlush):
    """What an owner's hits said that may not be in its stored breakdown yet.

    make: makes the delta of a copy of what the owner holds, so that this may be done in a thread.
    """

    whose: Callable[[], int]
    flush: Callable[[], int | None]
    make: Callable[[], BreakdownDelta]
    others_from: int = NO_MARK

    @cached_property
    def delta(self) -> BreakdownDelta:
        return self.make()
