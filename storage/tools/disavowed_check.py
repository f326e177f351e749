"""Checks what was called bots of a link, a group or all links: never less than nothing, nor more than was counted."""

from __future__ import annotations

from clickcurve.buckets.breakdowns.disavow import spans_of
from clickcurve.buckets.codec import decode
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, between
from clickcurve.buckets.row import Row, fold, merge
from storage.contract import StoredLink


def check_disavowed(moved: StoredLink, counts: StoredLink, ladder: Ladder) -> list[str]:
    """Returns the buckets in which the sum of owners' corrections cannot be; [] = none. counts: read after `moved`."""
    try:
        called, counted = _sum_of(moved, ladder), _sum_of(counts, ladder)
    except RowCorrupt:
        return []  # which is said of that row
    day = max(called.fold_day, counted.fold_day)
    called, counted = fold(called, day, ladder), fold(counted, day, ladder)
    broken = []
    for start, end, hits in spans_of(called, day, ladder):
        (people,) = between(counted, (start, end), Bots.exclude)
        if not 0 <= hits <= people:
            broken.append(f"{hits} hits in [{start}, {end}) are called bots, of {people} that were counted as people's")
    return broken


def _sum_of(link: StoredLink, ladder: Ladder) -> Row:
    rows = [decode(each.data) for each in link.rows]
    return merge([row for row in rows if row.erased_at >= link.erased_at], ladder)
