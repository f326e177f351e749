"""What a row counts in the windows that end with its last hit: the most that it can count in any window from now on.

A store keeps the rows with the greatest of these bounds (`candidates`). So it finds the few of a million links that may
rank first without reading the other rows. The bounds are a function of the row alone and hold until the row changes:
while no hit comes, a window of the same width that ends later counts the same hits or fewer.

A window is some whole days, in UTC, of which the last holds the last hit. A kept bucket that reaches into it counts
whole. So for a range that begins at `since` a row has a narrowest window that covers it (`most_since`), and what the
row counts there is at least what it counts in the range, whenever that ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TypeAlias

from clickcurve.buckets.cells import Cells, sum_since
from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S, Ladder
from clickcurve.buckets.row import Delta, Row

# The last hit (start of its minute; UNDATED: there is none), what people count in each of WINDOWS and in all their
# life, then the same of bots. None is above MOST.
UpperBounds: TypeAlias = tuple[int, ...]

# Days: today, yesterday in any zone, a week, a month and a quarter in any zone, a year of whole months. Of bots fewer:
# rankings by them are seldom asked for, and each window has candidates of its own.
WINDOWS = (1, 2, 8, 31, 100, 400)
BOT_WINDOWS = (31,)
PEOPLE, BOTS = 1, 2 + len(WINDOWS)  # where each series begins
END = BOTS + len(BOT_WINDOWS) + 1
UNDATED = -1
MOST = 1 << 54  # so a sum over 512 owners fits the integers of a database; a sum that reaches it may be any

UNREADABLE: UpperBounds = (MOST,) * END  # of a damaged row: it comes first everywhere, so that it is noticed


def upper_bounds_in(data: bytes, ladder: Ladder) -> UpperBounds:
    """Returns the upper bounds of a row of counts, given as bytes."""
    try:
        return upper_bounds_of(decode(data), ladder)
    except RowCorrupt:
        return UNREADABLE


def upper_bounds_of(row: Row, ladder: Ladder) -> UpperBounds:
    """Returns the upper bounds of a row that has all of its buckets."""
    last = UNDATED if row.last is None else row.last
    people = in_windows(row, row.people_cells, row.lifetime - row.opening, WINDOWS, ladder)
    bots = in_windows(row, row.bot_cells, row.bots, BOT_WINDOWS, ladder)
    return _limited((last, *people, row.lifetime, *bots, row.bots))


def in_windows(row: Row, cells: tuple[Cells, ...], whole: int, windows: Sequence[int], ladder: Ladder) -> Iterator[int]:
    """Yields the counts of a series' buckets that reach into each window, shortest first; reads as few as that takes.

    whole: the count of all of them.
    """
    if not whole or row.first is None or row.last is None:
        yield from repeat(whole, len(windows))
        return
    first, today, cuts = row.first, row.last // DAY_S, ladder.cuts(row.fold_day)
    tier, inside = 0, 0  # the tiers before this one are in the window, and count so much
    for days in windows:
        start = (today - days + 1) * DAY_S
        if first >= start:
            yield whole
            continue
        while tier < len(cells) and cuts[tier] >= start:
            inside += sum_since(cells[tier], 0)
            tier += 1
        partly = sum_since(cells[tier], ladder.tiers[tier].start(start)) if tier < len(cells) else 0
        yield inside + partly


def _limited(bounds: UpperBounds) -> UpperBounds:
    return bounds if max(bounds) < MOST else tuple(min(count, MOST) for count in bounds)


def upper_bounds_after(
    bounds: UpperBounds, before: Row | None, after: Row, delta: Delta, ladder: Ladder
) -> UpperBounds:
    """Returns the upper bounds of `after`, which is `before` plus the delta. bounds: those of `before`.

    Mostly the hits are of the day of the last hit that was known: then they count in every window, and no bucket needs
    to be looked at.
    """
    if before is None or before.last != bounds[0] or after.last is None:
        return upper_bounds_of(after, ladder)
    if after is before:
        return bounds
    day = bounds[0] - bounds[0] % DAY_S
    same = after.last < day + DAY_S and after.fold_day == before.fold_day and after.erased_at == before.erased_at
    if not same or (delta.people and min(delta.people) < day) or (delta.bots and min(delta.bots) < day):
        return upper_bounds_of(after, ladder)
    more, more_bots = after.lifetime - before.lifetime - delta.opening, after.bots - before.bots
    people, bots = bounds[PEOPLE : BOTS - 1], bounds[BOTS:]
    if more:
        people = tuple([count + more for count in people])
    if more_bots:
        bots = tuple([count + more_bots for count in bots])
    return _limited((after.last, *people, after.lifetime, *bots))


def edges(since: int, windows: tuple[int, ...] = WINDOWS) -> list[int]:
    """Returns for each window the last hit, exclusive, up to which it covers a range from `since` on."""
    return [(since // DAY_S + days) * DAY_S for days in windows]


def most_since(bounds: UpperBounds, since: int | None, people: bool, bots: bool) -> int:
    """Returns the most that a row with these bounds counts from `since` on; None: in its life."""
    if since is None:
        return (bounds[BOTS - 1] if people else 0) + (bounds[-1] if bots else 0)
    last = bounds[0]
    if last < since:
        return 0
    count = bounds[PEOPLE + sum(last >= edge for edge in edges(since))] if people else 0
    return count + (bounds[BOTS + sum(last >= edge for edge in edges(since, BOT_WINDOWS))] if bots else 0)
