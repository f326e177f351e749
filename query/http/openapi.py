"""What the OpenAPI page says of the read routes: parameters, shapes and examples.

Routes of the framework get it as keywords; hot paths, which are answered in front of it, as finished paths.
"""

from __future__ import annotations

from typing import Any

from clickcurve.keys import GROUP_RULE, KEY_RULE, OUTCOMES
from clickcurve.problem import MEDIA_TYPE
from clickcurve.times import TIME_RULE
from query.parameters import CURVE_FORMATS, DEFAULT_OUTCOME, DEFAULT_TOP, MAX_TOP, SORTS
from query.steps import LAST_RULE, STEPS
from query.sums import BODY_BYTES, MAX_KEYS

Schema = dict[str, Any]

INTEGER: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
TEXT: Schema = {"type": "string"}
TIME: Schema = {"type": "integer", "description": "epoch seconds"}


def or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def shape(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


def parameter(name: str, description: str, schema: Schema | None = None, example: Any = None) -> Schema:
    found: Schema = {"name": name, "in": "query", "description": description, "schema": schema or TEXT}
    return found if example is None else {**found, "example": example}


KEY: Schema = {
    "name": "key",
    "in": "path",
    "required": True,
    "description": f"{KEY_RULE}, percent-encoded, slash included",
    "schema": TEXT,
    "example": "spring-sale",
}
GROUP: Schema = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": f"{GROUP_RULE}, percent-encoded, slash included",
    "schema": TEXT,
    "example": "spring",
}
FROM = parameter("from", f"Start of the range, included: {TIME_RULE}. Without an offset it is meant in `tz`.")
TO = parameter("to", "End of the range, not included, as `from`. Default: the end of the minute that holds now.")
LAST = parameter(
    "last", f"The current unit and those before it: {LAST_RULE}. Not together with `from` or `to`.", example="7d"
)
TZ = parameter(
    "tz", "IANA time zone in which days, weeks and months begin.", {"type": "string", "default": "UTC"}, "Europe/Berlin"
)
STEP = parameter(
    "step",
    "Length of a point. Where less is kept, points are as wide as what is kept. `native`: the buckets as kept.",
    {"type": "string", "enum": [*STEPS, "auto"], "default": "auto"},
)
BOTS = parameter(
    "bots",
    "Count people, people and bots, or bots.",
    {"type": "string", "enum": ["exclude", "include", "only"], "default": "exclude"},
)
FORMAT = parameter("format", "Default: what `Accept` prefers, else JSON.", {"type": "string", "enum": ["json", "csv"]})
_CURVE_FORMAT = parameter(
    "format",
    "Default: what `Accept` prefers, else JSON. `rows`: flat JSON, a list of `time`, `end`, `count` and `state`.",
    {"type": "string", "enum": [*CURVE_FORMATS]},
)
_SORT = parameter(
    "sort",
    "The order: most hits first, ties by key; or by key, as the bytes of UTF-8 are ordered.",
    {"type": "string", "enum": list(SORTS), "default": SORTS[0]},
)
_PREFIX = parameter("prefix", "With `sort=key`: only keys that begin so.")
_AFTER = parameter("after", "With `sort=key`: only keys after this one, the `after` of the page before.")
_LIMIT = parameter(
    "limit", "How many links.", {"type": "integer", "minimum": 1, "maximum": MAX_TOP, "default": DEFAULT_TOP}
)

_EVENT: Schema = {
    "name": "event",
    "in": "path",
    "required": True,
    "description": "An event of the limiter that has rules, or had some.",
    "schema": TEXT,
    "example": "login",
}
_OUTCOME = parameter(
    "outcome",
    "All hits that were asked for, or those that were admitted; each counts its cost.",
    {"type": "string", "enum": [*OUTCOMES], "default": DEFAULT_OUTCOME},
)

_CALLER = parameter(
    "caller",
    "Of one caller only: its features as the rule names them, `feature=value`, with blanks between several. For rules "
    'with `history = "callers"`; kept for 30 days.',
    example="ip=203.0.113.7",
)

