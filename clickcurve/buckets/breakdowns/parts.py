"""A breakdown as a store keeps it: two parts of bytes, and what a flush does with them.

Only the open part changes while hits land in hours that are kept and no hour, day or week falls out of its tier: nearly
every flush. Then the closed part is neither read nor written: `apply_parts` returns the very object. Whatever
else happens takes the way over the whole breakdown; both give the same bytes, and a property test holds that.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from clickcurve.buckets.breakdowns.breakdown import (
    Breakdown,
    BreakdownDelta,
    CappedLadder,
    Tiers,
    ValueCounts,
    apply_breakdown,
    halve_caps,
    require_delta,
    sum_of_counts,
    tier_due,
    trim,
)
from clickcurve.buckets.breakdowns.closed_part import closed_bytes, read_closed
from clickcurve.buckets.breakdowns.open_part import (
    BreakdownHead,
    day_bytes,
    day_of,
    head_of,
    hour_bytes,
    hour_of,
    open_bytes,
    open_pieces,
    or_corrupt,
    read_head,
)
from clickcurve.buckets.breakdowns.visitors import NO_VISITORS, OpenDay
from clickcurve.buckets.breakdowns.vocabulary import VOCABULARY
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S

ROW_CAP = 256 * 1024  # bytes of both parts: beyond it the caps are halved. A page of SQLite is 4 kB, a batch 5 MB


class Parts(NamedTuple):
    """The bytes of a breakdown. closed: b"" while nothing is older than the hours. Each write of it writes `open`."""

    open: bytes
    closed: bytes


def joined_parts(parts: Parts) -> bytes:
    """Returns both parts in one, for a store that keeps one value."""
    return parts.open + parts.closed


@or_corrupt
def separate_parts(data: bytes) -> Parts:
    """Takes joined parts apart; raises RowCorrupt if they do not belong together."""
    size = read_head(data)[0].closed_size
    parts = Parts(data[: len(data) - size], data[len(data) - size :])
    _require_belong(head_of(parts.open), parts.closed)
    return parts


def encode_parts(row: Breakdown, capped: CappedLadder) -> Parts:
    """Writes the breakdown as bytes. Raises ValueError for a merged one, and CountTooLarge for a count above 2**127."""
    hours: dict[int, dict[str, ValueCounts]] = {}
    for name, tiers in row.dimensions.items():
        for start, counts in tiers[0].items():
            hours.setdefault(start, {})[name] = counts
    closed = closed_bytes(row.dimensions, row.visitor_days)
    dues = [due for tier in range(1, len(capped.caps)) if (due := tier_due(row, tier, capped)) is not None]
    head = BreakdownHead(
        len(capped.caps),
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


def decode_parts(parts: Parts) -> Breakdown:
    """Reads the breakdown. Raises RowCorrupt for damaged bytes, and for parts that do not belong together."""
    head, hours, days = open_pieces(parts.open)
    _require_belong(head, parts.closed)
    version = parts.open[0] & 15
    dimensions, visitor_days = read_closed(parts.closed, head.tiers)
    finest: dict[str, dict[int, ValueCounts]] = {}
    for start, piece in hours.items():
        for name, counts in hour_of(piece, version).items():
            finest.setdefault(name, {})[start] = counts
    none: Tiers = ({},) * head.tiers
    for name, tier in finest.items():
        dimensions[name] = (tier, *dimensions.get(name, none)[1:])
    return Breakdown(
        head.fold_day,
        head.mark,
        head.erased_at,
        head.first,
        head.shift,
        dimensions,
        {start: day_of(piece) for start, piece in days.items()},
        visitor_days,
    )


def _require_belong(head: BreakdownHead, closed: bytes) -> None:
    if head.closed_size != len(closed) or head.closed_checksum != zlib.crc32(closed):
        raise RowCorrupt(
            f"a closed part of {len(closed)} bytes does not belong to its open part: that of mark {head.mark}"
            f" has {head.closed_size} bytes"
        )


def parts_due(parts: Parts, capped: CappedLadder) -> int | None:
    """Returns the first fold day on which folding changes a bucket, read from the head only; None = never."""
    head = head_of(parts.open)
    found = [] if head.closed_due is None else [head.closed_due]
    if head.open_since is not None and (due := capped.ladder.folds_at(0, head.open_since * DAY_S)) is not None:
        found.append(due)
    return min(found, default=None)


def apply_parts(
    stored: Parts | None, delta: BreakdownDelta, mark: int, fold_day: int, erased_at: int, capped: CappedLadder
) -> Parts:
    """Returns the parts with flush number `mark` in them; parts that have it already are returned as they are.

    stored None: this owner has no such breakdown yet. Beyond ROW_CAP bytes the caps are halved as often as it takes,
    for good, but only when something lands: so no fold depends on how many bytes there were on the way.
    """
    require_delta(delta)
    if stored is None:
        return _fitted(apply_breakdown(capped.empty, delta, mark, fold_day, erased_at, capped), delta, capped)
    head, hours, days = open_pieces(stored.open)
    if head.tiers != len(capped.caps):
        raise RowCorrupt(f"a breakdown of {head.tiers} tiers does not fit a ladder of {len(capped.caps)}")
    if mark <= head.mark:
        return stored
    day = max(head.fold_day, fold_day)
    if head.erased_at >= erased_at and _is_open_only(stored, head, delta, day, capped):
        _land_hours(hours, delta, capped, head.shift)
        _land_days(days, delta)
        first = _first(head.first, delta)
        head = head._replace(mark=mark, fold_day=day, first=first, open_since=_open_since(hours, days))
        applied = Parts(open_bytes(head, hours, days), stored.closed)
        if len(applied.open) + len(applied.closed) <= ROW_CAP or delta.oldest() is None:
            return applied
    return _fitted(apply_breakdown(decode_parts(stored), delta, mark, fold_day, erased_at, capped), delta, capped)


def _fitted(row: Breakdown, delta: BreakdownDelta, capped: CappedLadder) -> Parts:
    parts = encode_parts(row, capped)
    while (
        len(parts.open) + len(parts.closed) > ROW_CAP and delta.oldest() is not None and any(capped.caps_of(row.shift))
    ):
        row = halve_caps(row, capped)
        parts = encode_parts(row, capped)
    return parts


def _is_open_only(stored: Parts, head: BreakdownHead, delta: BreakdownDelta, day: int, capped: CappedLadder) -> bool:
    """Returns whether the delta lands in hours that are kept, and nothing falls out of its tier by that day."""
    if head.closed_due is not None and head.closed_due <= day:
        return False
    cut = capped.ladder.cuts(day)[0]
    if head.open_since is not None and head.open_since * DAY_S < cut:
        return False
    oldest = delta.oldest()
    return (oldest is None or oldest >= cut) and stored.open[0] & 15 == VOCABULARY


def _land_hours(hours: dict[int, bytes], delta: BreakdownDelta, capped: CappedLadder, shift: int) -> None:
    finest, cap = capped.ladder.tiers[0], capped.caps_of(shift)[0]
    more: dict[int, dict[str, ValueCounts]] = {}
    for name, found in delta.values.items():
        for t, values in found.items():
            of_hour = more.setdefault(finest.start(t), {})
            landing = ValueCounts(values)
            of_hour[name] = sum_of_counts(of_hour[name], landing) if name in of_hour else landing
    for start, landing_in in more.items():
        dimensions = hour_of(hours[start], VOCABULARY) if start in hours else {}
        for name, landing in landing_in.items():
            counts = sum_of_counts(dimensions[name], landing) if name in dimensions else landing
            dimensions[name] = trim(counts, cap)
        hours[start] = hour_bytes(dimensions)


def _land_days(days: dict[int, bytes], delta: BreakdownDelta) -> None:
    for start in delta.visitors.keys() | delta.unknown.keys():
        members, unknown = delta.visitors.get(start, frozenset()), delta.unknown.get(start, 0)
        if members or unknown:
            before = day_of(days[start]) if start in days else OpenDay(NO_VISITORS)
            days[start] = day_bytes(OpenDay(before.visitors.with_members(members), before.unknown + unknown))


def _first(first: int | None, delta: BreakdownDelta) -> int | None:
    times = [min(hours) for hours in delta.values.values() if hours]
    return min(times if first is None else [first, *times], default=None)
