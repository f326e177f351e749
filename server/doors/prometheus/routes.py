"""`/metrics/links` to scrape, and the part of Prometheus' API that Grafana and promtool need for these expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from clickcurve.buckets.errors import ClickcurveError, ParameterInvalid
from clickcurve.buckets.ladder import MINUTE_S
from clickcurve.times import LATEST
from query.parameters import MAX_TOP, Parameters, moment
from query.queries import Queries
from query.zones import UTC_ZONE
from server.doors.forms import Form, read_form
from server.doors.prometheus.increases import KEY, MOST_LINKS, MOST_MOMENTS, MOST_SAMPLES, Increases, Moments
from server.doors.prometheus.promql import METRIC, parse_promql, parse_selector
from server.http.auth import QUESTIONS
from server.metrics import known_versions

USUAL_LINKS = 200
HITS = "clickcurve_hits_total"
_LENGTH_S = re.compile(r"([0-9]{1,9})(s|m|h|d|w)?")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800, None: 1}
_HELP = "Hits of people, by the minute and coarser; ask increase(clicks[1h])."

Said: TypeAlias = tuple[object, list[str]]  # data, warnings
Asked: TypeAlias = Callable[[Queries, Form, str], Awaitable[Said]]


class _TopLinksCollector(Collector):
    """The greatest links as counters."""

    def __init__(self, links: list[tuple[str, int]]) -> None:
        self._links = links

    def collect(self) -> list[Metric]:
        metric = CounterMetricFamily(HITS, "Hits of people of the links with the most, ever.", labels=[KEY])
        for key, count in self._links:
            metric.add_metric([key], count)
        return [metric]


def prometheus_routes(queries: Queries, problem: Callable[[Exception], Response]) -> APIRouter:
    """Makes the router. problem answers an error, counted; here its body becomes Prometheus' own."""
    router = APIRouter(include_in_schema=False)

    @router.get("/metrics/links")
    async def links_page(request: Request) -> Response:
        most = (await read_form(request)).number("top", USUAL_LINKS, 1, MAX_TOP)
        top = await queries.top(Parameters(limit=most))
        encode, content_type = choose_encoder(known_versions(request.headers.get("accept", "")))
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_TopLinksCollector(top.links))
        return Response(encode(registry), headers={"content-type": content_type})

    def endpoint_of(answer: Asked) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                data, warnings = await answer(queries, await read_form(request), request.path_params.get("name", ""))
            except ClickcurveError as error:
                return _prometheus_refusal(error, problem(error))
            said: dict[str, object] = {"status": "success", "data": data}
            return _prometheus_json(said | ({"warnings": warnings} if warnings else {}))

        return endpoint

    for path, answer in _ANSWERS.items():
        methods = ["GET", "POST"] if path in QUESTIONS else ["GET"]
        router.add_api_route(path, endpoint_of(answer), methods=methods)
    return router


async def _at_one_moment(queries: Queries, form: Form, name: str) -> Said:
    t = _moment(form, "time", queries.now())
    vector = parse_promql(form.required("query"))
    if isinstance(vector, float):
        return {"resultType": "scalar", "result": [t, _number_text(vector)]}, []
    evaluated = Increases(queries, Moments(t, t, 1))
    found = await evaluated.series(vector)
    result = [{"metric": one.labels, "value": [t, str(one.samples[0])]} for one in found if 0 in one.samples]
    return {"resultType": "vector", "result": result}, evaluated.warnings


async def _along_moments(queries: Queries, form: Form, name: str) -> Said:
    moments = _moments(form)
    vector = parse_promql(form.required("query"))
    if isinstance(vector, float):
        values = [[moments.at(i), _number_text(vector)] for i in range(len(moments))]
        return {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}, []
    evaluated = Increases(queries, moments)
    found = await evaluated.series(vector)
    if sum(len(one.samples) for one in found) > MOST_SAMPLES:
        rule = f"at most {MOST_SAMPLES:,} samples"
        raise ParameterInvalid("that is too much for one answer", field="query", rule=rule)
    result = [
        {"metric": one.labels, "values": [[moments.at(i), str(one.samples[i])] for i in sorted(one.samples)]}
        for one in found
        if one.samples
    ]
    return {"resultType": "matrix", "result": result}, evaluated.warnings


async def _labels(queries: Queries, form: Form, name: str) -> Said:
    for text in form.all("match[]"):
        parse_selector(text)
    return ["__name__", KEY], []


async def _label_values(queries: Queries, form: Form, name: str) -> Said:
    if name == KEY:
        return await _keys(queries, form)
    return [METRIC] if name == "__name__" else [], []


async def _series_of(queries: Queries, form: Form, name: str) -> Said:
    if not form.all("match[]"):
        raise ParameterInvalid("match[] is missing", field="match[]", rule=f'{METRIC}{{key="..."}}')
    keys, warnings = await _keys(queries, form)
    return [{"__name__": METRIC, KEY: key} for key in keys], warnings


async def _metadata(queries: Queries, form: Form, name: str) -> Said:
    return {METRIC: [{"type": "counter", "help": _HELP, "unit": ""}]}, []


_ANSWERS: dict[str, Asked] = {
    "/api/v1/query": _at_one_moment,
    "/api/v1/query_range": _along_moments,
    "/api/v1/labels": _labels,
    "/api/v1/label/{name}/values": _label_values,
    "/api/v1/series": _series_of,
    "/api/v1/metadata": _metadata,
}


async def _keys(queries: Queries, form: Form) -> tuple[list[str], list[str]]:
    """Returns the keys that any `match[]` selects, and a warning if not all are listed."""
    most = form.number("limit", MOST_LINKS, 0, 1_000_000) or MOST_LINKS
    selectors = [matchers for text in form.all("match[]") if (matchers := parse_selector(text))]
    if not selectors:
        page = await queries.key_page(Parameters(sort="key", limit=min(most, MAX_TOP)))
        more = ["there are more keys: name them, or select some with =~"] if page.after is not None else []
        return [key for key, _ in page.links], more
    now = queries.now()
    wanted = Increases(queries, Moments(now, now, 1))
    keys = sorted({key for matchers in selectors for key in await wanted.keys(matchers)})
    return keys[:most], ["there are more keys"] if len(keys) > most else []


def _moments(form: Form) -> Moments:
    start, end = _moment(form, "start"), _moment(form, "end")
    if end < start:
        raise ParameterInvalid("end is before start", field="end", value=form.get("end"), rule="not before start")
    text = form.required("step")
    found = _LENGTH_S.fullmatch(text)
    step_s = _floored("step", text) if found is None else int(found[1]) * _SECONDS[found[2]]
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
        raise ParameterInvalid(f"{name} {text!r} is no number", field=name, value=text, rule="seconds") from None
    if not (number.is_finite() and abs(number) < 10**15):
        raise ParameterInvalid(f"{name} {text!r} is out of range", field=name, value=text, rule="seconds")
    return int(number // 1)


def _number_text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _prometheus_json(said: object) -> Response:
    body = json.dumps(said, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(body.encode("utf-8"), headers={"content-type": "application/json"})


def _prometheus_refusal(error: ClickcurveError, counted: Response) -> Response:
    """Returns an error as Prometheus says it, with the status and the headers of the problem document."""
    kind = "unavailable" if error.status >= 500 else "bad_data"
    response = _prometheus_json({"status": "error", "errorType": kind, "error": error.detail})
    response.status_code = counted.status_code
    for name, value in counted.headers.items():
        if name not in ("content-type", "content-length"):
            response.headers[name] = value
    return response