KEY_SHAPE: dict[str, Schema] = {
    "key": {**TEXT, "description": "null for all links together", "type": ["string", "null"]}
}
_BOUNDS: dict[str, Schema] = {
    "at_least": {**INTEGER, "description": "hits that are certainly in the range"},
    "at_most": {**INTEGER, "description": "the same and those in kept buckets that the range cuts"},
    "exact": {**BOOLEAN, "description": "do the bounds meet"},
}
TOTAL_SHAPE = shape(
    KEY_SHAPE
    | {"from": or_null(TIME), "to": or_null(TIME)}
    | {"total": {**or_null(INTEGER), "description": "null unless exact"}}
    | _BOUNDS
)
_POINT_SHAPE = shape(
    {
        "start": TIME,
        "end": TIME,
        "count": INTEGER,
        "state": {"type": "string", "enum": ["complete", "partial", "open"]},
    }
)
_POINT_SHAPE["properties"]["wide"] = {**BOOLEAN, "description": "true: wider than its step, as no finer is kept"}
CURVE_SHAPE = shape(
    KEY_SHAPE
    | {"from": TIME, "to": TIME, "step": TEXT, "tz": TEXT}
    | {
        "first_hit": {
            **or_null(TIME),
            "description": "start of the minute of the first hit; before it, zeros mean nothing yet",
        }
    }
    | {"total": {**INTEGER, "description": "sum of the points"}}
    | _BOUNDS
    | {"points": {"type": "array", "items": _POINT_SHAPE, "description": "tile the range: each end is the next start"}}
)
_ROWS_SHAPE: Schema = {
    "type": "array",
    "items": shape({"time": TEXT, "end": TEXT, "count": INTEGER, "state": TEXT}),
    "description": "with `format=rows`",
}
CURVE_OR_ROWS: Schema = {"oneOf": [CURVE_SHAPE, _ROWS_SHAPE]}
SUMMARY_SHAPE = shape(
    {"key": TEXT}
    | dict.fromkeys(("lifetime", "today", "yesterday", "last_7d", "last_30d"), INTEGER)
    | {"bots": {**INTEGER, "description": "lifetime count of bots, whatever `bots` says"}}
    | {"first_hit": or_null(TIME), "last_hit": or_null(TIME)}
    | {"opening": {**INTEGER, "description": "imported without dates: part of the lifetime, of no curve"}}
    | {"exact": {**BOOLEAN, "description": "false where a day begins inside a kept bucket, which then counts whole"}}
)
TOP_SHAPE = shape(
    {"from": or_null(TIME), "to": or_null(TIME)}
    | {"links": {"type": "array", "items": shape({"key": TEXT, "count": INTEGER})}}
)
TOP_SHAPE["properties"]["after"] = {
    **or_null(TEXT),
    "description": "with `sort=key`: the key to go on after, null at the end",
}
PROBLEM_SHAPE: Schema = {
    "type": "object",
    "required": ["title", "detail"],
    "properties": {"title": TEXT, "detail": TEXT, "field": TEXT, "value": {}, "rule": TEXT},
}

TOTAL_EXAMPLE = {
    "key": "spring-sale",
    "from": 1772323200,
    "to": 1772409600,
    "total": 42,
    "at_least": 42,
    "at_most": 42,
    "exact": True,
}
_POINTS_EXAMPLE = [
    {"start": 1772402400, "end": 1772406000, "count": 3, "state": "complete"},
    {"start": 1772406000, "end": 1772409600, "count": 1, "state": "open"},
]
CURVE_EXAMPLE = {
    "key": "spring-sale",
    "from": 1772402400,
    "to": 1772409600,
    "step": "1h",
    "tz": "UTC",
    "first_hit": 1772323260,
    "total": 4,
    "at_least": 4,
    "at_most": 4,
    "exact": True,
    "points": _POINTS_EXAMPLE,
}
SUMMARY_EXAMPLE = {
    "key": "spring-sale",
    "lifetime": 1042,
    "today": 4,
    "yesterday": 12,
    "last_7d": 42,
    "last_30d": 42,
    "bots": 7,
    "first_hit": 1772323260,
    "last_hit": 1772407680,
    "opening": 1000,
    "exact": True,
}
TOP_EXAMPLE = {
    "from": 1771804800,
    "to": 1772409600,
    "links": [{"key": "spring-sale", "count": 1042}, {"key": "docs", "count": 7}],
}
_PROBLEM_EXAMPLE = {
    "title": "invalid parameter",
    "detail": "step '1x' is not known",
    "field": "step",
    "value": "1x",
    "rule": "one of 1m, 5m, 1h, 1d, 1w, 1mo, native or auto",
}


def route(
    summary: str, parameters: list[Schema], shape: Schema, example: Any, csv: str | None = None
) -> dict[str, Any]:
    content: Schema = {"application/json": {"schema": shape, "example": example}}
    if csv is not None:
        content["text/csv"] = {"schema": TEXT, "example": csv}
    return {
        "summary": summary,
        "responses": {200: {"description": "The answer", "content": content}, **_REFUSED},
        "openapi_extra": {"parameters": parameters},
    }


def with_refusals(found: dict[str, Any], meanings: dict[int, str]) -> dict[str, Any]:
    """Returns a route that may answer with further statuses, and what each means."""
    more = {
        status: {"description": meaning, "content": {MEDIA_TYPE: {"schema": PROBLEM_SHAPE}}}
        for status, meaning in meanings.items()
    }
    return {**found, "responses": {**found["responses"], **more}}


