"""`/render`, `/metrics/find`, `/metrics/expand`, `/functions` and `/version`, by GET and POST."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request, Response
from msgspec.json import encode

from clickcurve.answers.written import BOM, without_formula
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.buckets.measures import CLICKS as CLICKS_COUNTED
from clickcurve.buckets.measures import Measure
from clickcurve.budget import NAMES, SIGNS, spend
from clickcurve.routes import json_answer
from clickcurve.waiting import computed
from query.steps import STEPS
from query.zones import UTC_ZONE, zone
from server.compat.forms import Form, read_form
from server.compat.graphite.functions import FUNCTIONS, Evaluation
from server.compat.graphite.moments import moment_of
from server.compat.graphite.names import (
    CLICKS,
    EVENTS,
    GROUPS,
    TOTAL,
    VALUES,
    NodePattern,
    node_name,
    nodes_of,
    places_of,
)
from server.compat.graphite.series import AskedSpan, CountSeries, SeriesReader
from server.compat.graphite.targets import parse_target
from server.tokens.route_access import Effect, RouteAccess, RouteEffect, ScopeRule
from server.tokens.token import Scope

SPEAKS = "1.1.10"  # the version of Graphite whose requests and answers these are
MOST_TARGETS = 100
MOST_POINTS = 10_000
MOST_ANSWERED = 200_000  # points of all series together
USUAL_POINTS = 1_000
MOST_FOUND = 1_000  # links of one /metrics/find
FORMATS = ("json", "csv")
_WHOLE = 2**53  # beyond it a float is no exact whole number
_BOTH = ["GET", "POST"]


ACCESS = RouteAccess(
    (
        RouteEffect("GET POST", "/render", Effect.found),
        RouteEffect("GET POST", "/metrics/find", Effect.found),
        RouteEffect("GET POST", "/metrics/find/", Effect.found),
        RouteEffect("GET POST", "/metrics/expand", Effect.found),
        RouteEffect("GET POST", "/functions", Effect.words),
        RouteEffect("GET POST", "/version", Effect.words),
        RouteEffect("GET", "/tags/autoComplete/{what}", Effect.words),
    ),
    (ScopeRule("POST", "/render|/metrics/find/?|/metrics/expand|/functions|/version", Scope.read),),
)


def graphite_routes(reader: SeriesReader) -> APIRouter:
    """Makes the router."""
    router = APIRouter(include_in_schema=False, tags=["Graphite"])
    evaluation = Evaluation(reader)

    @router.api_route("/render", methods=_BOTH, summary="The series of targets, as JSON or CSV")
    async def render(request: Request) -> Response:
        form = await read_form(request)
        span = _asked_span(form, reader.queries.now())
        texts = form.all("target")
        if len(texts) > MOST_TARGETS:
            raise ParameterInvalid(f"{len(texts)} targets, {MOST_TARGETS} at most", field="target")
        targets = []
        for text in texts:
            await spend(SIGNS, len(text))
            targets.append(parse_target(text))
        selected: list[CountSeries] = []
        for target in targets:
            selected += await evaluation.series(target, span)
            if sum(len(series.starts) for series in selected) > MOST_ANSWERED:
                rule = f"at most {MOST_ANSWERED:,} points of all series together"
                raise ParameterInvalid("the answer would have too many points", field="target", rule=rule)
        return await _written(reader, form, selected)

    @router.api_route("/metrics/find", methods=_BOTH, summary="The nodes that a pattern finds")
    @router.api_route("/metrics/find/", methods=_BOTH, summary="As `/metrics/find`")
    async def find(request: Request) -> Response:
        return json_answer(await _nodes(reader, (await read_form(request)).required("query")))

    @router.api_route("/metrics/expand", methods=_BOTH, summary="The names that patterns stand for")
    async def expand(request: Request) -> Response:
        form = await read_form(request)
        names: set[str] = set()
        for query in form.all("query"):
            nodes = await _nodes(reader, query)
            await spend(NAMES, len(nodes))
            names |= {node["id"] for node in nodes if node["id"]}
        return json_answer({"results": sorted(names)})

    @router.api_route("/functions", methods=_BOTH, summary="The functions that targets may use")
    async def functions() -> Response:
        return json_answer({name: _function_object(name) for name in FUNCTIONS})

    @router.api_route("/version", methods=_BOTH, summary="The version of Graphite that is spoken")
    async def version() -> Response:
        return Response(SPEAKS, headers={"content-type": "text/plain; charset=utf-8"})

    @router.get("/tags/autoComplete/{what}", summary="An empty list: there are no tags")
    async def tags(what: str) -> Response:
        """There are no tags; a picker that asks for them is not to show an error."""
        return json_answer([])

    return router


def _asked_span(form: Form, now: int) -> AskedSpan:
    where = zone(form.get("tz")) if form.get("tz") else UTC_ZONE
    if form.get("format", FORMATS[0]) not in FORMATS:
        raise ParameterInvalid(
            "this format is not supported", field="format", value=form.get("format"), rule="json, csv"
        )
    start = moment_of("from", form.get("from") or "-24h", now, where)
    end = moment_of("until", form.get("until") or "now", now, where)
    if start >= end:
        raise ParameterInvalid("from is not before until", field="from", value=form.get("from"), rule="before until")
    points = form.number("maxDataPoints", USUAL_POINTS, 1, 1_000_000)
    end += end == now  # so that the minute of now is in the range also in its first second
    return AskedSpan(start, end, where, min(points, MOST_POINTS))


async def _written(reader: SeriesReader, form: Form, selected: Sequence[CountSeries]) -> Response:
    """Returns the answer, which is written in a thread: of the most points it takes 1 s."""
    if form.get("format") == "csv":
        is_raw = bool(form.number("raw", 0, 0, 1))
        text = await computed("writing series", _series_csv, selected, is_raw)
        if form.number("bom", 0, 0, 1):
            text = BOM.decode() + text
        return Response(text, headers={"content-type": "text/csv; charset=utf-8"})
    body = await computed("writing series", _series_json, reader, selected, form.get("meta") == "true")
    return Response(body, headers={"content-type": "application/json"})


def _series_json(reader: SeriesReader, selected: Sequence[CountSeries], is_with_meta: bool) -> bytes:
    objects = [encode(_with_resolution(reader, each) if is_with_meta else _series_object(each)) for each in selected]
    listed = b"[" + b",".join(objects) + b"]"
    return b'{"meta":{"stats":{}},"series":' + listed + b"}" if is_with_meta else listed


# --- series ---------------------------------------------------------------------------------------------------------
def _series_object(series: CountSeries) -> dict[str, Any]:
    points = [[_whole(value), start] for value, start in zip(series.values, series.starts, strict=True)]
    return {"target": series.name, "tags": {"name": series.path}, "datapoints": points}


def _whole(value: float | None) -> float | None:
    """Returns a count without `.0`; raises ParameterInvalid for what is no number any more."""
    if value is None or isinstance(value, int):
        return value
    if not math.isfinite(value):
        raise ParameterInvalid("the values become too large to be numbers", field="target", rule="below 1e308")
    return int(value) if value == value // 1 and abs(value) < _WHOLE else value


def _with_resolution(reader: SeriesReader, series: CountSeries) -> dict[str, Any]:
    """Returns a series with how fine it is and what is kept, as Grafana shows it for the type Metrictank."""
    series_object = _series_object(series)
    if series.tier is None:
        return series_object
    ladder = reader.queries.ladder
    start, end = ladder.bucket(series.tier, series.starts[0])
    step_s = STEPS[series.step].average_s
    resolution = {
        "schema-name": CLICKS,
        "schema-retentions": str(ladder),
        "archive-read": series.tier,
        "archive-interval": end - start,
        "aggnum-norm": 1,
        "consolidator-normfetch": "SumConsolidator",
        "aggnum-rc": max(1, step_s // (end - start)),
        "consolidator-rc": "SumConsolidator",
        "count": 1,
    }
    return {**series_object, "meta": [resolution]}


def _series_csv(selected: Sequence[CountSeries], is_raw: bool) -> str:
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\r\n")
    for series in selected:
        name = series.name if is_raw else without_formula(series.name)
        for start, value in zip(series.starts, series.values, strict=True):
            time = datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%d %H:%M:%S")
            lines.writerow((name, time, "" if value is None else _whole(value)))
    return written.getvalue()


# --- names ----------------------------------------------------------------------------------------------------------
async def _nodes(reader: SeriesReader, query: str) -> list[dict[str, Any]]:
    """Returns the nodes that a pattern finds; a last one without a name says that there are more."""
    patterns = [NodePattern(node) for node in nodes_of(query)]
    if len(patterns) == 1:
        tops = (CLICKS, GROUPS, TOTAL, *((EVENTS, VALUES) if reader.queries.events.names() else ()))
        return [_node(text, text, leaf=text == TOTAL) for text in tops if await patterns[0].matches(text)]
    nodes: list[dict[str, Any]] = []
    places = 1 if await patterns[0].matches(TOTAL) else places_of(nodes_of(query))
    if len(patterns) in (places + 1, places + 2) and all(pattern.is_plain for pattern in patterns[:places]):
        return await _breakdown_nodes(reader, patterns, places)
    for kind in (CLICKS, GROUPS):
        if len(patterns) == 2 and await patterns[0].matches(kind):
            nodes += await _key_nodes(reader, kind, kind, patterns[1])
    for kind in (EVENTS, VALUES):
        if len(patterns) not in (2, 3) or not await patterns[0].matches(kind):
            continue
        for measure in await reader.measures(kind, patterns[1]):
            name = f"{kind}.{measure.event}"
            if len(patterns) == 2:
                nodes.append(_node(measure.event, name, leaf=True, expandable=True))
            else:
                nodes += await _key_nodes(reader, CLICKS, name, patterns[2], measure)
    return nodes


async def _key_nodes(
    reader: SeriesReader, kind: str, prefix: str, pattern: NodePattern, measure: Measure = CLICKS_COUNTED
) -> list[dict[str, Any]]:
    """Returns the links or groups of a node, below a prefix; one without a name says that there are more."""
    keys, more = await reader.keys(kind, pattern, MOST_FOUND, measure)
    opens = bool(reader.dimensions)
    nodes = [_node(node_name(key), f"{prefix}.{node_name(key)}", leaf=True, expandable=opens) for key in keys]
    if more:
        nodes.append(_node(f"(more than {len(keys)}: write how the key begins, such as spr*)", "", leaf=True))
    return nodes


async def _breakdown_nodes(reader: SeriesReader, patterns: Sequence[NodePattern], places: int) -> list[dict[str, Any]]:
    """Returns the dimensions below a link, a group or all links, or the values of one of these."""
    prefix = ".".join(pattern.text for pattern in patterns[:places])
    dimensions = [each for each in reader.dimensions if await patterns[places].matches(each)]
    if len(patterns) == places + 1:
        return [_node(node_name(each), f"{prefix}.{node_name(each)}", leaf=False) for each in dimensions]
    nodes: list[dict[str, Any]] = []
    for dimension in dimensions:
        for _, stored in await reader.subjects([pattern.text for pattern in patterns[:places]], prefix):
            values = await reader.values(stored, dimension, patterns[-1])
            below = f"{prefix}.{node_name(dimension)}"
            nodes += [_node(node_name(value), f"{below}.{node_name(value)}", leaf=True) for value in values]
    return nodes


def _node(text: str, name: str, *, leaf: bool, expandable: bool | None = None) -> dict[str, Any]:
    opens = int(not leaf if expandable is None else expandable)
    return {"text": text, "id": name, "leaf": int(leaf), "expandable": opens, "allowChildren": opens, "context": {}}


def _function_object(name: str) -> dict[str, Any]:
    function = FUNCTIONS[name]
    parameters = []
    for parameter, kind, required in function.parameters:
        shape: dict[str, Any] = {"name": parameter, "type": kind, "required": required}
        if kind == "aggFunc":
            shape |= {"options": ["sum"] if name == "summarize" else ["sum", "average", "max"], "default": "sum"}
        parameters.append(shape)
    return {
        "name": name,
        "function": f"{name}({', '.join(parameter for parameter, _, _ in function.parameters)})",
        "description": function.description,
        "module": "clickcurve",
        "group": function.group,
        "params": parameters,
    }
