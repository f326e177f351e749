"""OpenTelemetry's own SDK and exporter for Python send counts of clicks, in protobuf, to a server."""

from __future__ import annotations

import gzip

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk.metrics import Counter, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader

from server.compat.otlp_protobuf import PROTOBUF
from testing.client import Clickcurve, http_client
from testing.server import RunningServer
from tests.ingest.http_kit import NOW

DELTA: dict[type, AggregationTemporality] = {Counter: AggregationTemporality.DELTA}


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_the_sdks_counter_is_hits_of_its_links(server: RunningServer, compression: Compression) -> None:
    exporter = OTLPMetricExporter(f"{server.url}/v1/metrics", preferred_temporality=DELTA, compression=compression)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    provider = MeterProvider([reader])
    clicks = provider.get_meter("shortener").create_counter("clicks")
    clicks.add(3, {"key": "launch", "country": "AT", "source": "qr"})
    clicks.add(2, {"key": "launch", "country": "AT", "source": "qr"})
    clicks.add(1, {"key": "launch", "bot": True})
    clicks.add(4, {"key": "🚀"})
    assert provider.force_flush()
    clicks.add(1, {"key": "launch", "country": "AT", "source": "qr"})
    provider.shutdown()
    with Clickcurve(server.url) as client, http_client(server.url) as http:
        assert (client.link("launch")["lifetime"], client.link("launch")["bots"]) == (6, 1)
        assert client.link("🚀")["lifetime"] == 4
        countries = http.get("/v1/links/launch/by/country").json()["values"]
        assert countries == [{"value": "AT", "at_least": 6, "at_most": 6}]


def export(
    count: int = 1, key: str = "launch", *, delta: bool = True, name: str = "clicks"
) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name=name)
    metric.sum.aggregation_temporality = 1 if delta else 2
    metric.sum.is_monotonic = True
    point = metric.sum.data_points.add(as_int=count, time_unix_nano=NOW * 10**9)
    point.attributes.add(key="key").value.string_value = key
    return request


def sent(http: httpx.Client, body: bytes, coding: str = "identity") -> httpx.Response:
    return http.post("/v1/metrics", content=body, headers={"content-type": PROTOBUF, "content-encoding": coding})


def test_points_that_are_no_hits_are_rejected_in_the_protocols_own_answer(server: RunningServer) -> None:
    with http_client(server.url) as http:
        for bad, said in (
            (export(delta=False), "deltas"),
            (export(name="requests"), "requests"),
            (export(key=""), "key"),
        ):
            answer = sent(http, bad.SerializeToString())
            assert (answer.status_code, answer.headers["content-type"]) == (200, PROTOBUF)
            partial = ExportMetricsServiceResponse.FromString(answer.content).partial_success
            assert partial.rejected_data_points == 1 and said in partial.error_message
        good = export(count=5).SerializeToString()
        for _ in range(2):  # sent again it counts once
            assert ExportMetricsServiceResponse.FromString(sent(http, good).content) == ExportMetricsServiceResponse()
        assert http.get("/v1/links/launch").json()["lifetime"] == 5


def test_what_is_no_export_is_refused(server: RunningServer) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    with http_client(server.url) as http:
        assert sent(http, b"\xff\xff not protobuf").status_code == 400
        assert sent(http, b"not gzip", "gzip").status_code == 400
        assert sent(http, gzip.compress(b"x" * 999)[:-9], "gzip").status_code == 400
        assert sent(http, bomb, "gzip").status_code == 413
        assert sent(http, b"", "br").status_code == 415
        assert http.post("/v1/metrics", content=b"", headers={"content-type": "text/plain"}).status_code == 415
        assert sent(http, b"").status_code == 200
