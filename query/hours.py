"""Hits by weekday and hour, over the days that are kept by hours or finer.

A kept bucket is never divided. In a zone that is not whole hours ahead, an hour's bucket is shared by two hours of the
zone: it counts in the earlier one, and the answer says how many hits lie in such buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from clickcurve.answers.counts import HourOfWeek, HoursAnswer
from clickcurve.buckets.ladder import END_OF_TIME, HOUR_S, Ladder
from clickcurve.buckets.ranges import Bots, between
from clickcurve.buckets.row import Row
from query.comparison import TimeSpan
from query.parameters import Parameters
from query.zones import DAY, HOUR

_WEEKDAYS, _HOURS = range(1, 8), range(24)


def kept_hours_since(ladder: Ladder, fold_day: int) -> int:
    """Returns the start of the first bucket that is an hour or shorter; END_OF_TIME where none is."""
    cuts = [cut for tier, cut in zip(ladder.tiers, ladder.cuts(fold_day), strict=True) if _is_fine(tier.width_s)]
    return min(cuts, default=END_OF_TIME)


def _is_fine(width_s: int | None) -> bool:
    return width_s is not None and width_s <= HOUR_S


def hours_of_week(
    row: Row, name: str | None, asked: TimeSpan | None, parameters: Parameters, now: int, ladder: Ladder
) -> HoursAnswer:
    """Returns the cells of a current row. asked: a range, which is cut to whole hours that are kept; None: all days.

    Hours that have not ended are left out.
    """
    zone, bots = parameters.zone, parameters.bots
    edges = _edges(asked, parameters, kept_hours_since(ladder, row.fold_day), now)
    counts = dict.fromkeys(((day, hour) for day in _WEEKDAYS for hour in _HOURS), 0)
    hours = dict(counts)
    for (start, _), count in zip(pairwise(edges), between(row, edges, bots), strict=True):
        wall = zone.wall(start)
        cell = wall.isoweekday(), wall.hour
        counts[cell] += count
        hours[cell] += 1
    straddling = _straddling(row, edges, bots, ladder)
    called = row.disavowed is not None and bots is not Bots.include and any(map(row.disavowed.cuts, edges))
    return HoursAnswer(
        name,
        edges[0],
        edges[-1],
        zone.name,
        row.first,
        sum(counts.values()),
        straddling,
        not straddling and not called,
        [HourOfWeek(*cell, count, hours[cell]) for cell, count in counts.items()],
    )


def _edges(asked: TimeSpan | None, parameters: Parameters, kept_since: int, now: int) -> Sequence[int]:
    """Returns where the hours begin that are summed, and where the last one ends; one edge if there is none."""
    zone, ended = parameters.zone, HOUR.start(now, parameters.zone)
    if kept_since >= ended:
        return [ended]
    low, high = (DAY.after(kept_since - 1, zone), ended) if asked is None else asked
    low, high = HOUR.after(max(low, kept_since) - 1, zone), min(high, ended)
    return [low, *HOUR.edges(low, high, zone)] if low < high else [min(low, ended)]


def _straddling(row: Row, edges: Sequence[int], bots: Bots, ladder: Ladder) -> int:
    """Counts the hits of buckets that begin before one of the edges and end after it."""
    buckets = {bucket for edge in edges for bucket in (ladder.kept(edge, row.fold_day),) if bucket[0] < edge}
    return sum(sum(between(row, bucket, bots)) for bucket in buckets if bucket[0] >= edges[0])
