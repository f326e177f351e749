"""OTLP in protobuf, as the SDKs of OpenTelemetry send it: their messages, as `server/compat/otlp.py` reads JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clickcurve.buckets.errors import BodyUnreadable
from clickcurve.extras import extra_for

PROTOBUF = "application/x-protobuf"


def export_of(body: bytes) -> Any:
    """Returns the message of an export of metrics. Raises BodyUnreadable, ExtraMissing."""
    with extra_for("OTLP in protobuf"):
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    try:
        return ExportMetricsServiceRequest.FromString(body)
    except DecodeError as error:
        raise BodyUnreadable(f"the body is not an export of metrics in protobuf: {error}") from None


def partial_success(rejected: int, reason: str) -> bytes:
    """Returns the answer to an export; rejected: how many points are not counted."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

    answer = ExportMetricsServiceResponse()
    if rejected:
        answer.partial_success.rejected_data_points = rejected
        answer.partial_success.error_message = reason
    return bytes(answer.SerializeToString())


def sums_of(export: Any) -> Iterator[tuple[bytes, str, Any]]:
    """Yields the sums of an export: what the ids of their points hold of the resource, the metric's name, the sum."""
    for resource in export.resource_metrics:
        origin = bytes(resource.resource.SerializeToString(deterministic=True))
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                if metric.WhichOneof("data") == "sum":
                    yield origin, metric.name, metric.sum


def attributes_of(point: Any) -> Iterator[tuple[str, str | None, bool | None]]:
    """Yields names of a point's attributes, each with its text or its truth value; None: it is none of that kind."""
    for each in point.attributes:
        kind = each.value.WhichOneof("value")
        yield (
            each.key,
            each.value.string_value if kind == "string_value" else None,
            each.value.bool_value if kind == "bool_value" else None,
        )


def count_of(point: Any) -> int | float | None:
    """Returns the number of a point; None if it has none."""
    kind = point.WhichOneof("value")
    return None if kind is None else getattr(point, kind)
