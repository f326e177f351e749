"""What the functions of a target do to series: Graphite's, as far as they make sense of counts.

Counts are added up and never averaged: so `summarize` and `consolidateBy` take `sum` alone, and say so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.budget import POINTS, spend
from clickcurve.waiting import computed
from query.steps import STEPS
from server.compat.expressions import Expression
from server.compat.graphite.moments import length_s
from server.compat.graphite.names import node_text, nodes_of
from server.compat.graphite.series import AskedSpan, CountSeries, SeriesReader
from server.compat.graphite.targets import CallTarget, PathTarget, Target

Found: TypeAlias = list[CountSeries]
_MOST_NAME = 2_048  # characters of a name that a target makes up
_MOST_NODES = 20  # of aliasByNode
_MOST_SUMMED = 50_000  # points of a sum: they are sorted in one piece, which takes 5 ms
_RANKS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": sum,
    "total": sum,
    "max": max,
    "average": lambda values: sum(values) / len(values),
    "avg": lambda values: sum(values) / len(values),
}


@dataclass(frozen=True, slots=True)
class Function:
    """A function of targets: what it takes, for pickers, and what it does."""

    description: str
    group: str
    parameters: tuple[tuple[str, str, bool], ...]  # name, type, required
    run: Callable[[Evaluation, CallTarget, AskedSpan], Awaitable[Found]]


class Evaluation:
    """Evaluates targets."""

    def __init__(self, reader: SeriesReader) -> None:
        self.reader = reader

    async def series(self, target: Target, span: AskedSpan) -> Found:
        """Returns the series of an expression; raises ParameterInvalid."""
        if isinstance(target, PathTarget):
            return await self.reader.read(target.text, span)
        if not isinstance(target, CallTarget):
            raise ParameterInvalid(
                f"{target!r} is not a series", field="target", value=target, rule="a name or function"
            )
        function = FUNCTIONS.get(target.function)
        if function is None:
            names = ", ".join(FUNCTIONS)
            detail = f"the function {target.function} is not known here; known: {names}"
            raise ParameterInvalid(detail, field="target", value=target.function, rule=names)
        return await function.run(self, target, span)

    async def first(self, call: CallTarget, span: AskedSpan) -> Found:
        """Returns the series of the first argument."""
        if not call.arguments:
            raise _wrong(call, "the first argument is missing", "series first")
        return await self.series(call.arguments[0], span)

    async def each(self, call: CallTarget, span: AskedSpan) -> Found:
        """Returns the series of all arguments."""
        return [one for argument in call.arguments for one in await self.series(argument, span)]


def _wrong(call: CallTarget, why: str, rule: str) -> ParameterInvalid:
    return ParameterInvalid(f"{call.function}: {why}", field="target", value=call.text, rule=rule)


def _argument(call: CallTarget, at: int, name: str, kind: type, default: Any = None) -> Any:
    """Returns an argument by its place or name; raises ParameterInvalid if it is missing or of another kind."""
    value = call.arguments[at] if at < len(call.arguments) else call.keywords.get(name, default)
    if kind is int and isinstance(value, float) and value == int(value):
        return int(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        word = {str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise _wrong(call, f"its argument {name} must be {word}", f"{name}: {word}")
    return value


def _n_of(call: CallTarget, at: int, default: int | None = None) -> int:
    n: int = _argument(call, at, "n", int, default)
    if n < 1:
        raise _wrong(call, "n must be 1 or more", "n: from 1")
    return n


def _require_sum(call: CallTarget, at: int, name: str) -> None:
    function: str = _argument(call, at, name, str, "sum")
    if function not in ("sum", "total"):
        detail = f"{function!r} would not keep the counts: hits are added up, and every consolidation here is a sum"
        raise _wrong(call, detail, "'sum'")


# --- names ----------------------------------------------------------------------------------------------------------
def _require_short(call: CallTarget, name: str) -> str:
    if len(name) > _MOST_NAME:
        raise _wrong(call, f"a name of {len(name):,} characters is too long", f"at most {_MOST_NAME:,} characters")
    return name


async def _alias(evaluation: Evaluation, call: CallTarget, span: AskedSpan) -> Found:
    name = _require_short(call, _argument(call, 1, "newName", str))
    return [series.renamed(name) for series in await evaluation.first(call, span)]


async def _alias_by_node(evaluation: Evaluation, call: CallTarget, span: AskedSpan) -> Found:
    each_series = await evaluation.first(call, span)
    at = [_argument(call, i, "nodes", int) for i in range(1, len(call.arguments))]
    if not at:
        raise _wrong(call, "the second argument is missing", "numbers of nodes, from 0")
    if len(at) > _MOST_NODES:
        raise _wrong(call, f"{len(at):,} nodes are too many", f"at most {_MOST_NODES} nodes")
    return [series.renamed(_named_by(series.path, at)) for series in each_series]


def _named_by(path: str, at: Sequence[int]) -> str:
    """Returns the nodes of a path at these places, with keys and values as they are."""
    nodes = nodes_of(path)
    return ".".join((node_text(nodes[i]) or "(not given)") if -len(nodes) <= i < len(nodes) else "" for i in at)


async def _alias_by_metric(evaluation: Evaluation, call: CallTarget, span: AskedSpan) -> Found:
    return [series.renamed(_named_by(series.path, [-1])) for series in await evaluation.first(call, span)]


async def _alias_sub(evaluation: Evaluation, call: CallTarget, span: AskedSpan) -> Found:
    search, replacement = _argument(call, 1, "search", str), _argument(call, 2, "replace", str)
    expression = await Expression.compiled("target", search, captures=True)
    each_series = await evaluation.first(call, span)
    return [series.renamed(await expression.replaced(series.name, replacement, _MOST_NAME)) for series in each_series]


# --- counts ---------------------------------------------------------------------------------------------------------
async def _sum_series(evaluation: Evaluation, call: CallTarget, span: AskedSpan) -> Found:
    summed = await evaluation.each(call, span)
    if not summed:
        return []
    sums: dict[int, float | None] = {}
    for series in summed:
        await spend(POINTS, len(series.starts))
        for start, value in zip(series.starts, series.values, strict=True):
            before = sums.get(start)
            sums[start] = before if value is None else value + (before or 0)
        if len(sums) > _MOST_SUMMED:
            raise _wrong(call, "its series begin at too many different times", f"at most {_MOST_SUMMED:,} times")
    starts, values = await computed("adding series up", _in_order, sums)
    paths = ",".join(dict.fromkeys(series.path for series in summed[:11]))
    path = paths if len(summed) <= 10 and len(paths) <= _MOST_NAME else summed[0].path
    tiers = [series.tier for series in summed if series.tier is not None]
    return [CountSeries(call.text, path, starts, values, summed[0].step, max(tiers, default=None))]


def _in_order(sums: Mapping[int, float | None]) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    starts = tuple(sorted(sums))
    return starts, tuple([sums[start] for start in starts])


async def _scale(evaluation: Evaluation, call: CallTarget, span: AskedSpan) -> Found:
    factor: float = _argument(call, 1, "factor", float)
    scaled = []
    for series in await evaluation.first(call, span):
        await spend(POINTS, len(series.values))
        values = tuple(None if value is None else value * factor for value in series.values)
        scaled.append(replace(series, name=f"scale({series.name},{factor:g})", values=values))
    return scaled


async def _summarize(evaluation: Evaluation, call: CallTarget, span: AskedSpan) -> Found:
    interval: str = _argument(call, 1, "intervalString", str)
    _require_sum(call, 2, "func")
    length = length_s("target", interval)
    fitting = [step for step in STEPS.values() if step.unit is not None and step.average_s >= length]
    if length < 1 or not fitting:
        raise _wrong(call, f"there is no step of {interval!r}", "1min to 1y")
    least = min(fitting, key=lambda step: step.average_s)
    summarized = await evaluation.first(call, replace(span, least=least))
    return [series.renamed(f'summarize({series.name}, "{interval}", "sum")') for series in summarized]


async def _consolidate_by(evaluation: Evaluation, call: CallTarget, span: AskedSpan) -> Found:
    _require_sum(call, 1, "consolidationFunc")
    return [series.renamed(f'consolidateBy({series.name},"sum")') for series in await evaluation.first(call, span)]


async def _time_shift(evaluation: Evaluation, call: CallTarget, span: AskedSpan) -> Found:
    shift: str = _argument(call, 1, "timeShift", str)
    by_s = length_s("target", shift if shift[:1] in ("+", "-") else f"-{shift}")
    shifted = []
    for series in await evaluation.first(call, span.moved(by_s)):
        await spend(POINTS, len(series.starts))
        starts = tuple(start - by_s for start in series.starts)
        shifted.append(replace(series, name=f'timeShift({series.name}, "{shift}")', starts=starts))
    return shifted


async def _constant_line(evaluation: Evaluation, call: CallTarget, span: AskedSpan) -> Found:
    value: float = _argument(call, 0, "value", float)
    starts = (span.start, (span.start + span.end) // 2, span.end)
    return [CountSeries(f"{value:g}", f"{value:g}", starts, (value, value, value))]


# --- which ----------------------------------------------------------------------------------------------------------
async def _limit_series(evaluation: Evaluation, call: CallTarget, span: AskedSpan) -> Found:
    return (await evaluation.first(call, span))[: _n_of(call, 1)]


async def _highest(evaluation: Evaluation, call: CallTarget, span: AskedSpan, by: str | None = None) -> Found:
    """Returns the greatest series. All links together are ranked by their hits, without reading each of them."""
    by = by or _argument(call, 2, "func", str, "average")
    if by not in _RANKS:
        raise _wrong(call, f"series are not ranked by {by!r}", ", ".join(_RANKS))
    n = _n_of(call, 1, 1)
    pattern = call.arguments[0] if call.arguments else None
    if isinstance(pattern, PathTarget) and by != "max":
        greatest = await evaluation.reader.greatest(pattern.text, span, n)
        if greatest is not None:
            return greatest
    ranked: list[tuple[float, CountSeries]] = []
    for series in await evaluation.first(call, span):
        await spend(POINTS, len(series.values))
        if numbers := series.known():
            ranked.append((_RANKS[by](numbers), series))
    return [series for _, series in sorted(ranked, key=lambda each: -each[0])[:n]]


_SERIES = ("seriesList", "seriesList", True)
FUNCTIONS: dict[str, Function] = {
    "alias": Function("Names the series.", "Alias", (_SERIES, ("newName", "string", True)), _alias),
    "aliasByNode": Function(
        "Names each series by nodes of its name, from 0; a key as it is.",
        "Alias",
        (_SERIES, ("nodes", "nodeOrTag", True)),
        _alias_by_node,
    ),
    "aliasByMetric": Function("Names each series by its last node.", "Alias", (_SERIES,), _alias_by_metric),
    "aliasSub": Function(
        "Names each series by its name with a regular expression replaced.",
        "Alias",
        (_SERIES, ("search", "string", True), ("replace", "string", True)),
        _alias_sub,
    ),
    "sumSeries": Function("Adds series up.", "Combine", (_SERIES,), _sum_series),
    "sum": Function("Adds series up.", "Combine", (_SERIES,), _sum_series),
    "scale": Function("Multiplies every value.", "Transform", (_SERIES, ("factor", "float", True)), _scale),
    "summarize": Function(
        "Adds up to points of this length, or longer ones where less is kept; sum alone.",
        "Transform",
        (_SERIES, ("intervalString", "interval", True), ("func", "aggFunc", False)),
        _summarize,
    ),
    "consolidateBy": Function(
        "Says that points are added up, as they always are; sum alone.",
        "Special",
        (_SERIES, ("consolidationFunc", "string", True)),
        _consolidate_by,
    ),
    "timeShift": Function(
        "Shows the hits of an earlier time.", "Transform", (_SERIES, ("timeShift", "interval", True)), _time_shift
    ),
    "constantLine": Function("Draws a line at a value.", "Special", (("value", "float", True),), _constant_line),
    "limit": Function("Keeps the first n series.", "Filter Series", (_SERIES, ("n", "integer", True)), _limit_series),
    "highest": Function(
        "Keeps the n greatest series, by sum, average or max. highest(clicks.*, 10, 'sum') ranks all links.",
        "Filter Series",
        (_SERIES, ("n", "integer", False), ("func", "aggFunc", False)),
        _highest,
    ),
    "highestMax": Function(
        "Keeps the n series with the greatest points.",
        "Filter Series",
        (_SERIES, ("n", "integer", True)),
        partial(_highest, by="max"),
    ),
    "highestAverage": Function(
        "Keeps the n series with the greatest averages.",
        "Filter Series",
        (_SERIES, ("n", "integer", True)),
        partial(_highest, by="average"),
    ),
}
