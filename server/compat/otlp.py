"""`POST /v1/metrics`: counts of OpenTelemetry, in protobuf or JSON. Each delta of the sum `clicks` is hits of a link.

A cumulative sum does not tell when its hits were, and a lost or repeated export would count wrongly: such points are
rejected in `partialSuccess`, as the protocol has it. A delta has no id, so one is made of its attributes, its count and
its times: sent again it counts once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Raw
from msgspec.json import Decoder

from clickcurve.buckets.errors import BodyUnreadable, shown
from clickcurve.budget import spend
from clickcurve.routes import json_answer
from clickcurve.waiting import computed
from server.compat.hit_sender import HitSender
from server.compat.otlp_body import ELEMENT_BYTES, OBJECTS, READ_BYTES, decoded, export_body
from server.compat.otlp_protobuf import (
    PROTOBUF,
    attributes_of,
    count_of,
    metrics_export_of,
    metrics_partial_success,
)
from server.tokens.route_access import Effect, RouteAccess, RouteEffect

PATH = "/v1/metrics"
METRIC = "clicks"
POINT_BYTES = 64 << 10
PIECE_HITS = 1_000  # that are passed on at once
_SHORT_BYTES = 1_024  # of a resource, which each id of its points is made of
_DELTA = (1, "AGGREGATION_TEMPORALITY_DELTA")
_FIELDS = ("key", "ref", "country", "lang", "source", "ua")


ACCESS = RouteAccess((RouteEffect("POST", PATH, Effect.hits),))


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


# What may be long is left as it is sent, and read element by element: others have their turn in between.
class _Sum(msgspec.Struct, rename="camel"):
    data_points: list[Raw] = []
    aggregation_temporality: int | str = 0
    is_monotonic: bool = False


class _Metric(msgspec.Struct):
    name: str = ""
    sum: _Sum | None = None


class _ScopeMetrics(msgspec.Struct):
    metrics: list[Raw] = []


class _Resource(msgspec.Struct):
    attributes: list[_Attribute] = []


class _ResourceMetrics(msgspec.Struct, rename="camel"):
    resource: Raw = Raw(b"{}")
    scope_metrics: list[Raw] = []


class _Export(msgspec.Struct, rename="camel"):
    resource_metrics: list[Raw] = []


_EXPORT, _RESOURCE_METRICS, _RESOURCE = Decoder(_Export), Decoder(_ResourceMetrics), Decoder(_Resource)
_SCOPE_METRICS, _METRIC, _POINT = Decoder(_ScopeMetrics), Decoder(_Metric), Decoder(_Point)


class _PointRejected(Exception):
    """A point that is no delta of hits, with the reason."""


@dataclass(slots=True)
class _Read:
    """The hits of an export, the number of points that are rejected, and why the first one is."""

    hits: list[dict[str, Any]] = field(default_factory=list)
    rejected: int = 0
    first_reason: str = ""

    def reject(self, reason: str, points: int = 1) -> None:
        self.first_reason = self.first_reason or reason
        self.rejected += points


def otlp_routes(sender: HitSender) -> APIRouter:
    """Makes the router."""
    router = APIRouter(include_in_schema=False, tags=["OpenTelemetry"])

    @router.post(PATH, summary="Count the points of the sum `clicks`, in OTLP")
    async def metrics(request: Request) -> Response:
        media, body = await export_body(request, "metrics")
        export = await (_read_protobuf if media == PROTOBUF else _read_export)(body)
        # Each hit has an id, so an export that is sent again after a piece was not taken counts once.
        for at in range(0, len(export.hits), PIECE_HITS):
            sent = await sender.send(export.hits[at : at + PIECE_HITS])
            if not sent.is_receipt:
                return sent.passed_on()
            points, reason = sent.refused()
            if points:
                export.reject(reason, points)
        if media == PROTOBUF:
            answer = metrics_partial_success(export.rejected, export.first_reason)
            return Response(answer, media_type=PROTOBUF)
        partial = {"rejectedDataPoints": export.rejected, "errorMessage": export.first_reason}
        return json_answer({"partialSuccess": partial} if export.rejected else {})

    return router


async def _read_export(body: bytes) -> _Read:
    """Reads the hits of all points; raises BodyUnreadable, RequestTooCostly."""
    await spend(OBJECTS, body.count(b"{"))
    export = _Read()
    try:
        async for resource in decoded(_RESOURCE_METRICS, _EXPORT.decode(body).resource_metrics):
            origin = _origin_of(bytes(resource.resource))
            async for scope in decoded(_SCOPE_METRICS, resource.scope_metrics):
                async for metric in decoded(_METRIC, scope.metrics):
                    await _read_points(metric, origin, export)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BodyUnreadable(f"the body is not an export of metrics: {error}") from None
    return export


async def _read_protobuf(body: bytes) -> _Read:
    """Reads the hits of all points of an export in protobuf; raises BodyUnreadable, ExtraMissing, RequestTooCostly."""
    read = _Read()
    export = await computed("reading an export", metrics_export_of, body)
    async for origin, name, sum_ in _sums_of(export):
        temporality = _Sum([], sum_.aggregation_temporality, sum_.is_monotonic)
        for point in sum_.data_points:
            size = point.ByteSize()
            await spend(OBJECTS, 1 + len(point.attributes))
            await spend(READ_BYTES, ELEMENT_BYTES + size)
            try:
                if size > POINT_BYTES:
                    raise _PointRejected(f"a point has more than {POINT_BYTES:,} bytes")
                hit = _hit_of_point(name, temporality, _point_of(point), origin)
            except _PointRejected as error:
                read.reject(str(error))
                continue
            if hit is not None:
                read.hits.append(hit)
    return read


async def _sums_of(export: Any) -> AsyncIterator[tuple[bytes, str, Any]]:
    """Yields what ids hold of the resource, the name of a sum, and the sum. Parts without one cost as much."""
    for resource in export.resource_metrics:
        origin = bytes(resource.resource.SerializeToString(deterministic=True))
        origin = origin if len(origin) <= _SHORT_BYTES else blake2b(origin).digest()
        await spend(OBJECTS)
        for scope in resource.scope_metrics:
            await spend(OBJECTS)
            for metric in scope.metrics:
                await spend(OBJECTS)
                if metric.WhichOneof("data") == "sum":
                    yield origin, metric.name, metric.sum


def _point_of(point: Any) -> _Point:
    attributes = [_Attribute(key, _Value(text, None, truth)) for key, text, truth in attributes_of(point)]
    count = count_of(point)
    times = point.start_time_unix_nano, point.time_unix_nano
    if isinstance(count, float):
        return _Point(attributes, *times, as_double=count)
    return _Point(attributes, *times, as_int=count)


def _origin_of(resource: bytes) -> bytes:
    """Returns what the ids of a resource's points hold of it: a digest, if it is long."""
    if len(resource) > POINT_BYTES:
        return blake2b(resource).digest()
    encoded = msgspec.json.encode(_RESOURCE.decode(resource))
    return encoded if len(encoded) <= _SHORT_BYTES else blake2b(encoded).digest()


