"""`POST /v1/metrics`: counts of OpenTelemetry, as JSON. Each delta of the sum `clicks` is hits of the link `key`.

A sum that only ever grows (cumulative) says nothing of when its hits were, and a lost or repeated report would count
wrongly: those points are rejected, as the protocol has it, in `partialSuccess`. A delta has no id of its own, so one is
made of what it says and of the times that it spans: sent again it counts once.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from clickcurve.asgi import read_bounded
from clickcurve.buckets.errors import BodyUnreadable, MediaTypeUnsupported
from clickcurve.problem import MEDIA_TYPE
from server.compat.hit_sender import HitSender, SentHits

PATH = "/v1/metrics"
METRIC = "clicks"
MOST_BYTES = 4 << 20
_DELTA = (1, "AGGREGATION_TEMPORALITY_DELTA")
_FIELDS = ("key", "ref", "country", "lang", "source", "ua")


class _Value(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    int_value: int | str | None = None
    bool_value: bool | None = None


class _Attribute(msgspec.Struct):
    key: str = ""
    value: _Value = msgspec.field(default_factory=_Value)


class _Point(msgspec.Struct, rename="camel"):
    attributes: list[_Attribute] = []
    start_time_unix_nano: int | str = 0
    time_unix_nano: int | str = 0
    as_int: int | str | None = None
    as_double: float | None = None


class _Sum(msgspec.Struct, rename="camel"):
    data_points: list[_Point] = []
    aggregation_temporality: int | str = 0
    is_monotonic: bool = False


class _Metric(msgspec.Struct):
    name: str = ""
    sum: _Sum | None = None


class _ScopeMetrics(msgspec.Struct):
    metrics: list[_Metric] = []


class _Resource(msgspec.Struct):
    attributes: list[_Attribute] = []


class _ResourceMetrics(msgspec.Struct, rename="camel"):
    resource: _Resource = msgspec.field(default_factory=_Resource)
    scope_metrics: list[_ScopeMetrics] = []


class _Export(msgspec.Struct, rename="camel"):
    resource_metrics: list[_ResourceMetrics] = []


_decoder = msgspec.json.Decoder(_Export)


class _PointRejected(Exception):
    """A point that is no delta of hits, with the reason."""


def otlp_routes(sender: HitSender) -> APIRouter:
    """Makes the router."""
    router = APIRouter(include_in_schema=False)

    @router.post(PATH)
    async def metrics(request: Request) -> Response:
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        coding = request.headers.get("content-encoding", "identity")
        if media != "application/json" or coding != "identity":
            detail = "metrics are read as plain JSON: set OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/json, no compression"
            raise MediaTypeUnsupported(detail, field="Content-Type", value=media, rule="application/json")
        try:
            export = _decoder.decode(await read_bounded(request.stream(), MOST_BYTES))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BodyUnreadable(f"the body is no export of metrics: {error}") from None
        hits, rejected = _hits_of_export(export)
        if hits:
            sent = await sender.send(hits)
            if sent.status not in (200, 422):
                headers = {name.decode(): value.decode() for name, value in sent.headers if name != b"content-length"}
                return Response(sent.body, sent.status, headers={"content-type": MEDIA_TYPE, **headers})
            rejected += _refusals(sent)
        return _otlp_answer(rejected)

    return router


def _refusals(sent: SentHits) -> list[str]:
    items = [str(item["reason"]) for item in sent.receipt["items"] if item["status"] == "refused"]
    return items + ["refused"] * int(sent.receipt.get("items_omitted", 0))


def _otlp_answer(rejected: list[str]) -> Response:
    said = {"partialSuccess": {"rejectedDataPoints": len(rejected), "errorMessage": rejected[0]}} if rejected else {}
    return Response(msgspec.json.encode(said), headers={"content-type": "application/json"})


def _hits_of_export(export: _Export) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the hits of all points, and why others are none."""
    hits: list[dict[str, Any]] = []
    rejected: list[str] = []
    for resource in export.resource_metrics:
        origin = msgspec.json.encode(resource.resource)
        for metric in (each for scope in resource.scope_metrics for each in scope.metrics):
            for point in metric.sum.data_points if metric.sum else ():
                try:
                    hit = _hit_of_point(metric, point, origin)
                except _PointRejected as error:
                    rejected.append(str(error))
                    continue
                if hit is not None:
                    hits.append(hit)
    return hits, rejected


def _hit_of_point(metric: _Metric, point: _Point, origin: bytes) -> dict[str, Any] | None:
    """Returns the hits of a point as one; None for a delta of nothing. Raises _PointRejected."""
    assert metric.sum is not None
    if metric.name != METRIC:
        raise _PointRejected(f"the metric {metric.name!r} is not {METRIC!r}")
    if metric.sum.aggregation_temporality not in _DELTA or not metric.sum.is_monotonic:
        raise _PointRejected(
            "only deltas of a monotonic sum count: set OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=delta"
        )
    count = _whole_number(point.as_double if point.as_int is None else point.as_int)
    nanos = _whole_number(point.time_unix_nano)
    if count is None or nanos is None or count < 0:
        raise _PointRejected("a point needs a whole count and a time")
    said = {each.key: each.value for each in point.attributes}
    hit: dict[str, Any] = {name: said[name].string_value for name in _FIELDS if name in said}
    if "bot" in said:
        hit["bot"] = said["bot"].bool_value
    identity = msgspec.json.encode((metric.name, point)) + origin
    hit |= {"ts": nanos // 10**9, "count": count, "id": f"otlp-{blake2b(identity, digest_size=20).hexdigest()}"}
    return hit if count else None


def _whole_number(value: float | str | None) -> int | None:
    """Returns a number of the protocol, whose long ones are written as text; None if it is no whole one."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None
    return int(value) if value is not None and value == value // 1 else None
