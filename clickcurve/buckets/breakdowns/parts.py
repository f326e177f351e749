"""A breakdown as a store keeps it: two parts of bytes, and what a flush does with them.

Only the open part changes while hits land in hours that are kept and no hour, day or week falls out of its tier: nearly
every flush. Then the closed part is neither read nor written: `apply_parts` returns the very object. Whatever
else happens takes the way over the whole breakdown; both give the same bytes, and a property test holds that.
"""

from __future__ import annotations

import zlib
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from clickcurve.buckets.breakdowns.bodies import or_corrupt
from clickcurve.buckets.breakdowns.breakdown import (
    BoundedLadder,
    Breakdown,
    BreakdownDelta,
    ValueCounts,
    apply_breakdown,
    fold_breakdown,
    landing,
    merge_breakdowns,
    require_delta,
    tier_due,
    trim,
    trim_all,
)
from clickcurve.buckets.breakdowns.closed_part import closed_bytes, read_closed
from clickcurve.buckets.breakdowns.open_part import (
    BreakdownHead,
    OpenPart,
    open_bytes,
    open_bytes_beside,
    open_part,
    read_head,
    require_whole,
    whole_head,
)
from clickcurve.buckets.breakdowns.pieces import day_bytes, day_of, hour_bytes, hour_of, hour_with
from clickcurve.buckets.breakdowns.visitors import NO_DAY, NO_DAYS
from clickcurve.buckets.breakdowns.vocabulary import VOCABULARY
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S, END_OF_TIME

ROW_CAP = 256 * 1024  # bytes of both parts: beyond it the caps are halved. A page of SQLite is 4 kB, a batch 5 MB


@dataclass(slots=True)
class Parts:
    """The bytes of a breakdown. closed: b"" while nothing is older than the hours. Each write of it writes `open`."""

    open: bytes
    closed: bytes
    _head: BreakdownHead | None = field(default=None, compare=False, repr=False)
    _head_end: int = field(default=0, compare=False, repr=False)  # 0: not known

    @property
    def head(self) -> BreakdownHead:
        """What the open part begins with. Raises RowCorrupt; read once, since a flush asks for it several times."""
        if self._head is None:
            self._head, self._head_end = whole_head(self.open)
        return self._head

    def opened(self) -> OpenPart:
        """Reads the open part. Raises RowCorrupt."""
        head, end = (self.head, self._head_end) if self._head_end else whole_head(self.open)
        return open_part(self.open, head, end)


def joined_parts(parts: Parts) -> bytes:
    """Returns both parts in one, for a store that keeps one value."""
    return parts.open + parts.closed


@or_corrupt
def separate_parts(data: bytes) -> Parts:
    """Takes joined parts apart; raises RowCorrupt if they do not belong together."""
    head, end = read_head(data)
    size = len(data) - head.closed_size
    parts = Parts(data[:size], data[size:], head, end)
    require_whole(parts.open)
    _require_belong(parts)
    return parts


@or_corrupt
def head_of_joined(data: bytes) -> BreakdownHead:
    """Reads the head of joined parts, also where the closed one is damaged; raises RowCorrupt if the open one is."""
    return whole_head(data[: len(data) - read_head(data)[0].closed_size])[0]


def encode_parts(row: Breakdown, bounded: BoundedLadder) -> Parts:
    """Writes the breakdown as bytes. Raises ValueError for a merged one, and CountTooLarge for a count above 2**127."""
    hours: dict[int, dict[str, ValueCounts]] = {}
    for name, tiers in row.dimensions.items():
        for start, counts in tiers[0].items():
            hours.setdefault(start, {})[name] = counts
    closed = closed_bytes(row.dimensions, row.visitor_days)
    dues = [due for tier in range(1, len(bounded.caps)) if (due := tier_due(row, tier, bounded)) is not None]
    head = BreakdownHead(
        len(bounded.caps),
        row.mark,
        row.fold_day,
        row.erased_at,
        row.first,
        row.shift,
        _open_since(hours, row.days),
        len(closed),
        zlib.crc32(closed),
        min(dues, default=None),
    )
    pieces = {start: hour_bytes(dimensions) for start, dimensions in hours.items()}
    return Parts(open_bytes(head, pieces, {start: day_bytes(day) for start, day in row.days.items()}), closed)


