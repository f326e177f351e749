"""`/metrics/links` to scrape, and the part of Prometheus' HTTP API that Grafana and promtool use."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import NamedTuple, TypeAlias

from fastapi import APIRouter, Request, Response
from msgspec import Raw
from msgspec.json import encode
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from clickcurve.buckets.errors import ClickcurveError, ParameterInvalid
from clickcurve.buckets.ladder import MINUTE_S
from clickcurve.buckets.measures import CLICKS, Measure
from clickcurve.budget import NAMES, POINTS, SIGNS, spend
from clickcurve.keys import ALL_LINKS, link_key
from clickcurve.routes import json_answer
from clickcurve.times import LATEST, UNITS_S, parse_length
from query.breakdowns.queries import BreakdownQueries
from query.parameters import MAX_TOP, Parameters, moment
from query.queries import Queries
from query.zones import UTC_ZONE
from server.compat.forms import Form, read_form
from server.compat.prometheus.increases import (
    KEY,
    MOST_LINKS,
    MOST_MOMENTS,
    MOST_SAMPLES,
    MOST_WITH_BREAKDOWNS,
    Increases,
    Moments,
    Sources,
)
from server.compat.prometheus.promql import (
    ALL_CLICKS,
    EVENT,
    EVENT_VALUES,
    METRIC,
    METRICS,
    Matcher,
    Selector,
    Vector,
    metric_of,
    parse_promql,
    parse_selector,
)
from server.metrics import known_versions
from server.tokens.route_access import Effect, RouteAccess, RouteEffect, ScopeRule
from server.tokens.token import Scope

USUAL_LINKS = 200
HITS = "clickcurve_hits_total"
_STEP_UNITS_S = {**UNITS_S, "": 1}
_WRITING = 5  # times as much work as making a point
_HELP = "{} of people, by the minute and coarser; ask increase({}[1h])."

Answer: TypeAlias = tuple[object, list[str]]  # data, warnings
Answering: TypeAlias = Callable[[Sources, Form, str], Awaitable[Answer]]


_LONG = "/api/v1/query", "/api/v1/query_range", "/api/v1/labels", "/api/v1/series"  # asked by POST too
ACCESS = RouteAccess(
    (
        RouteEffect("GET", "/metrics/links", Effect.listed),
        RouteEffect("GET POST", "/api/v1/query", Effect.found),
        RouteEffect("GET POST", "/api/v1/query_range", Effect.found),
        RouteEffect("GET POST", "/api/v1/series", Effect.found),
        RouteEffect("GET POST", "/api/v1/labels", Effect.words),
        RouteEffect("GET", "/api/v1/label/{name}/values", Effect.found),
        RouteEffect("GET", "/api/v1/metadata", Effect.words),
    ),
    (ScopeRule("POST", "|".join(_LONG), Scope.read),),
)


class _TopLinksCollector(Collector):
    """The greatest links as counters."""

    def __init__(self, links: list[tuple[str, int]]) -> None:
        self._links = links

    def collect(self) -> list[Metric]:
        metric = CounterMetricFamily(HITS, "Hits of people of the links with the most, ever.", labels=[KEY])
        for key, count in self._links:
            metric.add_metric([key], count)
        return [metric]


def prometheus_routes(
    queries: Queries, breakdowns: BreakdownQueries | None, problem: Callable[[Exception], Response]
) -> APIRouter:
    """Makes the router. problem answers an error, counted; here its body becomes Prometheus' own.

    breakdowns: None for a server without breakdowns.
    """
    sources = Sources(queries, breakdowns)
    router = APIRouter(include_in_schema=False, tags=["Prometheus"])

    @router.get("/metrics/links", summary="The links with the most hits, as metrics to scrape")
    async def links_page(request: Request) -> Response:
        most = (await read_form(request)).number("top", USUAL_LINKS, 1, MAX_TOP)
        top = await queries.top(Parameters(limit=most))
        encode, content_type = choose_encoder(known_versions(request.headers.get("accept", "")))
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_TopLinksCollector(top.links))
        return Response(encode(registry), headers={"content-type": content_type})

    def endpoint_of(answer: Answering) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                data, warnings = await answer(sources, await read_form(request), request.path_params.get("name", ""))
            except ClickcurveError as error:
                return _prometheus_refusal(error, problem(error))
            content: dict[str, object] = {"status": "success", "data": data}
            return json_answer(content | ({"warnings": warnings} if warnings else {}))

        return endpoint

    for path, (summary, answer) in _ANSWERS.items():
        methods = ["GET", "POST"] if path in _LONG else ["GET"]
        router.add_api_route(path, endpoint_of(answer), methods=methods, summary=summary)
    return router


async def _expression_in(form: Form) -> Vector | float:
    text = form.required("query")
    await spend(SIGNS, len(text))
    return parse_promql(text)


async def _selectors_in(form: Form) -> list[Selector]:
    selectors = []
    for text in form.all("match[]"):
        await spend(SIGNS, len(text))
        selectors.append(parse_selector(text))
    return selectors


async def _at_one_moment(sources: Sources, form: Form, name: str) -> Answer:
    now = sources.queries.now()
    t = _moment(form, "time", now)
    vector = await _expression_in(form)
    if isinstance(vector, float):
        return {"resultType": "scalar", "result": [t, _number_text(vector)]}, []
    evaluated = Increases(sources, Moments(t, t, 1), now)
    series = await evaluated.series(vector)
    result = [{"metric": one.labels, "value": [t, str(one.samples[0])]} for one in series if 0 in one.samples]
    return {"resultType": "vector", "result": result}, evaluated.warnings


async def _along_moments(sources: Sources, form: Form, name: str) -> Answer:
    moments = _moments(form)
    vector = await _expression_in(form)
    if isinstance(vector, float):
        values = [[moments.at(i), _number_text(vector)] for i in range(len(moments))]
        return {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}, []
    evaluated = Increases(sources, moments, sources.queries.now())
    series = await evaluated.series(vector)
    if sum(len(one.samples) for one in series) > MOST_SAMPLES:
        rule = f"at most {MOST_SAMPLES:,} samples"
        raise ParameterInvalid("the answer would have too many samples", field="query", rule=rule)
    result = []
    for one in series:
        if one.samples:
            await spend(POINTS, _WRITING * len(one.samples))
            values = [[moments.at(i), str(one.samples[i])] for i in sorted(one.samples)]
            result.append(Raw(encode({"metric": one.labels, "values": values})))
    return {"resultType": "matrix", "result": result}, evaluated.warnings


async def _labels(sources: Sources, form: Form, name: str) -> Answer:
    await _selectors_in(form)
    events = [EVENT] if sources.events() else []
    return ["__name__", KEY, *events, *sources.dimensions()], []


async def _label_values(sources: Sources, form: Form, name: str) -> Answer:
    if name == KEY:
        return await _keys(sources, form)
    if name in sources.dimensions():
        pickers = _Pickers(sources, form)
        values = {value for each in await pickers.picked() for _, value in await pickers.values(each, name)}
        return sorted(values - {""})[: pickers.most], pickers.warnings
    if name == EVENT:
        return sorted(sources.events()), []
    return _metrics(sources) if name == "__name__" else [], []


async def _series_of(sources: Sources, form: Form, name: str) -> Answer:
    if not form.all("match[]"):
        raise ParameterInvalid("match[] is missing", field="match[]", rule=f'{METRIC}{{key="..."}}')
    pickers = _Pickers(sources, form)
    series: list[dict[str, str]] = []
    for picked in await pickers.picked():
        name_of = {"__name__": metric_of(picked.measure)}
        name_of |= {EVENT: picked.measure.event} if picked.measure.event else {}
        label = pickers.wanted.dimension_of(picked.matchers)
        if label is None:
            keys = await pickers.keys(picked)
            await spend(NAMES, len(keys))
            series += [name_of | {KEY: key} for key in keys]
            continue
        series += [
            name_of | ({KEY: key} if key else {}) | ({label: value} if value else {})
            for key, value in await pickers.values(picked, label)
        ]
    if len(series) > pickers.most:
        pickers.warnings.append("there are more series")
    return series[: pickers.most], pickers.warnings


async def _metadata(sources: Sources, form: Form, name: str) -> Answer:
    help_of = {metric: _HELP.format(METRICS[metric].capitalize(), metric) for metric in _metrics(sources)}
    return {metric: [{"type": "counter", "help": text, "unit": ""}] for metric, text in help_of.items()}, []


def _metrics(sources: Sources) -> list[str]:
    return [*METRICS] if sources.events() else [METRIC]


_ANSWERS: dict[str, tuple[str, Answering]] = {
    "/api/v1/query": ("An expression of PromQL at one moment", _at_one_moment),
    "/api/v1/query_range": ("An expression of PromQL along a range", _along_moments),
    "/api/v1/labels": ("The names of labels", _labels),
    "/api/v1/label/{name}/values": ("The values of a label", _label_values),
    "/api/v1/series": ("The series that selectors find", _series_of),
    "/api/v1/metadata": ("What the metrics are", _metadata),
}


async def _keys(sources: Sources, form: Form) -> tuple[list[str], list[str]]:
    """Returns the keys that any `match[]` selects, and a warning if not all are listed."""
    pickers = _Pickers(sources, form)
    picked = await pickers.picked()
    if narrowed := [each for each in picked if each.matchers]:
        keys = sorted({key for each in narrowed for key in await pickers.keys(each)})
        return keys[: pickers.most], ["there are more keys"] if len(keys) > pickers.most else []
    asked = Parameters(sort="key", limit=min(pickers.most, MAX_TOP))
    pages = [await sources.queries.key_page(replace(asked, measure=each.measure)) for each in picked]
    keys = sorted({key for page in pages for key, _ in page.links})
    is_more = len(keys) > asked.limit or any(page.after is not None for page in pages)
    return keys[: asked.limit], ["there are more keys: name them, or select some with =~"] if is_more else []


class _Picked(NamedTuple):
    """Rows that a `match[]` selects."""

    measure: Measure
    matchers: tuple[Matcher, ...]


class _Pickers:
    """Answers for what people choose from: keys, and values of a dimension."""

    def __init__(self, sources: Sources, form: Form) -> None:
        now = sources.queries.now()
        self._sources = sources
        self._form = form
        self.wanted = Increases(sources, Moments(now, now, 1), now)
        self.most = form.number("limit", MOST_LINKS, 0, 1_000_000) or MOST_LINKS
        self.warnings: list[str] = []

    async def picked(self) -> list[_Picked]:
        """Returns what each `match[]` selects, all clicks where there is none; raises NotUnderstood."""
        picked = []
        for selector in await _selectors_in(self._form) or [ALL_CLICKS]:
            measures = await self._measures(selector)
            matchers = tuple(each for each in selector.matchers if selector.metric == METRIC or each.label != EVENT)
            self.wanted.dimension_of(matchers)
            picked += [_Picked(measure, matchers) for measure in measures]
        return picked

    async def _measures(self, selector: Selector) -> list[Measure]:
        """Returns what a selector counts: a picker may name an event by any sign, or none for all of them."""
        if selector.metric == METRIC:
            return [CLICKS]
        for each in selector.matchers:
            if (each.label, each.sign) == (EVENT, "="):
                self._sources.queries.events.checked(Measure(each.text))
        is_wanted = await self.wanted.selector(selector.matchers, EVENT)
        names = [name for name in self._sources.events() if await is_wanted(name)]
        return [Measure(name, selector.metric == EVENT_VALUES) for name in names]

    async def keys(self, picked: _Picked) -> list[str]:
        """Returns the links that are selected."""
        return await self.wanted.keys(picked.matchers, measure=picked.measure)

    async def values(self, picked: _Picked, label: str) -> list[tuple[str, str]]:
        """Returns links, "" for all together, with the values that their hits gave, greatest first."""
        measure, matchers = picked
        self.wanted.dimension_of(matchers, [label])
        breakdowns, dimension = self._sources.breakdowns, self._sources.dimensions()[label]
        assert breakdowns is not None
        of_all = all(each.label != KEY for each in matchers)
        keys = [""] if of_all else await self.wanted.keys(matchers, MOST_WITH_BREAKDOWNS, measure)
        is_wanted = await self.wanted.selector(matchers, label)
        values: list[tuple[str, str]] = []
        for key in keys:
            stored = measure.row(link_key(key) if key else ALL_LINKS)
            listed = await breakdowns.values_in(stored, dimension, Parameters(limit=MAX_TOP))
            values += [(key, each.value) for each in listed.values if await is_wanted(each.value)]
            if listed.not_shown.values and not self.warnings:
                self.warnings.append(f"of the values the {MAX_TOP:,} greatest are here")
        return values


def _moments(form: Form) -> Moments:
    start, end = _moment(form, "start"), _moment(form, "end")
    if end < start:
        raise ParameterInvalid("end is before start", field="end", value=form.get("end"), rule="not before start")
    text = form.required("step")
    length = parse_length(text, _STEP_UNITS_S)
    step_s = _floored("step", text) if length is None else length[0] * length[1]
    if step_s < MINUTE_S:
        detail = f"a step of {step_s} s is finer than the minutes that hits are counted by"
        raise ParameterInvalid(
            f"{detail}; in Grafana set the interval of the data source to 60s", field="step", value=text, rule="from 60"
        )
    moments = Moments(start, end, step_s)
    if len(moments) > MOST_MOMENTS:
        rule = f"at most {MOST_MOMENTS:,} points"
        raise ParameterInvalid("the step is too small for the range", field="step", value=text, rule=rule)
    return moments


def _moment(form: Form, name: str, default: int | None = None) -> int:
    text = form.get(name)
    if not text and default is not None:
        return default
    if text and not re.fullmatch(r"[0-9.eE+-]+", text):
        return moment(name, text, UTC_ZONE)
    t = _floored(name, form.required(name))
    if not 0 <= t <= LATEST:
        raise ParameterInvalid(f"{name} {text!r} is out of range", field=name, value=text, rule="0 to the year 9998")
    return t


def _floored(name: str, text: str) -> int:
    """Returns a number such as 1767225600.781, floored."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ParameterInvalid(f"{name} {text!r} is not a number", field=name, value=text, rule="seconds") from None
    if not (number.is_finite() and abs(number) < 10**15):
        raise ParameterInvalid(f"{name} {text!r} is out of range", field=name, value=text, rule="seconds")
    return int(number // 1)


def _number_text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _prometheus_refusal(error: ClickcurveError, counted: Response) -> Response:
    """Returns an error as Prometheus says it, with the status and the headers of the problem document."""
    kind = "unavailable" if error.status >= 500 else "bad_data"
    response = json_answer({"status": "error", "errorType": kind, "error": error.detail})
    response.status_code = counted.status_code
    for name, value in counted.headers.items():
        if name not in ("content-type", "content-length"):
            response.headers[name] = value
    return response
