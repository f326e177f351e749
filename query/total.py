"""A link's total: for a range with its bounds, or for its life."""

from __future__ import annotations

from dataclasses import dataclass

from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, Span, total
from clickcurve.buckets.row import Row
from query.parameters import Parameters, resolve_range


@dataclass(frozen=True, slots=True)
class Total:
    """start and end are the requested range in epoch seconds, None for the whole life (undated counts included)."""

    start: int | None
    end: int | None
    span: Span


def lifetime(row: Row, bots: Bots) -> int:
    """Returns everything ever counted: people with their opening, bots, or both. The row needs no buckets."""
    if bots is Bots.only:
        return row.bots
    return row.lifetime + row.bots if bots is Bots.include else row.lifetime


def make_total(row: Row, parameters: Parameters, now: int, ladder: Ladder) -> Total:
    """Returns the total that is requested of a current row."""
    if not parameters.ranged:
        count = lifetime(row, parameters.bots)
        return Total(None, None, Span(count, count, count))
    start, end = resolve_range(parameters, now, row.first)
    return Total(start, end, total(row, start, end, parameters.bots, ladder))
