"""The answers about a breakdown, pure: values of a range with bounds, one value along time, visitors by day.

A range that cuts kept buckets is answered by those buckets whole: nothing is interpolated. So the parts of an
answer add up to the total of the span that it names, which holds the range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from msgspec import UNSET

from clickcurve.answers.breakdowns import (
    NotShown,
    SumOfValues,
    ValueAnswer,
    ValueCurveAnswer,
    ValuePointAnswer,
    ValuesAnswer,
    VisitorDay,
    VisitorsAnswer,
)
from clickcurve.buckets.breakdowns.answers import (
    Bounds,
    VisitorSpan,
    breakdown_total,
    lacked_together,
    recorded_between,
    standard_error,
    values_between,
    visitor_days,
    visitors_between,
)
from clickcurve.buckets.breakdowns.breakdown import NOT_GIVEN, greatest_values
from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.ladder import END_OF_TIME, MINUTE_S
from clickcurve.buckets.ranges import Bots, between, total
from query.breakdowns.selection import Selection
from query.breakdowns.unrecorded import BreakdownRow, series_of
from query.grid import Grid

ALL_VALUES = Selection()


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """The values of a dimension in a span of whole kept buckets, None for the whole life.

    counts  value -> at least so many hits. slack: the most that a value may have more; unsure: the same of `""`.
    """

    dimension: str
    span: tuple[int, int] | None
    total: int
    counts: dict[str, int]
    slack: int
    unsure: int
    other: int
    unrecorded: int
    exact: bool
    kept_since: int | None

    def bounds(self, value: str) -> Bounds:
        """Returns the bounds of a value's hits, also of one that was never kept."""
        at_least = self.counts.get(value, 0)
        return Bounds(at_least, at_least + (self.unsure if value == NOT_GIVEN else self.slack))

    def greatest(self, limit: int) -> list[str]:
        """Returns the `limit` greatest values, and `""` if it counts."""
        values = greatest_values(self.counts, limit)
        return [*values, NOT_GIVEN] if NOT_GIVEN in self.counts and NOT_GIVEN not in values else values

    def selected(self, selection: Selection, limit: int) -> list[str]:
        """Returns the values of a selection, greatest first: all that it names, or so many of those left, and `""`."""
        if selection.values:
            return sorted(selection.values, key=lambda value: (-self.counts.get(value, 0), value))
        left_out = frozenset(selection.left_out)
        if not left_out:
            return self.greatest(limit)
        left = [value for value in self.greatest(limit + len(left_out)) if value not in left_out]
        return [*left[:limit], *(value for value in left[limit:] if value == NOT_GIVEN)]

    def together(self, selection: Selection) -> Bounds:
        """Returns the bounds of a selection's hits together."""
        named = selection.named
        at_least = sum([self.counts.get(value, 0) for value in named])
        has_silent = NOT_GIVEN in named
        more = lacked_together(len(named) - has_silent, self.slack, self.other) + (self.unsure if has_silent else 0)
        return selection.bounds(Bounds(at_least, at_least + more), self.total)

    def answer(self, name: str | None, shown: Sequence[str], selection: Selection = ALL_VALUES) -> ValuesAnswer:
        """Returns the answer that shows these values and not the others. selection: what was asked for."""
        values = [ValueAnswer(value, *self.bounds(value)) for value in shown]
        hidden = len(self.counts) - len([value for value in shown if value in self.counts])
        hidden_count = sum(self.counts.values()) - sum([each.at_least for each in values])
        return ValuesAnswer(
            key=name,
            dimension=self.dimension,
            start=None if self.span is None else self.span[0],
            end=None if self.span is None else self.span[1],
            total=self.total,
            values=values,
            shown=len(values),
            not_shown=NotShown(hidden, hidden_count),
            other=self.other,
            unrecorded=self.unrecorded,
            exact=self.exact,
            kept_since=UNSET if self.kept_since is None else self.kept_since,
            sum=SumOfValues(*self.together(selection)) if selection and not selection.is_one else UNSET,
            left_out=list(selection.left_out) or UNSET,
        )


