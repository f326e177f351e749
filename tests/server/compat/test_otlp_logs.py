"""Log records of OpenTelemetry: each is a line of an access log, by its attributes, its text or its fields."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse

from clickcurve.hosts import Hosts
from ingest.imports.log_body import LONGEST_LINE
from server.compat.otlp_logs import LogRecord, line_of_record
from server.compat.otlp_protobuf import PROTOBUF
from testing.asgi import ask_app
from tests.ingest.http_kit import NOW
from tests.ingest.imports.logs.kit import FORMATS, TRAEFIK_JSON
from tests.server.compat.test_log_lines import BOT, BROWSER, LogDoor, line

NANOS = str(NOW * 10**9)
OF_CONVENTIONS: dict[str, Any] = {
    "url.path": "/launch",
    "url.query": "utm_source=mail",
    "http.request.method": "GET",
    "http.response.status_code": 302,
    "user_agent.original": BROWSER,
    "client.address": "203.0.113.7",
    "http.request.header.referer": ["https://news.example/a"],
    "server.address": "s.example",
}


def value(of: object) -> dict[str, Any]:
    """A value as OTLP has it in JSON."""
    if isinstance(of, dict):
        return {"kvlistValue": {"values": pairs(of)}}
    if isinstance(of, list):
        return {"arrayValue": {"values": [value(each) for each in of]}}
    kinds = {str: "stringValue", bool: "boolValue", float: "doubleValue"}
    return {"intValue": str(of)} if type(of) is int else {kinds[type(of)]: of}


def pairs(of: Mapping[str, object]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value(each)} for name, each in of.items()]


def record(body: object = None, attributes: Mapping[str, object] = {}, at: str = NANOS) -> dict[str, Any]:
    said = {} if body is None else {"body": value(body)}
    return {"timeUnixNano": at, "attributes": pairs(attributes), **said}


def export(*records: dict[str, Any]) -> bytes:
    resource = {"attributes": pairs({"service.name": "proxy"})}
    return json.dumps({"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": records}]}]}).encode()


def in_protobuf(*lines: str, at: int = NOW) -> bytes:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for text in lines:
        scope.log_records.add(time_unix_nano=at * 10**9).body.string_value = text
    return bytes(request.SerializeToString())


def post(door: LogDoor, body: bytes, media: str = "application/json", coding: str = "identity") -> httpx.Response:
    headers = {"Content-Type": media, "Content-Encoding": coding}
    return ask_app(door.app, "POST", "/v1/logs", content=body, headers=headers)


def rejected(door: LogDoor, body: bytes) -> tuple[int, str]:
    answer = post(door, body)
    assert answer.status_code == 200, answer.text
    partial = answer.json().get("partialSuccess", {})
    return partial.get("rejectedLogRecords", 0), partial.get("errorMessage", "")


@pytest.fixture
def door() -> LogDoor:
    return LogDoor()


@pytest.mark.parametrize("name", FORMATS)
def test_a_body_is_a_line_in_any_format_that_an_import_reads(name: str) -> None:
    given_format = FORMATS[name]
    door = LogDoor(Hosts(in_key=bool(given_format.host)))
    lines = given_format.lines.splitlines(keepends=True)
    assert rejected(door, export(*map(record, lines))) == (0, "")
    key = f"{given_format.host}/launch" if given_format.host else "launch"
    assert {key for _, key in door.intake.people} == {key}


@pytest.mark.parametrize(
    "one",
    [
        record(None, OF_CONVENTIONS),
        record("GET /launch", OF_CONVENTIONS),  # a message beside
        record(None, OF_CONVENTIONS | {"url.path": "", "url.full": "https://s.example/launch"}),
        record(OF_CONVENTIONS | {"path": "/launch", "status": 302, "user_agent": BROWSER}),
        record(None, TRAEFIK_JSON | {"StartUTC": "2026-01-01 12:00:03.123 +0000 UTC"}),
        record(json.dumps(TRAEFIK_JSON | {"StartUTC": "2026-01-01T12:00:03Z"}) + "\n", TRAEFIK_JSON),
        record(line()),
        record(f"{line()}\n"),
    ],
    ids=["attributes", "attributes, text", "whole url", "fields", "Traefik's fields", "its JSON", "line", "its end"],
)
def test_a_record_is_a_hit(door: LogDoor, one: dict[str, Any]) -> None:
    assert rejected(door, export(one)) == (0, "")
    assert ({key for _, key in door.intake.people}, door.intake.total) == ({"launch"}, 1)


def test_attributes_say_who_and_when() -> None:
    said = json.loads(line_of_record(LogRecord(NOW, 1, "GET /launch", OF_CONVENTIONS)))
    assert said == {
        "ts": NOW,
        "path": "/launch",
        "query": "utm_source=mail",
        "method": "GET",
        "status": 302,
        "user_agent": BROWSER,
        "client_ip": "203.0.113.7",
        "referer": "https://news.example/a",
        "host": "s.example",
    }
    assert json.loads(line_of_record(LogRecord(0, NOW, None, {"path": "/a", "time": 7}))) == {
        "date": NOW,
        "path": "/a",
        "time": 7,
    }
    assert line_of_record(LogRecord(NOW, 0, "two\nlines\n", {})) == "two lines"
    assert json.loads(line_of_record(LogRecord(0, 0, " ", {}))) == {}


def test_what_is_no_click_is_skipped_and_what_is_no_line_rejected(door: LogDoor) -> None:
    records = [record(line()), record(line(status=404)), record("server started"), record(), record(line(agent=BOT))]
    many, reason = rejected(door, export(*records))
    assert many == 2 and reason.startswith("not a line of an access log")
    assert (door.intake.people.total(), door.intake.bots.total()) == (1, 1)
    assert door.counters.ignored_events == {("logs", "status"): 1}
    assert rejected(door, export(record("x" * LONGEST_LINE))) == (1, "the line is too long")
    assert rejected(door, export(record(line(path="/" + "k" * 1_030))))[0] == 0, "no key: skipped, as in a log"


def test_an_export_that_is_sent_again_counts_once(door: LogDoor) -> None:
    body, packed = export(record(line()), record(line())), in_protobuf(line("/b"), line("/b"))
    for _ in range(2):
        assert rejected(door, body) == (0, "")
        for again in (0, 1):
            answer = post(door, gzip.compress(packed, mtime=again), PROTOBUF, "gzip")
            assert (answer.status_code, answer.content) == (200, b"")
    assert door.intake.total == 4
    assert rejected(door, export(record(line(), at=str(NOW * 10**9 + 1)))) == (0, "")
    assert door.intake.total == 5, "a record of another nanosecond is another"


def test_protobuf_is_answered_in_protobuf(door: LogDoor) -> None:
    answer = post(door, in_protobuf(line(), "server started", "x" * (LONGEST_LINE + 1)), PROTOBUF)
    assert answer.headers["content-type"] == PROTOBUF
    partial = ExportLogsServiceResponse.FromString(answer.content).partial_success
    assert partial.rejected_log_records == 2 and partial.error_message.startswith("not a line of an access log")
    assert door.intake.total == 1


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"null",
        b"7",
        b"\xff",
        b'{"resourceLogs": 7}',
        b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [7]}]}]}',
        export(record()).replace(NANOS.encode(), b"\\ud800"),
        b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"intValue": ' + b"1" * 9_000 + b"}}]}]}]}",
        b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": '
        + b'{"arrayValue": {"values": [' * 900
        + b"]}}" * 900
        + b"}]}]}]}",
        b'{"resourceLogs":' + b"[" * 5_000,
    ],
    ids=range(10),
)
def test_what_is_no_export_is_refused(door: LogDoor, body: bytes) -> None:
    answer = post(door, body)
    assert answer.status_code in (200, 400), answer.text
    assert answer.status_code == 400 or answer.json()["partialSuccess"]["rejectedLogRecords"] == 1
    assert door.intake.total == 0


def test_encodings_and_bounds(door: LogDoor) -> None:
    assert post(door, b"\xff\xff not protobuf", PROTOBUF).status_code == 400
    assert post(door, b"not gzip", PROTOBUF, "gzip").status_code == 400
    assert post(door, gzip.compress(bytes(64 << 20)), PROTOBUF, "gzip").status_code == 413
    assert post(door, bytes((4 << 20) + 1), PROTOBUF).status_code == 413
    assert post(door, b"", PROTOBUF, "br").status_code == 415
    wrong = post(door, b"", "text/plain")
    assert (wrong.status_code, "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL" in wrong.text) == (415, True)
    assert post(door, b"", PROTOBUF).status_code == 200
    assert post(door, b"{}").json() == {}
    assert post(LogDoor(is_on=False), export(record(line()))).json()["field"] == "doors"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["stringValue", "intValue", "kvlistValue", "arrayValue", "values", "key", "value"]),
            inner,
            max_size=3,
        )
    ),
)
NAMES = st.sampled_from(["timeUnixNano", "observedTimeUnixNano", "body", "attributes"])


@given(st.lists(st.dictionaries(NAMES, ANY, max_size=4), max_size=3))
def test_any_record_is_answered(records: list[dict[str, Any]]) -> None:
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()
    assert post(LogDoor(), body).status_code in (200, 400)


@given(st.integers(0), st.text(), st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2))
def test_any_record_is_one_line(at: int, body: str, attributes: dict[str, str]) -> None:
    assert "\n" not in line_of_record(LogRecord(at, 0, body, attributes))
