"""A link's total: for a range with its bounds, or for its life."""

from __future__ import annotations

from clickcurve.answers import TotalAnswer
from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, total
from clickcurve.buckets.row import Row
from query.parameters import Parameters, resolve_range


def lifetime(row: Row, bots: Bots) -> int:
    """Returns everything ever counted: people with their opening, bots, or both. The row needs no buckets."""
    if bots is Bots.include:
        return row.lifetime + row.bots
    called = 0 if row.disavowed is None else min(row.disavowed.total, row.lifetime - row.opening)
    return row.bots + called if bots is Bots.only else row.lifetime - called


def make_total(row: Row, name: str | None, parameters: Parameters, now: int, ladder: Ladder) -> TotalAnswer:
    """Returns the total that is requested of a current row."""
    if not parameters.ranged:
        count = lifetime(row, parameters.bots)
        return TotalAnswer(name, None, None, count, count, count, True)
    start, end = resolve_range(parameters, now, row.first)
    span = total(row, start, end, parameters.bots, ladder)
    return TotalAnswer(name, start, end, span.at_most if span.exact else None, span.at_least, span.at_most, span.exact)
