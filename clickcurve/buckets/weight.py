"""What a row counts in the windows that end with its last hit: the most that it can count in any window from now on.

A store keeps these numbers in columns beside the row, so that it can tell in one pass, without reading rows, which few
of a million links may be among the first. They are a function of the row alone and hold as long as it does: while no
hit comes, a window of the same width that ends later counts the same hits or fewer.

A window is some whole hours or days, in UTC, of which the last holds the last hit. A kept bucket that reaches into it
counts whole. So for a range that begins at `since` a row has a narrowest window that covers it (`most_since`), and what
the row counts there is at least what it counts in the range, whenever that ends.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TypeAlias

from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S, HOUR_S, Ladder
from clickcurve.buckets.row import Cells, Delta, Row

# The last hit (start of its minute; UNDATED: there is none), then what people count in each of WINDOWS and in all their
# life, then the same of bots. None is above MOST.
Weight: TypeAlias = tuple[int, ...]

# unit and how many: 60 minutes lie in two hours, a year in 366 days.
WINDOWS = ((HOUR_S, 2), (DAY_S, 1), (DAY_S, 7), (DAY_S, 31), (DAY_S, 366))
SERIES = len(WINDOWS) + 1
PEOPLE, BOTS = 1, 1 + SERIES  # where each series begins in a weight
UNDATED = -1
MOST = 1 << 54  # so a sum over 512 owners fits the integers of a database; a sum that reaches it may be any

UNREADABLE: Weight = (MOST,) * (1 + 2 * SERIES)  # of a damaged row: it comes first everywhere, so that it is noticed


def weight_in(data: bytes, ladder: Ladder) -> Weight:
    """Returns the weight of a row of counts as bytes."""
    try:
        return weight_of(decode(data), ladder)
    except RowCorrupt:
        return UNREADABLE


def weight_of(row: Row, ladder: Ladder) -> Weight:
    """Returns the weight of a row that has all of its buckets."""
    last = UNDATED if row.last is None else row.last
    since = [0 if row.last is None else (last // unit - n + 1) * unit for unit, n in WINDOWS]
    first = row.first or 0
    people = _in_windows(row.people_cells, row.lifetime - row.opening, first, since, ladder)
    bots = _in_windows(row.bot_cells, row.bots, first, since, ladder) if row.bots else [0] * len(WINDOWS)
    return _limited((last, *people, row.lifetime, *bots, row.bots))


def _in_windows(cells: tuple[Cells, ...], whole: int, first: int, since: list[int], ladder: Ladder) -> list[int]:
    """Returns the counts of the buckets that reach into each window, the narrowest window first."""
    counts: list[int] = []
    for start in since:
        if first >= start:
            return counts + [whole] * (len(since) - len(counts))
        count = 0
        for tier, (starts, of_bucket) in zip(ladder.tiers, cells, strict=False):
            if starts and starts[0] < start:
                count += sum(of_bucket[bisect_left(starts, tier.start(start)) :])
                break
            count += sum(of_bucket)
        counts.append(count)
    return counts


def _limited(weight: Weight) -> Weight:
    return weight if max(weight) < MOST else tuple(min(count, MOST) for count in weight)


def weight_after(weight: Weight | None, before: Row | None, after: Row, delta: Delta, ladder: Ladder) -> Weight:
    """Returns the weight of `after`, which is `before` and the delta; weight is that of `before`, if it is known.

    Mostly the hits are of the hour of the last hit that was known: then they count in every window, and no bucket needs
    to be looked at.
    """
    if weight is None or before is None or before.last != weight[0] or after.last is None:
        return weight_of(after, ladder)
    if after is before:
        return weight
    hour = before.last - before.last % HOUR_S
    same = after.last < hour + HOUR_S and (after.fold_day, after.erased_at) == (before.fold_day, before.erased_at)
    if not same or (delta.people and min(delta.people) < hour) or (delta.bots and min(delta.bots) < hour):
        return weight_of(after, ladder)
    more, more_bots = after.lifetime - before.lifetime - delta.opening, after.bots - before.bots
    people, bots = weight[PEOPLE : BOTS - 1], weight[BOTS:]
    if more:
        people = tuple([count + more for count in people])
    if more_bots:
        bots = tuple([count + more_bots for count in bots])
    return _limited((after.last, *people, after.lifetime, *bots))


def edges(since: int) -> list[int]:
    """Returns for each window before which last hit it covers a range that begins at `since`."""
    return [(since // unit + n) * unit for unit, n in WINDOWS]


def most_since(weight: Weight, since: int | None, people: bool, bots: bool) -> int:
    """Returns the most that a row of this weight counts from `since` on; None: in its life."""
    if since is not None and weight[0] < since:
        return 0
    window = len(WINDOWS) if since is None else sum(weight[0] >= edge for edge in edges(since))
    return (weight[PEOPLE + window] if people else 0) + (weight[BOTS + window] if bots else 0)