async def _read_points(metric: _Metric, origin: bytes, export: _Read) -> None:
    """Adds the hits of a metric's points, and what is wrong with the others."""
    if metric.sum is None:
        return
    for element in metric.sum.data_points:
        raw = bytes(element)
        await spend(READ_BYTES, ELEMENT_BYTES + len(raw))
        try:
            if len(raw) > POINT_BYTES:
                raise _PointRejected(f"a point has more than {POINT_BYTES:,} bytes")
            hit = _hit_of_point(metric.name, metric.sum, _POINT.decode(raw), origin)
        except _PointRejected as error:
            export.reject(str(error))
            continue
        if hit is not None:
            export.hits.append(hit)


def _hit_of_point(name: str, sum_: _Sum, point: _Point, origin: bytes) -> dict[str, Any] | None:
    """Returns the hits of a point as one; None for a delta of nothing. Raises _PointRejected."""
    if name != METRIC:
        raise _PointRejected(f"the metric {shown(name)!r} is not {METRIC!r}")
    if sum_.aggregation_temporality not in _DELTA or not sum_.is_monotonic:
        raise _PointRejected(
            "only deltas of a monotonic sum count: set OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=delta"
        )
    count = _whole_number(point.as_double if point.as_int is None else point.as_int)
    nanos = _whole_number(point.time_unix_nano)
    if count is None or nanos is None or count < 0:
        raise _PointRejected("a point needs a whole count and a time")
    given = {each.key: each.value for each in point.attributes}
    hit: dict[str, Any] = {name: given[name].string_value for name in _FIELDS if name in given}
    if "bot" in given:
        hit["bot"] = given["bot"].bool_value
    identity = msgspec.json.encode((name, point)) + origin
    hit |= {"ts": nanos // 10**9, "count": count, "id": f"otlp-{blake2b(identity, digest_size=20).hexdigest()}"}
    return hit if count else None


def _whole_number(value: float | str | None) -> int | None:
    """Returns a number of the protocol, whose long ones are written as text; None if it is no whole one."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None
    return int(value) if value is not None and value == value // 1 else None