def _open_since(hours: Mapping[int, object], days: Mapping[int, object]) -> int | None:
    return min([*hours, *days]) // DAY_S if hours or days else None


def decode_parts(parts: Parts, only: Container[str] | None = None) -> Breakdown:
    """Reads the breakdown. Raises RowCorrupt for damaged bytes, and for parts that do not belong together.

    only  the dimensions to read, for an answer about one of them: the others are skipped, at a third of the time.
    """
    row = decode_open(parts, only)
    _require_belong(parts)
    closed, visitor_days = read_closed(parts.closed, len(row.visitor_days) + 1, only)
    for name, tiers in row.dimensions.items():
        closed[name] = (tiers[0], *closed[name][1:]) if name in closed else tiers
    return row._replace(dimensions=closed, visitor_days=visitor_days)


def decode_open(parts: Parts, only: Container[str] | None = None) -> Breakdown:
    """Reads a breakdown from its open part alone, for answers about hours that are kept; other tiers are empty."""
    opened = parts.opened()
    head = opened.head
    hours, days = opened.all_pieces()
    finest: dict[str, dict[int, ValueCounts]] = {}
    for start, piece in hours.items():
        for name, counts in hour_of(piece, parts.open[0] & 15, only).items():
            finest.setdefault(name, {})[start] = counts
    none: tuple[dict[int, Any], ...] = ({},) * (head.tiers - 1)
    return Breakdown(
        head.fold_day,
        head.mark,
        head.erased_at,
        head.first,
        head.shift,
        {name: (tier, *none) for name, tier in finest.items()},
        {start: day_of(piece) for start, piece in days.items()},
        none,
    )


def _require_belong(parts: Parts) -> None:
    head, closed = parts.head, parts.closed
    if head.closed_size != len(closed) or head.closed_checksum != zlib.crc32(closed):
        raise RowCorrupt(
            f"a closed part of {len(closed)} bytes does not belong to its open part: that of mark {head.mark}"
            f" has {head.closed_size} bytes"
        )


def parts_due(parts: Parts, bounded: BoundedLadder) -> int | None:
    """Returns the first fold day on which folding changes a bucket, read from the head only; None = never."""
    head = parts.head
    due_days = [] if head.closed_due is None else [head.closed_due]
    if head.open_since is not None and (due := bounded.ladder.folds_at(0, head.open_since * DAY_S)) is not None:
        due_days.append(due)
    return min(due_days, default=None)


def apply_parts(
    stored: Parts | None,
    delta: BreakdownDelta,
    mark: int,
    fold_day: int,
    erased_at: int,
    bounded: BoundedLadder,
    *,
    whole: bool = False,
) -> Parts:
    """Returns the parts with flush number `mark` in them; parts that have it already are returned as they are.

    stored None: this owner has no such breakdown yet. whole: also the closed part is made anew, as it must be when
    values are kept for another time than when it was written. Beyond ROW_CAP bytes the caps are halved as often as it
    takes, for good, but only when something lands: so no fold depends on how many bytes there were on the way.
    """
    more, first = _by_hour(delta, bounded)
    if stored is None:
        return _fitted(apply_breakdown(bounded.empty, delta, mark, fold_day, erased_at, bounded), delta, bounded)
    opened = stored.opened()
    head = opened.head
    if head.tiers != len(bounded.caps):
        raise RowCorrupt(f"a breakdown of {head.tiers} tiers does not fit a ladder of {len(bounded.caps)}")
    if mark <= head.mark:
        return stored
    day, oldest = max(head.fold_day, fold_day), min([*more, *delta.visitors, *delta.known], default=None)
    if not whole and head.erased_at >= erased_at and _is_open_only(stored, head, oldest, day, bounded):
        head = head._replace(mark=mark, fold_day=day, first=_first(head.first, first))
        head, data = _with_delta(opened, head, more, delta, bounded)
        applied = Parts(data, stored.closed, head)
        if len(applied.open) + len(applied.closed) <= ROW_CAP or oldest is None:
            return applied
    return _fitted(apply_breakdown(decode_parts(stored), delta, mark, fold_day, erased_at, bounded), delta, bounded)


