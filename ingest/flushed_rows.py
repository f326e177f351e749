"""What a flush does with a row of each kind: reads it, adds to it, writes it.

All kinds have the same verbs, so that a flush treats them alike. Nothing is added to a row that has the flush's mark.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Protocol, TypeVar

from clickcurve.buckets import codec
from clickcurve.buckets.breakdowns.breakdown import BoundedLadder, BreakdownDelta
from clickcurve.buckets.breakdowns.parts import (
    Parts,
    apply_parts,
    head_of_joined,
    join_parts,
    parts_due,
    separate_parts,
)
from clickcurve.buckets.candidates import CutoffsByPrefix
from clickcurve.buckets.errors import CountTooLarge
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.quarantine import AnyRow
from clickcurve.buckets.row import EMPTY, MAX_COUNT, Delta, Row, apply, forget, merge, next_due
from clickcurve.buckets.upper_bounds import UpperBounds, upper_bounds_after
from clickcurve.keys import counts_a_link, kept_days
from ingest.buffer import Buffer
from ingest.counts import NO_DELTA
from ingest.deltas import NOTHING, DeltasByKey
from storage.contract import SavedRow

R = TypeVar("R", bound=AnyRow)
D = TypeVar("D", Delta, BreakdownDelta)

MARKED = Delta({}, {})  # adds nothing, and yet the row is written, with the flush's mark


class FlushedRows(Protocol[R, D]):
    """Rows of one kind, as one flush treats them. None: there is no row."""

    @property
    def nothing(self) -> D:
        """Returns a delta that adds nothing."""

    def delta(self, key: str, deltas: DeltasByKey, buffer: Buffer | None) -> D:
        """Returns what the flush adds to a row; of `buffer`, where that is given, for the row was erased meanwhile."""

    def read(self, data: bytes) -> R:
        """Returns the row of these bytes; raises RowCorrupt."""

    def applied(self, before: R | None, delta: D, erased_at: int) -> R:
        """Returns the row with the flush in it. Raises RowCorrupt, CountTooLarge."""

    def joined(self, before: R | None, aside: R) -> R:
        """Returns the sum of two rows that `applied` made of one key. Raises CountTooLarge."""

    def mark_in(self, data: bytes) -> int:
        """Returns the last flush that a row includes, from the head of its bytes; raises RowCorrupt."""

    def erased_at(self, row: R) -> int:
        """Returns the stamp of the erasure that the row knows of."""

    def saved(
        self, key: str, before: R | None, after: R, delta: D, bounds: UpperBounds | None = None
    ) -> SavedRow | None:
        """Returns the row as it is saved; None if it is stored like this already.

        bounds: that of `before`, if it is a candidate and nothing but the delta was added since.
        """


@dataclass(frozen=True, slots=True)
class FlushedCounts:
    """Rows of counts. rewrite: rows that have the flush are written again. cutoffs: of the owner in its store.

    touched_day: of the rows that get hits, no earlier than the day of any of these. marked: rows that are written
    though nothing is added.
    """

    number: int
    fold_day: int
    rewrite: bool
    ladder: Ladder
    touched_day: int
    cutoffs: CutoffsByPrefix | None = None
    marked: Container[str] = ()
    nothing: Delta = NOTHING

    def delta(self, key: str, deltas: DeltasByKey, buffer: Buffer | None) -> Delta:
        delta = deltas.take(key) if buffer is None else buffer.delta_of_row(key)
        return MARKED if delta is NOTHING and key in self.marked else delta

    def read(self, data: bytes) -> Row:
        return codec.decode_lazily(data)

    def applied(self, before: Row | None, delta: Delta, erased_at: int) -> Row:
        return apply(before or EMPTY, delta, self.number, self.fold_day, erased_at, self.ladder)

    def joined(self, before: Row | None, aside: Row) -> Row:
        whole = merge((before or EMPTY, aside), self.ladder)._replace(mark=self.number)
        if max(whole.lifetime, whole.bots) > MAX_COUNT:
            raise CountTooLarge("the row's sum, with its quarantined hits, is too large", value=whole.lifetime)
        return whole

    def mark_in(self, data: bytes) -> int:
        return codec.decode_header(data).mark

    def erased_at(self, row: Row) -> int:
        return row.erased_at

    def saved(
        self, key: str, before: Row | None, after: Row, delta: Delta, bounds: UpperBounds | None = None
    ) -> SavedRow | None:
        days = kept_days(key)
        if days is not None and after is not before:
            after = forget(after, self.fold_day, days)
        if after is before and not self.rewrite:
            return None
        due_day = next_due(after, self.ladder, days)
        if not counts_a_link(key):
            return SavedRow(codec.encode(after), due_day)
        touched_day = None if delta is NOTHING or delta is MARKED else self.touched_day
        if bounds is not None:
            bounds = upper_bounds_after(bounds, before, after, delta, self.ladder)
        elif self.cutoffs is not None:
            bounds = self.cutoffs.bounds_if_candidate(key, after, self.ladder)
        return SavedRow(codec.encode(after), due_day, touched_day, upper_bounds=bounds)


@dataclass(frozen=True, slots=True)
class FlushedBreakdowns:
    """Breakdowns, in their two parts. rewrite: as in FlushedCounts; both parts then. whole: as of `apply_parts`."""

    number: int
    fold_day: int
    rewrite: bool
    bounded: BoundedLadder
    whole: bool = False
    nothing: BreakdownDelta = NO_DELTA

    def delta(self, key: str, deltas: DeltasByKey, buffer: Buffer | None) -> BreakdownDelta:
        return (buffer or deltas.buffer).delta_of_breakdown(key)

    def read(self, data: bytes) -> Parts:
        return separate_parts(data)

    def applied(self, before: Parts | None, delta: BreakdownDelta, erased_at: int) -> Parts:
        return apply_parts(before, delta, self.number, self.fold_day, erased_at, self.bounded, whole=self.whole)

    def joined(self, before: Parts | None, aside: Parts) -> Parts:
        return aside if before is None else join_parts(before, aside, self.bounded)

    def mark_in(self, data: bytes) -> int:
        return head_of_joined(data).mark

    def erased_at(self, row: Parts) -> int:
        return row.head.erased_at

    def saved(
        self,
        key: str,
        before: Parts | None,
        after: Parts,
        delta: BreakdownDelta,
        bounds: UpperBounds | None = None,
    ) -> SavedRow | None:
        if after is before and not self.rewrite:
            return None
        stays = before is not None and after.closed is before.closed and not self.rewrite
        return SavedRow(after.open, parts_due(after, self.bounded), None, after.closed, stays)
