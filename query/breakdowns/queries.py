"""The questions about breakdowns, from parameters as they are written to answers. Free of HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from clickcurve.answers.breakdowns import ValueCurveAnswer, ValuesAnswer, VisitorsAnswer
from clickcurve.buckets.breakdowns.answers import Bounds
from clickcurve.buckets.errors import DimensionUnknown, ParameterInvalid
from clickcurve.buckets.ladder import Ladder
from clickcurve.budget import VALUE_POINTS, spend
from clickcurve.keys import Subject
from clickcurve.waiting import computed, locked
from query.breakdowns.reader import BreakdownReader
from query.breakdowns.selection import Selection, select
from query.breakdowns.unrecorded import BreakdownRow
from query.breakdowns.values import ValueCurve, bounds_of_values, count_values, curve_of_values, list_visitors
from query.counted import NO_EVENTS, KnownEvents
from query.curve import AT_ONCE, Grids
from query.grid import Grid
from query.parameters import (
    BY,
    BY_CURVE,
    VISITORS,
    Parameters,
    Window,
    parse_divided,
    parse_parameters,
    parse_query,
    resolve_range,
    resolve_until,
    resolve_window,
)

_VALUES_A_POINT = 20  # that are looked up in the time that a point takes with one
AT_ONCE_VALUES = 5_000  # of all buckets of a row, that are counted without leaving the event loop: some 3 ms

T = TypeVar("T")


@dataclass(eq=False)
class BreakdownQueries:
    """Answers about breakdowns for a node. `clock` is epoch seconds.

    dimensions  those that hits are broken down by. since: the moment since which one is; no hit at or after it was
    counted before. kept_value  returns what is kept of a value that is asked for, given its dimension. salts_in: how
    often a visitor of a day may be counted, given a span of days. events: those that can be asked for in place of
    clicks. `query` as in `query.queries`, and the same errors are raised.
    """

    reader: BreakdownReader
    dimensions: Sequence[str]
    since: Callable[[str], int]
    clock: Callable[[], float]
    kept_value: Callable[[str, str], str] = lambda dimension, value: value
    salts_in: Callable[[int, int], int] = lambda start, end: 1
    events: KnownEvents = NO_EVENTS

    def __post_init__(self) -> None:
        self._grids = Grids()
        self._counting = asyncio.Lock()

    async def by(self, subject: Subject, dimension: str, query: bytes) -> ValuesAnswer:
        """Returns the hits of a row by the values of a dimension; raises DimensionUnknown."""
        parameters = parse_divided(query, BY)
        return await self._values(self.events.subject(subject, parameters.measure), dimension, parameters)

    async def values_in(self, stored: str, dimension: str, parameters: Parameters) -> ValuesAnswer:
        """Returns the same for a stored key and parameters that are parsed, for answers of other shapes."""
        return await self._values(Subject(stored, None), dimension, parameters)

    async def _values(self, subject: Subject, dimension: str, parameters: Parameters) -> ValuesAnswer:
        self._require_dimension(dimension)
        selection = self._selection(dimension, parameters)
        now = int(self.clock())
        row = await self.read(subject.stored, now, (dimension,), _start(parameters, now))
        span = resolve_range(parameters, now, row.counts.first)

        def counted() -> ValuesAnswer:
            counts = count_values(row, dimension, span)
            return counts.answer(subject.name, counts.selected(selection, parameters.limit), selection)

        return await self.count(row, counted)

    async def curve(self, subject: Subject, dimension: str, query: bytes) -> ValueCurveAnswer:
        """Returns values along time, one, several together, or all but some; raises DimensionUnknown."""
        self._require_dimension(dimension)
        parameters = parse_divided(query, BY_CURVE)
        subject = self.events.subject(subject, parameters.measure)
        selection = self._selection(dimension, parameters)
        if not selection:
            raise ParameterInvalid(
                "value is missing: a curve is of one value, of several together, or of all but some (not)",
                field="value",
                rule="a value; an empty one stands for hits without a value",
            )
        now = int(self.clock())
        window = resolve_window(parameters, now, self.ladder)
        row = await self.read(subject.stored, now, (dimension,), None if window is None else window.start)
        window = window or resolve_until(parameters, row.counts.first)
        grid = await self._grids.grid(window, self.ladder, row.counts.fold_day)
        return (await self._value_curve(row, dimension, selection, grid, now)).answer(subject.name)

    async def bounds_in(
        self, subject: Subject, dimension: str, values: Sequence[str], span: tuple[int, int]
    ) -> list[Bounds]:
        """Returns the bounds of several values in [start, end), read at once; raises DimensionUnknown."""
        self._require_dimension(dimension)
        row = await self.read(subject.stored, int(self.clock()), (dimension,), span[0])
        return await self.count(row, lambda: bounds_of_values(row, dimension, values, span))

    async def read(self, stored: str, now: int, dimensions: Sequence[str], start: int | None = None) -> BreakdownRow:
        """Returns the row of a stored key with these dimensions of its breakdown; start: as of the reader."""
        row = await self.reader.read(stored, now, dimensions, start)
        return replace(row, since={name: self.since(name) for name in dimensions})

    async def read_of_one_moment(
        self, keys: Sequence[str], now: int, dimension: str, parameters: Parameters
    ) -> tuple[list[BreakdownRow], bool]:
        """Returns rows with a dimension over the range that is asked for, and whether they are of one moment.

        As the reader's `of_one_moment`; raises DimensionUnknown.
        """
        self._require_dimension(dimension)
        rows, is_settled = await self.reader.of_one_moment(keys, now, (dimension,), _start(parameters, now))
        since = {dimension: self.since(dimension)}
        return [replace(row, since=since) for row in rows], is_settled

    async def count(self, row: BreakdownRow, call: Callable[[], T]) -> T:
        """Returns what a call counts of a row's dimensions: at once, or of many values in a thread."""
        return await self.count_all((row,), call)

    async def count_all(self, rows: Sequence[BreakdownRow], call: Callable[[], T]) -> T:
        """Returns what a call counts of several rows, in the same way."""
        tiers = [tier for row in rows for name in row.since for tier in row.breakdown.dimensions.get(name, ())]
        if sum(len(counts.values) for tier in tiers for counts in tier.values()) <= AT_ONCE_VALUES:
            return call()
        async with locked(self._counting, "counting values"):  # each thread more makes the event loop wait longer
            return await computed("counting values", call)

    @property
    def ladder(self) -> Ladder:
        """The ladder of breakdowns, whose buckets are wider than those of counts."""
        return self.reader.bounded.ladder

    async def value_curve_in(self, stored: str, dimension: str, value: str, window: Window) -> ValueCurve:
        """Returns one value of a stored key along a window, for answers of other shapes."""
        self._require_dimension(dimension)
        now = int(self.clock())
        row = await self.read(stored, now, (dimension,), window.start)
        grid = await self._grids.grid(window, self.ladder, row.counts.fold_day)
        return await self._value_curve(row, dimension, Selection((self.kept_value(dimension, value),)), grid, now)

    async def value_curves_in(
        self, stored: str, dimension: str, window: Window, wanted: Callable[[str], Awaitable[bool]], most: int
    ) -> list[ValueCurve]:
        """Returns the `most` greatest values of a window that are wanted, each along it, greatest first."""
        self._require_dimension(dimension)
        now = int(self.clock())
        row = await self.read(stored, now, (dimension,), window.start)
        grid = await self._grids.grid(window, self.ladder, row.counts.fold_day)

        def counted() -> list[str]:
            counts = count_values(row, dimension, (window.start, window.end))
            return counts.greatest(len(counts.counts))

        values = [value for value in await self.count(row, counted) if await wanted(value)][:most]
        return [await self._value_curve(row, dimension, Selection((value,)), grid, now) for value in values]

    async def _value_curve(
        self, row: BreakdownRow, dimension: str, selection: Selection, grid: Grid, now: int
    ) -> ValueCurve:
        """Returns values of a row; a curve of many points is made in a thread: 8,000 take 50 ms."""
        points = len(grid.edges) * (1 + len(selection.named) // _VALUES_A_POINT)
        await spend(VALUE_POINTS, points)
        if points <= AT_ONCE:
            return curve_of_values(row, dimension, selection, grid, now)
        return await computed("counting a value", curve_of_values, row, dimension, selection, grid, now)

    def _selection(self, dimension: str, parameters: Parameters) -> Selection:
        """Returns the values that are asked for; raises ParameterInvalid."""
        return select(parameters.values, parameters.left_out, partial(self.kept_value, dimension))

    async def visitors(self, subject: Subject, query: bytes) -> VisitorsAnswer:
        """Returns the visitors of a link or a group by days, and their sum."""
        parameters = parse_parameters(parse_query(query, VISITORS))
        now = int(self.clock())
        row = await self.reader.read(subject.stored, now, (), _start(parameters, now))
        return list_visitors(row, subject.name, resolve_range(parameters, now, row.counts.first), self.salts_in)

    def _require_dimension(self, dimension: str) -> None:
        if dimension not in self.dimensions:
            names = ", ".join(self.dimensions)
            raise DimensionUnknown(
                f"hits are not broken down by {dimension!r}; dimensions: {names}",
                field="dimension",
                value=dimension,
                rule=names,
            )


def _start(parameters: Parameters, now: int) -> int | None:
    """Returns where the range that is asked for begins; None: with the first hit."""
    asked = resolve_range(parameters, now, None)
    return None if asked is None or (parameters.start is None and parameters.last is None) else asked[0]
