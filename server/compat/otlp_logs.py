"""`POST /v1/logs`: log records of OpenTelemetry, in protobuf or JSON, read as lines of an access log.

A record is the request that its attributes describe by the conventions of OpenTelemetry (`url.path`,
`http.response.status_code`, ...), else the line that is its body, else the names and values that are its body or its
attributes, as a line of JSON. A record has no id: an export is its own, so one that is sent again counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Raw
from msgspec.json import Decoder

from clickcurve.buckets.errors import BodyUnreadable
from clickcurve.budget import spend
from clickcurve.hosts import Hosts
from clickcurve.routes import json_answer
from clickcurve.waiting import computed
from ingest.agents.bots import bot_judge
from ingest.imports.access_log import AccessLog
from ingest.imports.log_body import BODY_TEXTS_KEPT, LONGEST_LINE, LogReceipt
from server.compat.log_lines import LineCounter, body_digest, require_on
from server.compat.otlp_body import ELEMENT_BYTES, OBJECTS, READ_BYTES, decoded, export_body
from server.compat.otlp_protobuf import (
    PROTOBUF,
    fields_of,
    logs_export_of,
    logs_partial_success,
    value_of,
)
from server.tokens.route_access import Effect, RouteAccess, RouteEffect

PATH = "/v1/logs"
ACCESS = RouteAccess((RouteEffect("POST", PATH, Effect.hits),))
# What the conventions of OpenTelemetry call what lines of JSON have by other names.
_NAMES = {
    "url.full": "url",
    "url.path": "path",
    "url.query": "query",
    "url.scheme": "scheme",
    "http.request.method": "method",
    "http.response.status_code": "status",
    "http.request.header.referer": "referer",
    "user_agent.original": "user_agent",
    "client.address": "client_ip",
    "server.address": "host",
}
_TOO_LONG = "x" * (LONGEST_LINE + 1)  # is refused as any line of that length


class LogRecord(NamedTuple):
    """What a record says. at, observed_at: epoch seconds, of the event and of who saw it; 0: not said."""

    at: int
    observed_at: int
    body: object
    attributes: Mapping[str, object]


class _Record(msgspec.Struct, rename="camel"):
    time_unix_nano: int | str = 0
    observed_time_unix_nano: int | str = 0
    body: Any = None
    attributes: Any = None


class _ScopeLogs(msgspec.Struct, rename="camel"):
    log_records: list[Raw] = []


class _ResourceLogs(msgspec.Struct, rename="camel"):
    scope_logs: list[Raw] = []


class _Export(msgspec.Struct, rename="camel"):
    resource_logs: list[Raw] = []


_EXPORT, _RESOURCE_LOGS, _SCOPE_LOGS, _RECORD = map(Decoder, (_Export, _ResourceLogs, _ScopeLogs, _Record))


def otlp_log_routes(counter: LineCounter, hosts: Hosts, is_on: bool) -> APIRouter:
    """Makes the router. is_on: else the route is 404."""
    router = APIRouter(include_in_schema=False, tags=["OpenTelemetry"])

    @router.post(PATH, summary="Count log records, in OTLP")
    async def logs(request: Request) -> Response:
        require_on(is_on)
        media, body = await export_body(request, "logs")
        lines = await (_protobuf_lines if media == PROTOBUF else _json_lines)(body)
        key = await computed("hashing a body", body_digest, body)
        log = AccessLog(bot_judge(), hosts=hosts, texts_kept=BODY_TEXTS_KEPT)
        receipt = await counter.count(PATH, key, "\n".join(lines).encode(), log)
        reason = _first_reason(receipt)
        if media == PROTOBUF:
            return Response(logs_partial_success(receipt.refused, reason), media_type=PROTOBUF)
        partial = {"rejectedLogRecords": receipt.refused, "errorMessage": reason}
        return json_answer({"partialSuccess": partial} if receipt.refused else {})

    return router


def line_of_record(record: LogRecord) -> str:
    """Returns a record as a line of an access log."""
    said = {ours: _one(record.attributes[name]) for name, ours in _NAMES.items() if name in record.attributes}
    if "status" not in said or not ("path" in said or "url" in said):
        if isinstance(record.body, str) and record.body.strip():
            return record.body.strip("\n").replace("\n", " ")
        said = dict(record.body if isinstance(record.body, Mapping) else record.attributes)
    # `ts` is before any other time of a line, `date` behind all.
    when = {"ts": record.at} if record.at else {"date": record.observed_at} if record.observed_at else {}
    return msgspec.json.encode(when | said).decode()


def _one(value: object) -> object:
    """Returns the first of several values, as those of a header field are."""
    return value[0] if isinstance(value, list) and value else value


def _first_reason(receipt: LogReceipt) -> str:
    return next((item.reason for item in receipt.items if item.status == "refused"), "refused")


# --- protobuf ---------------------------------------------------------------------------------------------------------
async def _protobuf_lines(body: bytes) -> list[str]:
    """Returns the lines of an export; raises BodyUnreadable, ExtraMissing, RequestTooCostly."""
    export = await computed("reading an export", logs_export_of, body)
    lines = []
    for resource in export.resource_logs:
        await spend(OBJECTS)
        for scope in resource.scope_logs:
            await spend(OBJECTS)
            for record in scope.log_records:
                size = record.ByteSize()
                await spend(OBJECTS, 1 + len(record.attributes))
                await spend(READ_BYTES, ELEMENT_BYTES + size)
                lines.append(_TOO_LONG if size > LONGEST_LINE else line_of_record(_of_protobuf(record)))
    return lines


def _of_protobuf(record: Any) -> LogRecord:
    at, observed_at = record.time_unix_nano // 10**9, record.observed_time_unix_nano // 10**9
    return LogRecord(at, observed_at, value_of(record.body), fields_of(record.attributes))


# --- JSON -------------------------------------------------------------------------------------------------------------
async def _json_lines(body: bytes) -> list[str]:
    """Returns the lines of an export; raises BodyUnreadable, RequestTooCostly."""
    await spend(OBJECTS, body.count(b"{"))
    lines = []
    try:
        async for resource in decoded(_RESOURCE_LOGS, _EXPORT.decode(body).resource_logs):
            async for scope in decoded(_SCOPE_LOGS, resource.scope_logs):
                for element in scope.log_records:
                    raw = bytes(element)
                    await spend(READ_BYTES, ELEMENT_BYTES + len(raw))
                    lines.append(
                        _TOO_LONG if len(raw) > LONGEST_LINE else line_of_record(_of_json(_RECORD.decode(raw)))
                    )
    except (msgspec.DecodeError, ValueError, RecursionError) as error:  # ValueError: a number of thousands of digits
        raise BodyUnreadable(f"the body is not an export of logs: {error}") from None
    return lines


def _of_json(record: _Record) -> LogRecord:
    at, observed_at = _seconds(record.time_unix_nano), _seconds(record.observed_time_unix_nano)
    return LogRecord(at, observed_at, _json_value(record.body), _json_fields(record.attributes))


def _seconds(nanos: int | str) -> int:
    """Returns seconds; 0 for what is no number of the protocol, whose long ones are written as text."""
    if isinstance(nanos, str):
        nanos = int(nanos) if nanos.isascii() and nanos.isdigit() and len(nanos) < 20 else 0
    return max(nanos, 0) // 10**9 if nanos < 2**64 else 0


def _json_value(value: object) -> object:
    """Returns what a value of any kind is, as `value_of` does."""
    if not isinstance(value, Mapping):
        return None
    if isinstance(pairs := value.get("kvlistValue"), Mapping):
        return _json_fields(pairs.get("values"))
    if isinstance(several := value.get("arrayValue"), Mapping):
        values = several.get("values")
        return [_json_value(each) for each in values] if isinstance(values, list) else []
    names = ("stringValue", "intValue", "doubleValue", "boolValue")
    return next((value[name] for name in names if value.get(name) is not None), None)


def _json_fields(pairs: object) -> dict[str, object]:
    if not isinstance(pairs, list):
        return {}
    named = (each for each in pairs if isinstance(each, Mapping) and isinstance(each.get("key"), str))
    return {each["key"]: _json_value(each.get("value")) for each in named}