def count_values(row: BreakdownRow, dimension: str, span: tuple[int, int] | None) -> ValueCounts:
    """Counts the values of a range, None for the whole life."""
    start, end = (0, END_OF_TIME) if span is None else row.whole_span(*span)
    recorded = breakdown_total(row.breakdown, dimension, start, end, row.bounded)
    counts = dict(recorded.values)
    (missing,) = row.without_value(dimension, (start, end))
    not_given = counts.get(NOT_GIVEN, 0) + missing.not_given
    if not_given or missing.unsure:
        counts[NOT_GIVEN] = not_given
    counted = recorded.recorded + missing.not_given + missing.unrecorded
    exact = not recorded.slack and not missing.unsure
    opening = 0
    if span is None:
        opening = row.counts.opening if dimension not in OF_BOTS else 0  # without dates, so from before all dimensions
    else:
        exact = exact and total(row.counts, *span, series_of(dimension), row.ladder).at_least == counted
    return ValueCounts(
        dimension=dimension,
        span=None if span is None else (start, end),
        total=counted + opening,
        counts=counts,
        slack=recorded.slack,
        unsure=missing.unsure,
        other=recorded.other,
        unrecorded=missing.unrecorded + opening,
        exact=exact,
        kept_since=row.bounded.kept_since(dimension, row.counts.fold_day),
    )


def bounds_of_values(row: BreakdownRow, dimension: str, values: Sequence[str], span: tuple[int, int]) -> list[Bounds]:
    """Returns the bounds of values in a range.

    Rows of counts are finer. So where the range cuts a bucket, they say how many of its hits lie outside: a value has
    at least the others of its hits inside, and at most all hits inside.
    """
    at_least, at_most = dict.fromkeys(values, 0), dict.fromkeys(values, 0)
    first, last = row.whole_span(*span)
    cuts = {row.edge_at_or_after(span[0]), row.edge_at_or_before(span[1])}
    for start, end in pairwise(sorted({first, last, *(cut for cut in cuts if first < cut < last)})):
        counts = count_values(row, dimension, (start, end))
        inside = total(row.counts, max(start, span[0]), min(end, span[1]), series_of(dimension), row.ladder)
        for value in values:
            bounds = counts.bounds(value)
            at_least[value] += max(0, bounds.at_least - (counts.total - inside.at_least))
            at_most[value] += min(bounds.at_most, inside.at_most)
    return [Bounds(at_least[value], at_most[value]) for value in values]


@dataclass(frozen=True, slots=True)
class ValueCurve:
    """The values of a selection along time: the bounds of each point of the grid, and those of the asked range."""

    dimension: str
    selection: Selection
    grid: Grid
    open_from: int
    bounds: list[Bounds]
    whole: Bounds
    first: int | None
    kept_since: int | None

    def answer(self, name: str | None) -> ValueCurveAnswer:
        """Returns the curve as an answer; name None for all links together."""
        window, edges = self.grid.window, self.grid.edges
        at_least, at_most = [each.at_least for each in self.bounds], [each.at_most for each in self.bounds]
        states = self.grid.states(self.open_from)
        points = list(map(ValuePointAnswer, edges, edges[1:], at_least, at_most, states, self.grid.wide))
        return ValueCurveAnswer(
            key=name,
            dimension=self.dimension,
            value=self.value if self.selection.is_one else None,
            start=window.start,
            end=window.end,
            step=window.step.name,
            tz=window.zone.name,
            first_hit=self.first,
            at_least=self.whole.at_least,
            at_most=self.whole.at_most,
            exact=self.whole.at_least == self.whole.at_most,
            points=points,
            kept_since=UNSET if self.kept_since is None else self.kept_since,
            values=UNSET if self.selection.is_one else list(self.selection.values) or UNSET,
            left_out=list(self.selection.left_out) or UNSET,
        )

    @property
    def value(self) -> str:
        """The value, of a curve of a single one."""
        (value,) = self.selection.values
        return value