def with_body(found: dict[str, Any], content: Schema) -> dict[str, Any]:
    """Returns a route that reads a body of JSON."""
    found = with_refusals(found, {400: "The body cannot be read", 413: f"More than {BODY_BYTES:,} bytes"})
    body = {"required": True, "content": {"application/json": content}}
    return {**found, "openapi_extra": {**found["openapi_extra"], "requestBody": body}}


def _of_event(found: dict[str, Any]) -> dict[str, Any]:
    return with_refusals(found, {404: "No rule is for the event, and none was"})


_REFUSED: dict[int | str, dict[str, Any]] = {
    422: {
        "description": "A parameter is wrong, unknown or given twice",
        "content": {MEDIA_TYPE: {"schema": PROBLEM_SHAPE, "example": _PROBLEM_EXAMPLE}},
    },
    503: {
        "description": "The store cannot answer now",
        "content": {MEDIA_TYPE: {"schema": PROBLEM_SHAPE}},
    },
}
CURVE_CSV = "start,end,count,state\n1772402400,1772406000,3,complete\n1772406000,1772409600,1,open\n"
TOP_CSV = "key,count\nspring-sale,1042\ndocs,7\n"
IN_TOTAL = [FROM, TO, LAST, TZ, BOTS]
IN_CURVE = [FROM, TO, LAST, STEP, TZ, BOTS, _CURVE_FORMAT]

LIMIT_TOTAL = _of_event(
    route(
        "How much was asked of the limiter's event, or admitted",
        [_EVENT, _OUTCOME, _CALLER, *IN_TOTAL],
        TOTAL_SHAPE,
        {**TOTAL_EXAMPLE, "key": "login"},
    )
)
LIMIT_CURVE = _of_event(
    route(
        "The curve of what was asked of the limiter's event, or admitted",
        [_EVENT, _OUTCOME, _CALLER, *IN_CURVE],
        CURVE_OR_ROWS,
        {**CURVE_EXAMPLE, "key": "login"},
        CURVE_CSV,
    )
)
SUMMARY = route("A link at a glance", [KEY, TZ, BOTS], SUMMARY_SHAPE, SUMMARY_EXAMPLE)
IN_LIST = [_SORT, LAST, _PREFIX, _AFTER, _LIMIT, TZ, BOTS, FORMAT]
LINKS = route(
    "The links with the most hits, or all links in the order of their keys",
    IN_LIST,
    TOP_SHAPE,
    TOP_EXAMPLE,
    TOP_CSV,
)
_SUM_BODY = shape({"keys": {"type": "array", "items": TEXT, "maxItems": MAX_KEYS}})
SUM = with_body(
    route(
        "The curve of a set of links",
        IN_CURVE,
        CURVE_OR_ROWS,
        {**CURVE_EXAMPLE, "key": None},
        CURVE_CSV,
    ),
    {"schema": _SUM_BODY, "example": {"keys": ["spring-sale", "docs"]}},
)
DELETE: dict[str, Any] = {
    "summary": "Erase a link: what was counted for it until now is gone",
    "responses": {204: {"description": "Gone, also if it was never there"}, **_REFUSED},
    "openapi_extra": {"parameters": [KEY]},
}


def hot_path(operation_id: str, found: dict[str, Any]) -> Schema:
    """Returns a route as the document has it, for a path that the framework does not know."""
    operation = {
        "tags": ["reading"],
        "summary": found["summary"],
        "operationId": operation_id,
        "parameters": found["openapi_extra"]["parameters"],
        "responses": {str(status): answer for status, answer in found["responses"].items()},
    }
    return {"get": operation}


# What `query.http.hot_endpoint` answers everywhere. The ids are those that the framework would give.
HOT_PATHS: dict[str, Schema] = {
    "/v1/links/{key}/total": hot_path(
        "link_total_v1_links__key__total_get",
        route("A link's total, for a range or its life", [KEY, *IN_TOTAL], TOTAL_SHAPE, TOTAL_EXAMPLE),
    ),
    "/v1/links/{key}/curve": hot_path(
        "link_curve_v1_links__key__curve_get",
        route("A link's curve", [KEY, *IN_CURVE], CURVE_OR_ROWS, CURVE_EXAMPLE, CURVE_CSV),
    ),
    "/v1/total": hot_path(
        "all_total_v1_total_get",
        route("The total of all links, erased ones included", IN_TOTAL, TOTAL_SHAPE, {**TOTAL_EXAMPLE, "key": None}),
    ),
    "/v1/curve": hot_path(
        "all_curve_v1_curve_get",
        route(
            "The curve of all links, erased ones included",
            IN_CURVE,
            CURVE_OR_ROWS,
            {**CURVE_EXAMPLE, "key": None},
            CURVE_CSV,
        ),
    ),
}
