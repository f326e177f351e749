"""OTLP in protobuf, as the SDKs of OpenTelemetry send it: their messages, as `server/compat/otlp.py` reads JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clickcurve.buckets.errors import BodyUnreadable
from clickcurve.extras import extra_for

PROTOBUF = "application/x-protobuf"


def metrics_export_of(body: bytes) -> Any:
    """Returns the message of an export of metrics. Raises BodyUnreadable, ExtraMissing."""
    with extra_for("OTLP in protobuf"):
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    return _message_of(ExportMetricsServiceRequest, body, "metrics")


def logs_export_of(body: bytes) -> Any:
    """Returns the message of an export of log records. Raises BodyUnreadable, ExtraMissing."""
    with extra_for("OTLP in protobuf"):
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    return _message_of(ExportLogsServiceRequest, body, "logs")


def _message_of(kind: Any, body: bytes, signal: str) -> Any:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise BodyUnreadable(f"the body is not an export of {signal} in protobuf: {error}") from None


def metrics_partial_success(rejected: int, reason: str) -> bytes:
    """Returns the answer to an export of metrics; rejected: how many points are not counted."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

    return _answer(ExportMetricsServiceResponse(), "rejected_data_points", rejected, reason)


def logs_partial_success(rejected: int, reason: str) -> bytes:
    """Returns the answer to an export of log records; rejected: how many are refused."""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

    return _answer(ExportLogsServiceResponse(), "rejected_log_records", rejected, reason)


def _answer(answer: Any, name: str, rejected: int, reason: str) -> bytes:
    if rejected:
        setattr(answer.partial_success, name, rejected)
        answer.partial_success.error_message = reason
    return bytes(answer.SerializeToString())


def value_of(value: Any) -> object:
    """Returns what a value of any kind is: a text, a number, a truth value, bytes, a list or a dict; None: nothing."""
    kind = value.WhichOneof("value")
    if kind == "kvlist_value":
        return fields_of(value.kvlist_value.values)
    if kind == "array_value":
        return [value_of(each) for each in value.array_value.values]
    return None if kind is None else getattr(value, kind)


def fields_of(pairs: Any) -> dict[str, object]:
    """Returns attributes, or the pairs of a value, by their names."""
    return {each.key: value_of(each.value) for each in pairs}


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
