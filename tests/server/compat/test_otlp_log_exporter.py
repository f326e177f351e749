"""OpenTelemetry's own SDK and exporter for Python send log records, in protobuf, to a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import requests
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from requests.adapters import HTTPAdapter

from server.tokens.token import Scope
from testing.client import Clickcurve, http_client
from testing.server import RunningServer
from testing.tokens import add_token
from tests.server.compat.test_log_lines import BOT, BROWSER, line

NANOS = 1_767_268_803 * 10**9  # 2026-01-01T12:00:03Z
REQUEST: dict[str, Any] = {
    "url.path": "/launch",
    "http.request.method": "GET",
    "http.response.status_code": 302,
    "http.request.header.referer": ["https://news.example/a"],
    "user_agent.original": BROWSER,
}


def provider(exporter: OTLPLogExporter) -> LoggerProvider:
    made = LoggerProvider(shutdown_on_exit=False)
    made.add_log_record_processor(BatchLogRecordProcessor(exporter, schedule_delay_millis=3_600_000))
    return made


def emit(to: LoggerProvider, *records: LogRecord) -> None:
    for each in records:
        to.get_logger("proxy").emit(each)
    assert to.force_flush()


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_the_sdks_records_are_hits_of_their_links(server: RunningServer, compression: Compression) -> None:
    logs = provider(OTLPLogExporter(f"{server.url}/v1/logs", compression=compression))
    emit(
        logs,
        LogRecord(timestamp=NANOS, body=line("/docs")),
        LogRecord(timestamp=NANOS, body=line("/docs", agent=BOT)),
        LogRecord(timestamp=NANOS, body=line("/none", 404)),
        LogRecord(timestamp=NANOS, body="GET /launch", attributes=REQUEST),
        LogRecord(timestamp=NANOS, attributes=REQUEST),
        LogRecord(timestamp=NANOS, attributes=REQUEST),
        LogRecord(timestamp=NANOS, body="server started"),
    )
    emit(logs, LogRecord(observed_timestamp=NANOS, attributes=REQUEST))
    logs.shutdown()
    with Clickcurve(server.url) as client, http_client(server.url) as http:
        assert (client.link("docs")["lifetime"], client.link("docs")["bots"]) == (1, 1)
        assert client.link("launch")["lifetime"] == 4
        assert client.total(bots="include")["total"] == 6
        referrers = http.get("/v1/links/launch/by/ref").json()["values"]
        assert referrers == [{"value": "news.example", "at_least": 4, "at_most": 4}]


class LosesAnswers(HTTPAdapter):
    """Sends requests, and loses the answer of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0

    def send(self, *args: Any, **more: Any) -> requests.Response:
        answer = super().send(*args, **more)
        self.sent += 1
        if self.sent == 1:
            raise requests.ConnectionError("the answer is lost")
        return answer


def test_an_export_that_is_sent_again_counts_once(server: RunningServer) -> None:
    session, network = requests.Session(), LosesAnswers()
    session.trust_env = False
    session.mount("http://", network)
    logs = provider(OTLPLogExporter(f"{server.url}/v1/logs", session=session, compression=Compression.Gzip))
    emit(logs, *(LogRecord(timestamp=NANOS + n, body=line()) for n in range(3)))
    logs.shutdown()
    assert network.sent == 2
    with Clickcurve(server.url) as client:
        assert client.link("launch")["lifetime"] == 3


def test_a_token_with_a_prefix_holds(tmp_path: Path) -> None:
    file = tmp_path / "data" / "tokens.json"
    acme = add_token(file, "acme", (Scope.write,), prefix="acme/")
    admin = add_token(file, "admin", (Scope.admin,))
    with RunningServer(tmp_path / "data") as server, http_client(server.url) as http:
        for headers in ({"authorization": f"Bearer {acme}"}, {}):
            logs = provider(OTLPLogExporter(f"{server.url}/v1/logs", headers=headers))
            emit(logs, LogRecord(timestamp=NANOS, body=line("/acme/a")), LogRecord(timestamp=NANOS, body=line("/b")))
            logs.shutdown()
        http.headers["Authorization"] = f"Bearer {admin}"
        totals = [
            http.get(f"/v1/{path}/total").json()["total"] for path in ("links/acme%2Fa", "links/b", "groups/acme")
        ]
        assert totals == [1, 0, 1]