def curve_of_values(row: BreakdownRow, dimension: str, selection: Selection, grid: Grid, now: int) -> ValueCurve:
    """Returns the bounds of a selection along a grid of the breakdown's ladder and of the rows' fold day."""
    # The counts may have the coarser ladder.
    grid = grid.without(lambda edge: None if row.is_edge(edge) else row.whole_span(edge, edge + 1))
    bounds = _bounds_along(row, dimension, selection, grid.edges)
    at_most = sum([each.at_most for each in bounds])
    whole = Bounds(sum(_certain(row, dimension, selection, grid)), at_most)
    kept_since = row.bounded.kept_since(dimension, row.counts.fold_day)
    return ValueCurve(dimension, selection, grid, grid.open_from(now), bounds, whole, row.counts.first, kept_since)


def _bounds_along(row: BreakdownRow, dimension: str, selection: Selection, edges: Sequence[int]) -> list[Bounds]:
    named = values_between(row.breakdown, dimension, selection.named, edges)
    if selection.is_one and selection.named != (NOT_GIVEN,):
        return named
    missing = row.without_value(dimension, edges)
    if NOT_GIVEN in selection.named:
        named = [
            Bounds(each.at_least + without.not_given, each.at_most + without.not_given + without.unsure)
            for each, without in zip(named, missing, strict=True)
        ]
    if selection.is_one:
        return named
    recorded = recorded_between(row.breakdown, dimension, edges)
    return [
        selection.bounds(each, hits + without.not_given + without.unrecorded)
        for each, hits, without in zip(named, recorded, missing, strict=True)
    ]


def _certain(row: BreakdownRow, dimension: str, selection: Selection, grid: Grid) -> list[int]:
    """Returns the least of the selection's hits in points, cut to buckets with hits of the range alone.

    Those are the whole ones, and one that is cut where the link has no hits beyond the cut.
    """
    if not grid.edges:
        return []
    low, high = grid.window.start, grid.window.end
    first, last = row.counts.first, row.counts.last
    if not row.is_edge(low):
        low = row.whole_span(low, low + 1)[first is None or first < low]
    if not row.is_edge(high):
        high = row.whole_span(high, high + 1)[last is not None and last + MINUTE_S <= high]
    edges = [low, *(edge for edge in grid.edges if low < edge < high), high] if low < high else []
    return [each.at_least for each in _bounds_along(row, dimension, selection, edges)]


def list_visitors(
    row: BreakdownRow,
    name: str | None,
    span: tuple[int, int] | None,
    salts_in: Callable[[int, int], int] = lambda start, end: 1,
) -> VisitorsAnswer:
    """Returns the visitors of the days that a range touches, None for the whole life.

    salts_in: how many salts a day of a span has had. A visitor may have a hash under each of them.
    """
    # Hashes do not say what their hits said, so visitors stay what they were when hits are called bots.
    row = replace(row, counts=row.counts._replace(disavowed=None))
    days = visitors_between(row.breakdown, *(span or (0, END_OF_TIME)), row.bounded)
    days = [day._replace(visitors=day.visitors.under(salts_in(day.start, day.end))) for day in days]
    whole = visitor_days(days)
    if span is None:
        counted, with_visitor = row.counts.lifetime, whole.known
    else:
        start, end = row.whole_days(*span)
        counted = sum(between(row.counts, (start, end), Bots.exclude))
        with_visitor = visitor_days(visitors_between(row.breakdown, start, end, row.bounded)).known
    return VisitorsAnswer(
        key=name,
        visitor_days=whole.estimate(),
        at_least=whole.at_least,
        at_most=whole.at_most,
        exact=whole.exact,
        days=[_visitor_day(span) for span in days],
        # Of rows of different moments the visitors' hits may be the newer ones.
        unknown=max(0, counted - with_visitor),
        error=standard_error(days),
    )


def _visitor_day(span: VisitorSpan) -> VisitorDay:
    day = span.visitors
    return VisitorDay(
        span.start, span.end, day.estimate(), day.at_least, day.at_most, day.exact, standard_error([span])
    )