def join_parts(ours: Parts, more: Parts, bounded: BoundedLadder) -> Parts:
    """Returns the sum of two breakdowns of one owner and link, of different hits, with the mark of `more`."""
    day = max(ours.head.fold_day, more.head.fold_day)
    row, other = (fold_breakdown(decode_parts(parts), day, bounded) for parts in (ours, more))
    sums = merge_breakdowns((row, other), day, bounded)  # of different owners, and untrimmed
    closed = []
    for mine, theirs in zip(row.visitor_days, other.visitor_days, strict=True):
        starts = mine.keys() | theirs.keys()
        closed.append({at: mine.get(at, NO_DAYS).with_hits(theirs.get(at, NO_DAYS)) for at in starts})
    sums = sums._replace(mark=other.mark, visitor_days=tuple(closed))
    return encode_parts(trim_all(sums, sums.shift, bounded), bounded)


def _fitted(row: Breakdown, delta: BreakdownDelta, bounded: BoundedLadder) -> Parts:
    parts = encode_parts(row, bounded)
    while (
        len(parts.open) + len(parts.closed) > ROW_CAP and delta.oldest() is not None and any(bounded.caps_of(row.shift))
    ):
        row = trim_all(row, row.shift + 1, bounded)
        parts = encode_parts(row, bounded)
    return parts


def _is_open_only(stored: Parts, head: BreakdownHead, oldest: int | None, day: int, bounded: BoundedLadder) -> bool:
    """Returns whether a delta lands in hours that are kept, and nothing falls out of its tier by that day.

    oldest: the earliest time that the delta speaks of, None = it adds nothing.
    """
    if head.closed_due is not None and head.closed_due <= day:
        return False
    cut = bounded.ladder.cuts(day)[0]
    if head.open_since is not None and head.open_since * DAY_S < cut:
        return False
    return (oldest is None or oldest >= cut) and stored.open[0] & 15 == VOCABULARY


def _with_delta(
    opened: OpenPart, head: BreakdownHead, more: LandingHours, delta: BreakdownDelta, bounded: BoundedLadder
) -> tuple[BreakdownHead, bytes]:
    """Returns the open part with the delta's hits, all of hours that are kept: what it begins with, and its bytes."""
    cap = bounded.caps_of(head.shift)[0]
    if more.keys() <= opened.hours.keys() and {*delta.visitors, *delta.known} <= opened.days.keys():
        _land_hours(opened.hours, more, cap)
        _land_days(opened.days, delta)
        return head, open_bytes_beside(head, opened.older, opened.hours, opened.days)
    hours, days_of = opened.all_pieces()
    _land_hours(hours, more, cap)
    _land_days(days_of, delta)
    head = head._replace(open_since=_open_since(hours, days_of))
    return head, open_bytes(head, hours, days_of)


LandingHours = dict[int, dict[str, Mapping[str, int]]]  # start of a finest bucket -> dimension -> what lands there


def _by_hour(delta: BreakdownDelta, bounded: BoundedLadder) -> tuple[LandingHours, int | None]:
    """Turns the delta around; returns also its earliest hour. Raises ValueError as `require_delta`."""
    require_delta(delta)
    start_of = bounded.ladder.tiers[0].start
    more: LandingHours = {}
    of_hour: dict[str, Mapping[str, int]] = {}
    last, first = -1, END_OF_TIME
    for name, hours in delta.values.items():
        for t, values in hours.items():
            if t != last:
                last, first = t, min(first, t)
                of_hour = more.setdefault(start_of(t), {})
            of_hour[name] = _sums(of_hour[name], values) if name in of_hour else values
    return more, None if first == END_OF_TIME else first


def _sums(some: Mapping[str, int], others: Mapping[str, int]) -> Mapping[str, int]:
    return {value: some.get(value, 0) + others.get(value, 0) for value in some.keys() | others.keys()}


def _land_hours(hours: dict[int, bytes], more: LandingHours, cap: int) -> None:
    for start, dimensions in more.items():
        if start in hours:
            hours[start] = hour_with(hours[start], dimensions, cap)
        else:
            hours[start] = hour_bytes({name: trim(landing(values), cap) for name, values in dimensions.items()})


def _land_days(days: dict[int, bytes], delta: BreakdownDelta) -> None:
    for start, members, known in delta.days():
        before = day_of(days[start]) if start in days else NO_DAY
        days[start] = day_bytes(before.with_hits(members, known))


def _first(first: int | None, more: int | None) -> int | None:
    return min([t for t in (first, more) if t is not None], default=None)
