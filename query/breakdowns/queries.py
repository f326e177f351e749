"""The questions about breakdowns, from parameters as they are written to the answer's bytes. Free of HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from clickcurve.buckets.errors import DimensionUnknown, ParameterInvalid
from clickcurve.buckets.ladder import Ladder
from clickcurve.budget import POINTS, spend
from clickcurve.keys import ALL_LINKS
from query.breakdowns.divide import ValueCurve, ValueList, curve_of_value, list_values, list_visitors, one_value
from query.breakdowns.reader import BreakdownReader
from query.breakdowns.text import value_curve_csv, value_curve_json, values_csv, values_json, visitors_json
from query.breakdowns.unrecorded import BreakdownRow
from query.curve import Curves
from query.parameters import (
    BY,
    BY_CURVE,
    VISITORS,
    Parameters,
    Window,
    parse_parameters,
    parse_query,
    resolve_range,
    resolve_until,
    resolve_window,
)
from query.queries import CSV, JSON, Content

_ALL_VALUES = 10**9


class Subject(NamedTuple):
    """What is asked about: a stored row of counts, and what it is called in the answer."""

    stored: str
    name: str | None


ALL = Subject(ALL_LINKS, None)


class BreakdownQueries:
    """Answers about breakdowns for a node. `clock` is epoch seconds.

    dimensions  those that hits are divided by. since: the moment since which one is; no hit at or after it was counted
    before. `query` and `accepts_csv` as in `query.queries`, and the same errors are raised.
    """

    def __init__(
        self,
        reader: BreakdownReader,
        dimensions: Sequence[str],
        since: Callable[[str], int],
        clock: Callable[[], float],
    ) -> None:
        self._reader = reader
        self._dimensions = dimensions
        self._since = since
        self._clock = clock
        self._curves = Curves()

    async def by(self, subject: Subject, dimension: str, query: bytes, accepts_csv: bool = False) -> Content:
        """Returns how the hits of a row divide by a dimension; raises DimensionUnknown."""
        parameters = parse_parameters(parse_query(query, BY))
        answer = await self.values_in(subject.stored, dimension, parameters)
        if parameters.as_csv(accepts_csv):
            return CSV, values_csv(answer)
        return JSON, values_json(subject.name, answer)

    async def values_in(self, stored: str, dimension: str, parameters: Parameters) -> ValueList:
        """Returns the same as a value, for answers of other shapes."""
        self._require_known(dimension)
        now = int(self._clock())
        found = await self._reader.read(stored, now, (dimension,), _start(parameters, now))
        span, since, capped = _asked_range(parameters, now, found), self._since(dimension), self._reader.capped
        if parameters.value is None:
            return list_values(found, dimension, span, since, parameters.limit, capped)
        return one_value(found, dimension, span, since, parameters.value, capped)

    async def curve(self, subject: Subject, dimension: str, query: bytes, accepts_csv: bool = False) -> Content:
        """Returns one value along time; raises DimensionUnknown."""
        self._require_known(dimension)
        parameters = parse_parameters(parse_query(query, BY_CURVE))
        if parameters.value is None:
            raise ParameterInvalid(
                "value is missing: a curve is of one value", field="value", rule="a value, perhaps empty: not given"
            )
        now = int(self._clock())
        ladder = self._reader.capped.ladder
        window = resolve_window(parameters, now, ladder)
        found = await self._reader.read(subject.stored, now, (dimension,), None if window is None else window.start)
        window = window or resolve_until(parameters, found.row.first)
        grid = await self._curves.grid(window, ladder, found.row.fold_day)
        curve = curve_of_value(found, dimension, parameters.value, self._since(dimension), grid, now)
        if parameters.as_csv(accepts_csv):
            return CSV, value_curve_csv(curve)
        return JSON, value_curve_json(subject.name, curve)

    @property
    def dimensions(self) -> Sequence[str]:
        return self._dimensions

    @property
    def ladder(self) -> Ladder:
        """The ladder of breakdowns, whose buckets are wider than those of counts."""
        return self._reader.capped.ladder

    async def value_curve_in(self, stored: str, dimension: str, value: str, window: Window) -> ValueCurve:
        """Returns one value of a stored key along a window, for answers of other shapes."""
        self._require_known(dimension)
        now = int(self._clock())
        found = await self._reader.read(stored, now, (dimension,), window.start)
        grid = await self._curves.grid(window, self.ladder, found.row.fold_day)
        return curve_of_value(found, dimension, value, self._since(dimension), grid, now)

    async def value_curves_in(
        self, stored: str, dimension: str, window: Window, wanted: Callable[[str], Awaitable[bool]], most: int
    ) -> list[ValueCurve]:
        """Returns the `most` greatest values of a window that are wanted, each along it, greatest first."""
        self._require_known(dimension)
        now = int(self._clock())
        found = await self._reader.read(stored, now, (dimension,), window.start)
        grid = await self._curves.grid(window, self.ladder, found.row.fold_day)
        since, capped = self._since(dimension), self._reader.capped
        listed = list_values(found, dimension, (window.start, window.end), since, _ALL_VALUES, capped).values
        values = [value for value, _ in listed if await wanted(value)][:most]
        curves = []
        for value in values:
            await spend(POINTS, len(grid.edges))
            curves.append(curve_of_value(found, dimension, value, since, grid, now))
        return curves

    async def visitors(self, subject: Subject, query: bytes) -> Content:
        """Returns the visitors of a link or a group by days, and their sum."""
        parameters = parse_parameters(parse_query(query, VISITORS))
        now = int(self._clock())
        found = await self._reader.read(subject.stored, now, (), _start(parameters, now))
        return JSON, visitors_json(
            subject.name, list_visitors(found, _asked_range(parameters, now, found), self._reader.capped)
        )

    def _require_known(self, dimension: str) -> None:
        if dimension not in self._dimensions:
            names = ", ".join(self._dimensions)
            raise DimensionUnknown(
                f"hits are not divided by {dimension!r}; known: {names}", field="dimension", value=dimension, rule=names
            )


def _start(parameters: Parameters, now: int) -> int | None:
    """Returns where the range that is asked for begins; None: with the first hit."""
    if parameters.start is None and parameters.last is None:
        return None
    return resolve_range(parameters, now, None)[0]


def _asked_range(parameters: Parameters, now: int, found: BreakdownRow) -> tuple[int, int] | None:
    """Returns the range that is asked for, None for the whole life."""
    return resolve_range(parameters, now, found.row.first) if parameters.ranged else None
