"""Counts along time for a name: which links a pattern means, and their points in a range."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.ladder import Ladder, fold_day
from clickcurve.buckets.measures import CLICKS as CLICKS_COUNTED
from clickcurve.buckets.measures import Measure, is_event_name
from clickcurve.budget import POINTS, spend
from clickcurve.keys import ALL_LINKS, group_key, link_key
from clickcurve.times import require_in_range
from query.breakdowns.queries import BreakdownQueries
from query.curve import Curve
from query.grid import Grid, fitting_step
from query.parameters import MAX_TOP, Parameters, Window
from query.queries import Queries
from query.steps import STEPS, Step
from query.zones import Zone
from server.compat.graphite.names import (
    CLICKS,
    EVENTS,
    GROUPS,
    NAME_RULE,
    TOTAL,
    VALUES,
    NodePattern,
    node_name,
    node_text,
    nodes_of,
    places_of,
)
from server.compat.links import greatest_links, matching_keys

MOST_SERIES = 200  # of one pattern; each is a row to read
_OF_GRID = 10  # times as much work to find where a point lies as to make it
_STORED_OF = {CLICKS: link_key, GROUPS: group_key}


@dataclass(frozen=True, slots=True)
class AskedSpan:
    """The asked range in epoch seconds, with the most points of a series and, for `summarize`, the least step."""

    start: int
    end: int
    zone: Zone
    most_points: int
    least: Step | None = None

    def moved(self, by_s: int) -> AskedSpan:
        """Returns the range so much later; raises ParameterInvalid beyond the year 9998."""
        end = require_in_range("target", f"{by_s:+} seconds", max(1, self.end + by_s))
        return replace(self, start=max(0, self.start + by_s), end=end)


@dataclass(frozen=True, slots=True)
class CountSeries:
    """Points at `starts`, None where nothing can have been counted; `path` is the name that they were read for.

    tier: the coarsest of the ladder's tiers in it, of counts as they are kept; None for other series.
    """

    name: str
    path: str
    starts: tuple[int, ...]
    values: tuple[float | None, ...]
    step: str = ""
    tier: int | None = None

    def renamed(self, name: str) -> CountSeries:
        return replace(self, name=name)

    def known(self) -> list[float]:
        return [value for value in self.values if value is not None]


class SeriesReader:
    """Reads series for names and patterns. breakdowns: None for a server without breakdowns."""

    def __init__(self, queries: Queries, breakdowns: BreakdownQueries | None) -> None:
        self.queries = queries
        self._breakdowns = breakdowns

    async def read(self, path: str, span: AskedSpan) -> list[CountSeries]:
        """Returns the series that a name or pattern means. One that nobody ever hit is there and has no values."""
        nodes = nodes_of(path)
        places = places_of(nodes)
        if (
            nodes[0] not in (TOTAL, EVENTS, VALUES, *_STORED_OF)
            or "" in nodes
            or len(nodes) not in (places, places + 2)
        ):
            raise ParameterInvalid(f"there is no {path}", field="target", value=path, rule=NAME_RULE)
        subjects = await self.subjects(nodes, path)
        if len(nodes) > places:
            return await self._series_of_values(subjects, nodes[-2], NodePattern(nodes[-1]), span, path)
        return await self._counts(subjects, span)

    async def _counts(self, subjects: Sequence[tuple[str, str]], span: AskedSpan) -> list[CountSeries]:
        """Returns the series of names with their stored keys."""
        window = await self._window(span)
        return [
            self._series(name, await self.queries.curve_in(stored, window), span.most_points)
            for name, stored in subjects
        ]

    async def subjects(self, nodes: Sequence[str], path: str) -> list[tuple[str, str]]:
        """Returns the names and stored keys of what the first nodes of a pattern mean."""
        if nodes[0] == TOTAL:
            return [(TOTAL, ALL_LINKS)]
        if nodes[0] in _STORED_OF:
            return await self._rows_of(CLICKS_COUNTED, nodes[0], nodes[0], NodePattern(nodes[1]), path)
        measures = await self.measures(nodes[0], NodePattern(nodes[1]))
        if len(nodes) == 2:
            return [(f"{nodes[0]}.{each.event}", each.row(ALL_LINKS)) for each in measures]
        rows: list[tuple[str, str]] = []
        for each in measures:
            rows += await self._rows_of(each, CLICKS, f"{nodes[0]}.{each.event}", NodePattern(nodes[2]), path)
        return rows

    async def _rows_of(
        self, measure: Measure, kind: str, prefix: str, pattern: NodePattern, path: str
    ) -> list[tuple[str, str]]:
        """Returns the names, which begin with a prefix, and the stored keys of the links or groups of a node."""
        keys, more = await self.keys(kind, pattern, MOST_SERIES, measure)
        if more:
            raise ParameterInvalid(
                f"{path} stands for more than {MOST_SERIES} {'links' if kind == CLICKS else GROUPS}: name fewer,"
                f" rank all links with highest({prefix if measure.event else CLICKS}.*, 10, 'sum'), or take"
                f" {prefix if measure.event else TOTAL} for the sum of all links",
                field="target",
                value=path,
                rule=f"at most {MOST_SERIES}",
            )
        return [(f"{prefix}.{node_name(key)}", measure.row(_STORED_OF[kind](key))) for key in keys]

    async def measures(self, kind: str, pattern: NodePattern) -> list[Measure]:
        """Returns what the nodes `events` or `values` and an event mean; raises ParameterInvalid for an unknown one."""
        of_values = kind == VALUES
        if pattern.is_plain:
            return [self.queries.events.checked(Measure(pattern.text, of_values))]
        return [Measure(name, of_values) for name in self.queries.events.names() if await pattern.matches(name)]

    async def _series_of_values(
        self, subjects: Sequence[tuple[str, str]], node: str, pattern: NodePattern, span: AskedSpan, path: str
    ) -> list[CountSeries]:
        """Returns the series of values of a dimension: what is certain of each."""
        breakdowns = self._known_breakdowns(node_text(node))
        window = await self._window(span, breakdowns.ladder)
        selected: list[CountSeries] = []
        for name, stored in subjects:
            if pattern.is_plain:
                curves = [await breakdowns.value_curve_in(stored, node_text(node), node_text(pattern.text), window)]
            else:
                most = MOST_SERIES - len(selected) + 1
                curves = await breakdowns.value_curves_in(stored, node_text(node), window, pattern.matches, most)
            if len(selected) + len(curves) > MOST_SERIES:
                rule = f"at most {MOST_SERIES}"
                raise ParameterInvalid(f"{path} stands for too many series", field="target", value=path, rule=rule)
            for curve in curves:
                await spend(POINTS, len(curve.bounds))
                certain = [bounds.at_least for bounds in curve.bounds]
                named = f"{name}.{node}.{node_name(curve.value)}"
                selected.append(self._series_of(named, curve.grid, certain, curve.first, span.most_points))
        return selected

    @property
    def dimensions(self) -> Sequence[str]:
        """The names of the dimensions; none for a server without breakdowns."""
        return self._breakdowns.dimensions if self._breakdowns is not None else ()

    def _known_breakdowns(self, dimension: str) -> BreakdownQueries:
        if self._breakdowns is None or dimension not in self.dimensions:
            names = ", ".join(self.dimensions) or "none"
            raise ParameterInvalid(
                f"there is no dimension {dimension!r}; known: {names}", field="target", value=dimension, rule=names
            )
        return self._breakdowns

    async def values(self, stored: str, dimension: str, pattern: NodePattern) -> list[str]:
        """Returns the values of a dimension that a node means, those of all time, greatest first."""
        breakdowns = self._known_breakdowns(dimension)
        if pattern.is_plain:
            return [node_text(pattern.text)]
        listed = await breakdowns.values_in(stored, dimension, Parameters(limit=MAX_TOP))
        return [each.value for each in listed.values if await pattern.matches(each.value)]

    async def greatest(self, path: str, span: AskedSpan, n: int) -> list[CountSeries] | None:
        """Returns the n links with the most hits; None for a path that does not mean all links."""
        prefix, _, last = path.rpartition(".")
        kind, _, event = prefix.partition(".")
        if last != "*" or (prefix != CLICKS and not (kind in (EVENTS, VALUES) and is_event_name(event))):
            return None
        measure = CLICKS_COUNTED if prefix == CLICKS else (await self.measures(kind, NodePattern(event)))[0]
        links = await greatest_links(self.queries, span.start, span.end, min(n, MAX_TOP), measure)
        named = [(f"{prefix}.{node_name(key)}", measure.row(link_key(key))) for key, _ in links]
        return await self._counts(named, span)

    async def keys(
        self, kind: str, pattern: NodePattern, most: int, measure: Measure = CLICKS_COUNTED
    ) -> tuple[list[str], bool]:
        """Returns the first links or groups that a node means, in their order, and whether there may be more."""
        if pattern.is_plain:
            return [node_text(pattern.text)], False
        return await matching_keys(self.queries, pattern.matches, most, pattern.prefix, kind == GROUPS, measure)

    async def _window(self, span: AskedSpan, coarser: Ladder | None = None) -> Window:
        """Returns the range with the finest step that all of it has, in this ladder too, and that fits.

        A step is found by an estimate of its points; whether these are too many shows once they are made.
        """
        day, least = fold_day(self.queries.now()), span.least
        while True:
            for ladder in (self.queries.ladder, coarser):
                if ladder is not None:
                    least = fitting_step(span.start, span.end, span.zone, ladder, day, span.most_points, least)
            assert least is not None
            window = Window(span.start, span.end, least, span.zone)
            longer = [step for step in STEPS.values() if step.average_s > least.average_s]
            points = await self.queries.points_in(window)
            await spend(POINTS, _OF_GRID * points)
            if not longer or points <= span.most_points:
                return window
            least = min(longer, key=lambda step: step.average_s)

    def _series(self, name: str, curve: Curve, most_points: int) -> CountSeries:
        """Returns a curve as a series: without a value before the link's first hit, and after now."""
        series = self._series_of(name, curve.grid, curve.counts, curve.first, most_points)
        if not series.starts:
            return series
        return replace(series, tier=self.queries.ladder.tier_of(series.starts[0], curve.grid.fold_day))

    def _series_of(
        self, name: str, grid: Grid, counts: Sequence[int], first: int | None, most_points: int
    ) -> CountSeries:
        starts = grid.edges[:-1]
        ended = bisect_right(starts, self.queries.now())
        begun = ended if first is None else min(max(0, bisect_right(grid.edges, first) - 1), ended)
        values: list[float | None] = [None] * begun
        values += counts[begun:ended]
        values += [None] * (len(starts) - ended)
        if len(values) > most_points:  # the longest step is too short: neighbours are added up
            together = -(-len(values) // most_points)
            starts = starts[::together]
            values = [_sum_of_known(values[at : at + together]) for at in range(0, len(values), together)]
        return CountSeries(name, name, starts, tuple(values), grid.window.step.name)


def _sum_of_known(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None
