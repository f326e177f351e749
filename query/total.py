"""A link's total: for a range with its bounds, or for its life."""

from __future__ import annotations

from dataclasses import dataclass

from clickcurve.buckets.ladder import Ladder
from clickcurve.buckets.ranges import Bots, Span
from clickcurve.buckets.ranges import total as span_of
from clickcurve.buckets.row import Row
from query.parameters import Asked, total_range


@dataclass(frozen=True, slots=True)
class Total:
    """start and end are the asked range in epoch seconds, None for the whole life (undated counts included)."""

    start: int | None
    end: int | None
    span: Span


def lifetime(row: Row, bots: Bots) -> int:
    """Everything ever counted: people with their opening, bots, or both. The row needs no buckets."""
    if bots is Bots.only:
        return row.bots
    return row.lifetime + row.bots if bots is Bots.include else row.lifetime


def total(row: Row, asked: Asked, now: int, ladder: Ladder) -> Total:
    """What was asked, of a current row."""
    if not asked.ranged:
        count = lifetime(row, asked.bots)
        return Total(None, None, Span(count, count, count))
    start, end = total_range(asked, now, row.first)
    return Total(start, end, span_of(row, start, end, asked.bots, ladder))
