"""What /openapi.json says beyond what the framework finds by itself: hot paths, tokens, and errors as they are.

What is answered in front of the framework is described as finished paths: hits here, questions in
`query.http.openapi`. Tests hold that their examples are what the server answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from clickcurve.keys import GROUP_BYTES, KEY_BYTES
from clickcurve.waiting import computed
from ingest.attributes.campaign import UTM
from ingest.attributes.profile import TAGS
from ingest.hit import ID_CHARACTERS, JsonHit
from ingest.imports.log_body import LogReceipt
from ingest.reading.body_budget import BODY_BYTES
from ingest.reading.receipt import Receipt
from query.http.openapi import TEXT, Schema, path_parameter
from query.http.openapi import schemas as answer_schemas
from server.tokens.token import Scope
from server.workers.unreachable import HEADER

ScopeOf = Callable[[str, str], Scope | None]

_PROBLEM_REF: Schema = {"$ref": "#/components/schemas/Problem"}
_GROUP_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": GROUP_BYTES}
# What the type of a field does not say; and the real rule, where the type has the one of ASCII, which is checked first.
_HIT_FIELDS: Mapping[str, Schema] = {
    "key": {"description": "The link, 1 to 1,024 bytes of UTF-8.", "maxLength": KEY_BYTES},
    "ts": {"description": "When, in epoch seconds or ISO 8601; without it, now."},
    "count": {"default": 1},
    "id": {"description": "Counts once within 48 hours."},
    "ua": {"description": "The visitor's user agent, which tells bots from people."},
    "bot": {"description": "Beats `ua`. With neither it is a person."},
    "ref": {"description": "Where the visitor came from: a URL or a host."},
    "ip": {"description": "The visitor's address: used for the country and a visitor hash, and not stored."},
    "country": {"description": "Two letters of ISO 3166; beats `ip`.", "pattern": "^[A-Za-z]{2}$"},
    "lang": {"description": "A language tag or an Accept-Language."},
    "source": {"description": "Where the link was put up, such as `qr`.", "minLength": 1},
    "utm": {"properties": dict.fromkeys(UTM, TEXT)},
    "tags": {"description": "By names that the settings know.", "maxProperties": TAGS},
    "visitor": {"description": "Names a visitor."},
    "groups": {"description": "Names of groups that the link is in.", "items": _GROUP_NAME},
    "event": {"description": "What came of a click, by a name of the settings; without it, it is a click."},
    "value": {"description": "The amount of one event, in the smallest unit."},
}


def _hit_schema() -> Schema:
    """Returns the schema of a hit, made from the class that hits are read into. Null means absent and is left out."""
    _, components = msgspec.json.schema_components([JsonHit])
    made: Schema = components[JsonHit.__name__]
    properties = {}
    for name, schema in made["properties"].items():
        types = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
        field: Schema = types[0] if len(types) == 1 else {"type": [each["type"] for each in types]}
        if "pattern" in field:
            field = {**field, "pattern": field["pattern"].replace("\\Z", "$")}
        properties[name] = {**field, **_HIT_FIELDS[name]}
    return {"title": "Hit", "type": "object", "required": made["required"], "properties": properties}


SEND_EXAMPLES: dict[str, Any] = {
    "one hit": {"key": "spring-sale"},
    "several, one of them wrong": [
        {"key": "spring-sale", "ts": "2026-03-01T10:30:00+01:00", "count": 3},
        {"key": "", "ts": 1772357400},
    ],
}
ONE_RECEIPT = {"counted": 1, "duplicate": 0, "late": 0, "refused": 0, "items": []}
_MIXED_RECEIPT = {
    "counted": 3,
    "duplicate": 0,
    "late": 3,
    "refused": 1,
    "items": [
        {
            "index": 1,
            "status": "refused",
            "field": "key",
            "value": "",
            "reason": "key is empty (rule: a string of 1 to 1,024 bytes of UTF-8)",
        }
    ],
}
_EVENT = {
    "specversion": "1.0",
    "type": "hit",
    "source": "shop",
    "id": "7f3a",
    "data": {"key": "spring-sale", "ts": 1772357400},
}


def _error_answers(*statuses: int) -> dict[str, Schema]:
    sentences = {
        400: "The body cannot be read; nothing counts.",
        401: "The token is missing or unknown.",
        403: "The token lacks the scope.",
        404: "There is no such route.",
        409: "The offset of the source is another one: `value`.",
        413: f"More than {BODY_BYTES // 1024 // 1024} MiB, decompressed.",
        415: "A type or encoding that is not read here.",
        421: "Another worker keeps the source; ask again over a new connection.",
        422: "A parameter breaks a rule.",
        429: "More comes in than can be written: certainly not counted. Try again after `Retry-After` seconds.",
        503: "The journal is full or cannot be written: certainly not counted. Try again after `Retry-After` seconds.",
    }
    content = {"application/problem+json": {"schema": _PROBLEM_REF}}
    return {str(status): {"description": sentences[status], "content": content} for status in statuses}


def _receipt(**examples: Any) -> Schema:
    shown = {name.replace("_", " "): {"value": value} for name, value in examples.items()}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Receipt"}, "examples": shown}}
    return {"description": "What was counted, and what was not and why.", "content": content}


_NAMED: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Makes a retry safe: a batch with the same key counts once within 48 hours.",
    "schema": {"type": "string", "maxLength": ID_CHARACTERS},
}
_UNREACHABLE: Schema = {
    "description": "Journals of workers that could not be reached: hits that they have not flushed may be missing.",
    "schema": TEXT,
    "example": "journal-2",
}
_NONE_GOOD = {"description": "Not one hit was good; the body is the receipt."}
_HIT_PATHS: dict[str, Schema] = {
    "/v1/hits": {
        "post": {
            "tags": ["writing"],
            "summary": "Count hits",
            "description": "Answered when the hits are on the disk. Bad hits are refused one by one, the others count. "
            "Bodies may be compressed: `Content-Encoding: gzip` or `zstd`. A batch of CloudEvents has a hit in each "
            "`data`, and counts each `source` and `id` once.",
            "operationId": "send_hits",
            "parameters": [_NAMED],
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {
                            "oneOf": [
                                {"$ref": "#/components/schemas/Hit"},
                                {"type": "array", "items": {"$ref": "#/components/schemas/Hit"}},
                            ]
                        },
                        "examples": {name: {"value": value} for name, value in SEND_EXAMPLES.items()},
                    },
                    "application/x-ndjson": {
                        "schema": TEXT,
                        "example": '{"key":"spring-sale"}\n{"key":"spring-sale","bot":true}\n',
                    },
                    "application/cloudevents-batch+json": {"schema": {"type": "array"}, "example": [_EVENT]},
                },
            },
            "responses": {
                "200": _receipt(one_hit=ONE_RECEIPT, several=_MIXED_RECEIPT),
                **_error_answers(400, 413, 415, 429, 503),
                "422": _NONE_GOOD,
            },
        }
    },
    "/v1/hits/{key}": {
        "post": {
            "tags": ["writing"],
            "summary": "Count one hit, now",
            "description": "The quickest way: no body. Answered when the hit is on the disk.",
            "operationId": "send_hit",
            "parameters": [path_parameter("key", "The link, percent-encoded, slash included.", "spring-sale"), _NAMED],
            "responses": {
                "200": _receipt(one_hit=ONE_RECEIPT),
                **_error_answers(400, 429, 503),
                "422": {
                    "description": "The key is not valid (the body is the receipt), or a query parameter was given."
                },
            },
        }
    },
}

_CHUNK: Schema = {
    "required": True,
    "content": {
        "application/x-ndjson": {
            "schema": TEXT,
            "example": '{"key":"spring-sale","ts":1772357400,"count":3}\n{"key":"spring-sale","opening":40}\n',
        },
        "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
    },
}
_LOG_LINE = '203.0.113.7 - - [01/Mar/2026:09:30:00 +0000] "GET /spring-sale HTTP/1.1" 302 0 "-" "Mozilla/5.0 ..."\n'
_LOG_LINES: Schema = {"required": True, "content": {"text/plain": {"schema": TEXT, "example": _LOG_LINE}}}
_LOG_RECEIPT: Schema = {
    "description": "What was counted, what was skipped and why, and what could not be read.",
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/LogReceipt"},
            "examples": {"one line": {"value": {**ONE_RECEIPT, "skipped": 0, "skipped_because": {}}}},
        }
    },
}
_LINES_NOT_COUNTED = {"description": "No line was good (the body is the receipt), or a parameter breaks a rule."}
PICTURES = ("curve.svg", "curve.png", "badge.svg", "badge.json")
# What the framework cannot know of its routes: the errors that are found within them.
_FOUND_WITHIN: dict[tuple[str, str], tuple[int, ...]] = {
    ("get", "/v1/import/{source}"): (421, 503),
    ("post", "/v1/import/{source}"): (400, 409, 413, 415, 421, 429, 503),
    ("post", "/v1/logs/{source}"): (400, 404, 413, 415, 429, 503),
    ("post", "/v1/limit/{event}"): (422,),
    ("post", "/v1/limit/{event}/{reservation}/commit"): (413, 422),
    **{("get", f"{of}/{name}"): (422, 503) for of in ("/v1/links/{key}", "/v1/groups/{name}") for name in PICTURES},
}


def describe(app: FastAPI, questions: Mapping[str, Schema], scope_of: ScopeOf) -> None:
    """Adds /openapi.json; it is built when it is first asked for, in a thread. questions: paths in front of the app.

    scope_of: the scope that a method and path need.
    """
    built: list[Schema] = []

    def document() -> Schema:
        if not built:
            built.append(_completed(FastAPI.openapi(app), questions, scope_of))
        return built[0]

    app.openapi = document  # type: ignore[method-assign]

    @app.get("/openapi.json", include_in_schema=False)
    async def written() -> Response:
        return await computed("writing the document", lambda: JSONResponse(app.openapi()))


def _completed(document: Schema, questions: Mapping[str, Schema], scope_of: ScopeOf) -> Schema:
    paths: dict[str, Schema] = {}
    for path, methods in (*_HIT_PATHS.items(), *questions.items(), *document["paths"].items()):
        paths[path] = {**paths.get(path, {}), **methods}
    document = json.loads(json.dumps({**document, "paths": paths}))  # a copy: below it is changed
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    _, of_receipts = msgspec.json.schema_components([Receipt, LogReceipt], ref_template="#/components/schemas/{name}")
    schemas.update({**answer_schemas(), **of_receipts, "Hit": _hit_schema()})
    document["paths"]["/v1/import/{source}"]["post"]["requestBody"] = _CHUNK
    lines = document["paths"]["/v1/logs/{source}"]["post"]
    lines["requestBody"] = _LOG_LINES
    lines["responses"] |= {"200": _LOG_RECEIPT, "422": _LINES_NOT_COUNTED}
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            scope = scope_of(method.upper(), path)
            responses = operation["responses"]
            responses.update(_error_answers(*_FOUND_WITHIN.get((method, path), ())))
            if "HTTPValidationError" in json.dumps(responses.get("422")):
                responses.update(_error_answers(422))
            if method == "get" and scope is Scope.read:
                responses["200"].setdefault("headers", {})[HEADER] = _UNREACHABLE
            if scope is not None:
                operation["security"] = [{"token": []}]
                operation["x-scope"] = scope.value
                responses.update(_error_answers(401, 403))
    return document
