"""The answers about a breakdown, pure: values of a range with bounds, one value along time, visitors by day.

A range that cuts kept buckets is answered by those buckets whole: nothing is interpolated. So the parts of an
answer add up to the total of the span that it names, which holds the range.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from clickcurve.buckets.breakdowns.answers import (
    Bounds,
    VisitorSpan,
    divided,
    value_between,
    visitor_days,
    visitors_between,
)
from clickcurve.buckets.breakdowns.breakdown import NOT_GIVEN, BoundedLadder, greatest_values
from clickcurve.buckets.breakdowns.check import BOT
from clickcurve.buckets.breakdowns.visitors import VisitorDays
from clickcurve.buckets.ladder import END_OF_TIME, MINUTE_S
from clickcurve.buckets.ranges import Bots, between, total
from query.breakdowns.unrecorded import BreakdownRow, series_of
from query.grid import Grid, PointState


@dataclass(frozen=True, slots=True)
class ValueList:
    """How the hits of [start, end) divide by a dimension; start and end None: those of the whole life.

    values  the values that are shown, greatest first. hidden, hidden_count: how many are not, and their hits, at least.
    other  hits of values that were not kept. unrecorded: hits that may have come before the dimension was switched on.
    exact  the bounds of every value meet, and all hits of the span are of the asked range.

    The law: the `at_least` of the values + hidden_count + other + unrecorded == total.
    """

    dimension: str
    start: int | None
    end: int | None
    total: int
    values: list[tuple[str, Bounds]]
    hidden: int
    hidden_count: int
    other: int
    unrecorded: int
    exact: bool


class _Divided(NamedTuple):
    """An answer without its values; all values with the least of their hits; the most that one may have more."""

    answer: ValueList
    counts: dict[str, int]
    slack: int
    of_not_given: int

    def bounds(self, value: str) -> Bounds:
        at_least = self.counts.get(value, 0)
        return Bounds(at_least, at_least + (self.of_not_given if value == NOT_GIVEN else self.slack))

    def with_values(self, shown: Sequence[str]) -> ValueList:
        """Returns the answer with these values; all others are hidden."""
        hidden = len(self.counts) - len([value for value in shown if value in self.counts])
        values = [(value, self.bounds(value)) for value in shown]
        count = sum(self.counts.values()) - sum([bounds.at_least for _, bounds in values])
        return replace(self.answer, values=values, hidden=hidden, hidden_count=count)


def list_values(
    found: BreakdownRow, dimension: str, span: tuple[int, int] | None, since: int, limit: int, capped: BoundedLadder
) -> ValueList:
    """Returns the `limit` greatest values of a range, None for the whole life, and `""` if it counts."""
    parts = _divided(found, dimension, span, since, capped)
    shown = greatest_values(parts.counts, limit)
    if NOT_GIVEN in parts.counts and NOT_GIVEN not in shown:
        shown.append(NOT_GIVEN)
    return parts.with_values(shown)


def one_value(
    found: BreakdownRow, dimension: str, span: tuple[int, int] | None, since: int, value: str, capped: BoundedLadder
) -> ValueList:
    """Returns one value of a range, also one that was never kept; all others are hidden."""
    return _divided(found, dimension, span, since, capped).with_values([value])


def _divided(
    found: BreakdownRow, dimension: str, span: tuple[int, int] | None, since: int, capped: BoundedLadder
) -> _Divided:
    start, end = (0, END_OF_TIME) if span is None else found.whole_span(*span)
    recorded = divided(found.breakdown, dimension, start, end, capped)
    counts = dict(recorded.values)
    (rest,) = found.rest(dimension, (start, end), since)
    not_given = counts.get(NOT_GIVEN, 0) + rest.not_given
    if not_given or rest.unsure:
        counts[NOT_GIVEN] = not_given
    counted = recorded.recorded + rest.not_given + rest.unrecorded
    exact = not recorded.slack and not rest.unsure
    if span is None:
        opening = found.row.opening if dimension != BOT else 0  # without dates, so from before all dimensions
        answer = ValueList(
            dimension, None, None, counted + opening, [], 0, 0, recorded.other, rest.unrecorded + opening, exact
        )
    else:
        exact = exact and total(found.row, *span, series_of(dimension), found.ladder).at_least == counted
        answer = ValueList(dimension, start, end, counted, [], 0, 0, recorded.other, rest.unrecorded, exact)
    return _Divided(answer, counts, recorded.slack, rest.unsure)


@dataclass(frozen=True, slots=True)
class ValueCurve:
    """One value along time: the bounds of each point of the grid, and those of the asked range."""

    dimension: str
    value: str
    grid: Grid
    open_from: int
    bounds: list[Bounds]
    whole: Bounds
    first: int | None

    def states(self) -> list[PointState]:
        """Returns one state per point."""
        return self.grid.states(self.open_from)


def curve_of_value(found: BreakdownRow, dimension: str, value: str, since: int, grid: Grid, now: int) -> ValueCurve:
    """Returns the bounds of a value along a grid of the breakdown's ladder and of the rows' fold day."""
    grid = _on_edges_of_both(found, grid)
    bounds = _bounds_along(found, dimension, value, grid.edges, since)
    at_most = sum([each.at_most for each in bounds])
    whole = Bounds(sum(_certain(found, dimension, value, since, grid)), at_most)
    return ValueCurve(dimension, value, grid, grid.open_from(now), bounds, whole, found.row.first)


def _bounds_along(found: BreakdownRow, dimension: str, value: str, edges: Sequence[int], since: int) -> list[Bounds]:
    bounds = value_between(found.breakdown, dimension, value, edges)
    if value != NOT_GIVEN:
        return bounds
    rests = found.rest(dimension, edges, since)
    return [
        Bounds(said.at_least + rest.not_given, said.at_most + rest.not_given + rest.unsure)
        for said, rest in zip(bounds, rests, strict=True)
    ]


def _certain(found: BreakdownRow, dimension: str, value: str, since: int, grid: Grid) -> list[int]:
    """Returns the least of the value's hits in points, cut to buckets with hits of the range alone.

    Those are the whole ones, and one that is cut where the link has no hits beyond the cut.
    """
    if not grid.edges:
        return []
    low, high = grid.window.start, grid.window.end
    first, last = found.row.first, found.row.last
    if not found.is_edge(low):
        low = found.whole_span(low, low + 1)[first is None or first < low]
    if not found.is_edge(high):
        high = found.whole_span(high, high + 1)[last is not None and last + MINUTE_S <= high]
    edges = [low, *(edge for edge in grid.edges if low < edge < high), high] if low < high else []
    return [each.at_least for each in _bounds_along(found, dimension, value, edges, since)]


def _on_edges_of_both(found: BreakdownRow, grid: Grid) -> Grid:
    """Returns the grid without edges inside a bucket of the counts, whose ladder may be the coarser one.

    A point that is made of several is wider than its step.
    """
    if not grid.edges or all(map(found.is_edge, grid.edges)):
        return grid
    first, last = found.whole_span(grid.edges[0], grid.edges[-1])
    edges = (first, *(edge for edge in grid.edges if first < edge < last and found.is_edge(edge)), last)
    wide = []
    for start, end in pairwise(edges):
        inside = range(max(0, bisect_left(grid.edges, start)), bisect_left(grid.edges, end))
        wide.append(
            start not in grid.edges or end not in grid.edges or any(grid.wide[i] for i in inside) or len(inside) > 1
        )
    return replace(grid, edges=edges, wide=tuple(wide), cut=(), texts={})


@dataclass(frozen=True, slots=True)
class VisitorAnswer:
    """The visitors of each day, or kept bucket of days, and their sum.

    unknown  people's hits of these days that do not tell whose they are: they said too little, or nothing.
    """

    days: list[VisitorSpan]
    sum: VisitorDays
    unknown: int


def list_visitors(found: BreakdownRow, span: tuple[int, int] | None, capped: BoundedLadder) -> VisitorAnswer:
    """Returns the visitors of the days that a range touches, None for the whole life."""
    days = visitors_between(found.breakdown, *(span or (0, END_OF_TIME)), capped)
    if span is None:
        counted, known = found.row.lifetime, visitor_days(days).known
    else:
        start, end = found.whole_days(*span)
        counted = sum(between(found.row, (start, end), Bots.exclude))
        known = visitor_days(visitors_between(found.breakdown, start, end, capped)).known
    # Of rows of different moments the visitors' hits may be the newer ones.
    return VisitorAnswer(days, visitor_days(days), max(0, counted - known))
