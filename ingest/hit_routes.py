"""What the OpenAPI page says of the two write routes. They are answered by `HitRoutes`, in front of the framework."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from ingest.body import Media
from ingest.hit import BOT_RULE, COUNT_MAX, COUNT_RULE, ID_CHARACTERS, ID_RULE, KEY_RULE, TS_RULE
from ingest.receipt import RECEIPT_ITEMS

Schema = dict[str, Any]

_NOW = 1_767_268_834
_COUNT: Schema = {"type": "integer", "minimum": 0}
_TEXT: Schema = {"type": "string"}

HIT: Schema = {
    "type": "object",
    "required": ["key"],
    "properties": {
        "key": _TEXT | {"description": KEY_RULE},
        "ts": {"type": ["number", "string"], "description": f"{TS_RULE}; left out: now"},
        "count": {"type": "integer", "minimum": 1, "maximum": COUNT_MAX, "default": 1, "description": COUNT_RULE},
        "id": _TEXT | {"maxLength": ID_CHARACTERS, "description": f"Counts once in 48 hours: {ID_RULE}"},
        "ua": _TEXT | {"description": "The visitor's user agent, which tells bots from people"},
        "bot": {"type": "boolean", "description": f"{BOT_RULE}; beats `ua`"},
    },
}
EVENT: Schema = {
    "type": "object",
    "required": ["specversion", "id", "source"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": _TEXT | {"description": "Together with `source` the id of the hit"},
        "source": _TEXT,
        "type": _TEXT,
        "subject": _TEXT | {"description": "The key, where `data` has none"},
        "time": _TEXT | {"description": "The time, where `data` has none"},
        "data": HIT,
    },
}
ITEM: Schema = {
    "type": "object",
    "required": ["index", "status", "field", "value", "reason"],
    "properties": {
        "index": _COUNT | {"description": "Place in the body, from 0; empty lines do not count"},
        "status": {"enum": ["duplicate", "refused"]},
        "field": _TEXT,
        "value": {"description": "The value to blame, shortened if it is long"},
        "reason": _TEXT,
    },
}
RECEIPT: Schema = {
    "type": "object",
    "required": ["counted", "duplicate", "late", "refused", "items"],
    "properties": {
        "counted": _COUNT | {"description": "Sum of the counts of accepted hits, late ones included"},
        "duplicate": _COUNT | {"description": "Sum of the counts of hits whose id was counted before"},
        "late": _COUNT | {"description": "The part of `counted` that is no longer kept by the minute"},
        "refused": _COUNT | {"description": "Sum of the counts of refused hits; 1 where the count is not valid"},
        "items": {"type": "array", "items": ITEM, "maxItems": RECEIPT_ITEMS},
        "items_omitted": _COUNT | {"description": "How many more were refused or duplicates, if any"},
    },
}
PROBLEM: Schema = {
    "type": "object",
    "required": ["title", "detail"],
    "properties": {"title": _TEXT, "detail": _TEXT, "field": _TEXT, "value": {}, "rule": _TEXT},
}

_ONE = {"key": "spring-sale"}
_TWO = [_ONE, {"key": "spring-sale", "ts": _NOW, "count": 3, "bot": True}]
_LINES = '{"key":"spring-sale"}\n{"key":"autumn","ts":"2026-01-01T12:00:34Z","id":"hit-81"}\n'
_EVENTS = [{"specversion": "1.0", "type": "hit", "source": "/shortener/1", "id": "81", "data": {"key": "spring-sale"}}]
_COUNTED = {"counted": 4, "duplicate": 0, "late": 0, "refused": 0, "items": []}
_REFUSED_ITEM = {
    "index": 1,
    "status": "refused",
    "field": "count",
    "value": 0,
    "reason": f"count is out of range (rule: {COUNT_RULE})",
}
_PARTLY = {"counted": 1, "duplicate": 0, "late": 0, "refused": 1, "items": [_REFUSED_ITEM]}
_NONE = {**_PARTLY, "counted": 0, "items": [{**_REFUSED_ITEM, "index": 0}]}
_BEHIND = {"title": "journal behind", "detail": "more is accepted than can be written; try again in a moment"}

_NAME: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": f"Counts the request once in 48 hours, however often it is sent: {ID_RULE}",
    "schema": _TEXT,
    "example": "8e03978e-40d5-43dd-bc93-6894a57f9324",
}
_KEY: Schema = {
    "name": "key",
    "in": "path",
    "required": True,
    "description": f"{KEY_RULE}, percent-encoded, slash included",
    "schema": _TEXT,
    "example": "spring-sale",
}
_RETRY: Schema = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}


def _problem(description: str, **more: Any) -> Schema:
    return {"description": description, "content": {"application/problem+json": {"schema": PROBLEM}}, **more}


def _receipts(description: str, **examples: Any) -> Schema:
    named = {name: {"value": value} for name, value in examples.items()}
    return {"description": description, "content": {"application/json": {"schema": RECEIPT, "examples": named}}}


_RESPONSES: dict[int | str, Schema] = {
    200: _receipts("What was counted, and item by item what was not", counted=_COUNTED, partly=_PARTLY),
    400: _problem("The body cannot be read; nothing of it counts"),
    413: _problem("The body is larger than 64 MiB, decoded"),
    415: _problem("The Content-Type or Content-Encoding is not one that is read"),
    422: _receipts("Not one hit is good; or a problem document about the Idempotency-Key", refused=_NONE),
    429: _problem("More is accepted than can be written: certainly not counted", headers=_RETRY),
    503: _problem("The journal is full or fails: certainly not counted", headers=_RETRY),
}
_BODY: Schema = {
    "required": True,
    "content": {
        Media.json.value: {
            "schema": {"oneOf": [HIT, {"type": "array", "items": HIT}]},
            "examples": {"one": {"value": _ONE}, "several": {"value": _TWO}},
        },
        Media.lines.value: {"schema": _TEXT, "examples": {"lines": {"value": _LINES}}},
        Media.events.value: {
            "schema": {"type": "array", "items": EVENT},
            "examples": {"events": {"value": _EVENTS}},
        },
    },
}


def hit_routes() -> APIRouter:
    """Routes that describe `HitRoutes`. Being behind it, they are never reached."""
    router = APIRouter(tags=["writing"])

    @router.post(
        "/v1/hits",
        summary="Count hits",
        responses=_RESPONSES,
        openapi_extra={"parameters": [_NAME], "requestBody": _BODY},
    )
    async def post_hits(request: Request) -> Response:
        """One hit, an array of hits, one hit a line, or a batch of CloudEvents; plain, or packed by gzip or zstd.

        The answer comes when the hits are on disk. Hits that break a rule are refused one by one, the others count.
        A connection that is closed without an answer means that the outcome is unknown.
        """
        raise AssertionError("answered in front of the framework")

    @router.post(
        "/v1/hits/{key}",
        summary="Count one hit now",
        responses={status: response for status, response in _RESPONSES.items() if status not in (413, 415)},
        openapi_extra={"parameters": [_KEY, _NAME]},
    )
    async def post_hit(request: Request) -> Response:
        """One visit of a person, now, without a body. The same answers as above."""
        raise AssertionError("answered in front of the framework")

    return router
