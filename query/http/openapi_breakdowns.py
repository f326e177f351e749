"""What the OpenAPI page says of the routes of breakdowns: parameters, shapes and examples."""

from __future__ import annotations

from typing import Any

from query.http.openapi import (
    BOOLEAN,
    FORMAT,
    FROM,
    GROUP,
    INTEGER,
    KEY,
    KEY_SHAPE,
    LAST,
    STEP,
    TEXT,
    TIME,
    TO,
    TZ,
    Schema,
    hot_path,
    or_null,
    parameter,
    route,
    shape,
    with_refusals,
)
from query.parameters import DEFAULT_TOP, MAX_TOP

_DIMENSION: Schema = {
    "name": "dimension",
    "in": "path",
    "required": True,
    "description": "One of the dimensions that the settings name, such as `ref` or `country`.",
    "schema": TEXT,
    "example": "ref",
}
_LIMIT = parameter(
    "limit",
    'How many values; those that gave none (`""`) are there beside them.',
    {"type": "integer", "minimum": 1, "maximum": MAX_TOP, "default": DEFAULT_TOP},
)
_ONE_VALUE = parameter("value", "This value alone, also one that is not kept. Empty: hits that gave none.")
_VALUE: Schema = {
    **parameter("value", "The value. Empty: hits that gave none.", TEXT, "news.example"),
    "required": True,
}

_AT_LEAST: Schema = {**INTEGER, "description": "so many hits for certain"}
_AT_MOST: Schema = {**INTEGER, "description": "the same and what the value may lack"}
_VALUE_SHAPE = shape({"value": TEXT, "at_least": _AT_LEAST, "at_most": _AT_MOST})
_BY_SHAPE = shape(
    KEY_SHAPE
    | {"dimension": TEXT}
    | {
        "from": {**or_null(TIME), "description": "the kept buckets that hold the range begin; null: the whole life"},
        "to": {**or_null(TIME), "description": "and end"},
        "total": {**INTEGER, "description": "hits of [from, to): the at_least of all values, other and unrecorded"},
        "values": {"type": "array", "items": _VALUE_SHAPE, "description": "greatest first, ties by name"},
        "shown": {**INTEGER, "description": "how many values are listed"},
        "not_shown": {
            **shape({"values": INTEGER, "count": INTEGER}),
            "description": "how many values are not listed, and their hits",
        },
        "other": {**INTEGER, "description": "hits of values that were not kept"},
        "unrecorded": {**INTEGER, "description": "hits from before the dimension was switched on"},
        "exact": {**BOOLEAN, "description": "all bounds meet, and the hits are those of the range"},
    }
)
_POINT_SHAPE = shape(
    {
        "start": TIME,
        "end": TIME,
        "at_least": _AT_LEAST,
        "at_most": _AT_MOST,
        "state": {"type": "string", "enum": ["complete", "partial", "open"]},
    }
)
_POINT_SHAPE["properties"]["wide"] = {**BOOLEAN, "description": "true: wider than its step, as no finer is kept"}
_CURVE_SHAPE = shape(
    KEY_SHAPE
    | {"dimension": TEXT, "value": TEXT, "from": TIME, "to": TIME, "step": TEXT, "tz": TEXT, "first_hit": or_null(TIME)}
    | {"at_least": _AT_LEAST, "at_most": _AT_MOST, "exact": BOOLEAN}
    | {"points": {"type": "array", "items": _POINT_SHAPE, "description": "tile the range: each end is the next start"}}
)
_OF_VISITORS: dict[str, Schema] = {
    "at_least": INTEGER,
    "at_most": INTEGER,
    "exact": {**BOOLEAN, "description": "counted; false: estimated, or several owners counted the same day"},
}
_DAY_SHAPE = shape(
    {"start": TIME, "end": TIME}
    | {"visitors": {**or_null(INTEGER), "description": "null unless the bounds meet"}}
    | _OF_VISITORS
)
_VISITORS_SHAPE = shape(
    KEY_SHAPE
    | {
        "visitor_days": {
            **or_null(INTEGER),
            "description": "visitors of each day, added up: a visitor of two days is two",
        }
    }
    | _OF_VISITORS
    | {"days": {"type": "array", "items": _DAY_SHAPE, "description": "UTC days; older ones by week and month"}}
    | {
        "unknown": {
            **INTEGER,
            "description": "people's hits of these days that said too little, or nothing, to tell their visitor",
        }
    }
)

_BY_EXAMPLE: dict[str, Any] = {
    "key": "spring-sale",
    "dimension": "ref",
    "from": 1771804800,
    "to": 1772409600,
    "total": 1042,
    "values": [
        {"value": "news.example", "at_least": 600, "at_most": 605},
        {"value": "", "at_least": 300, "at_most": 300},
    ],
    "shown": 2,
    "not_shown": {"values": 81, "count": 120},
    "other": 22,
    "unrecorded": 0,
    "exact": False,
}
_BY_CSV = "value,at_least,at_most\nnews.example,600,605\n,300,300\n(other),22,22\n(unrecorded),0,0\n"
_CURVE_EXAMPLE: dict[str, Any] = {
    "key": "spring-sale",
    "dimension": "ref",
    "value": "news.example",
    "from": 1772402400,
    "to": 1772409600,
    "step": "1h",
    "tz": "UTC",
    "first_hit": 1772323260,
    "at_least": 4,
    "at_most": 5,
    "exact": False,
    "points": [
        {"start": 1772402400, "end": 1772406000, "at_least": 3, "at_most": 4, "state": "complete"},
        {"start": 1772406000, "end": 1772409600, "at_least": 1, "at_most": 1, "state": "open"},
    ],
}
_CURVE_CSV = "start,end,at_least,at_most,state\n1772402400,1772406000,3,4,complete\n1772406000,1772409600,1,1,open\n"
_DAY_EXAMPLE = {"start": 1772323200, "end": 1772409600, "visitors": 31, "at_least": 31, "at_most": 31, "exact": True}
_VISITORS_EXAMPLE = {
    "key": "spring-sale",
    "visitor_days": 31,
    "at_least": 31,
    "at_most": 31,
    "exact": True,
    "days": [_DAY_EXAMPLE],
    "unknown": 2,
}

_RANGE = [FROM, TO, LAST]
_IN_BY = [_DIMENSION, _ONE_VALUE, *_RANGE, TZ, _LIMIT, FORMAT]
_IN_CURVE = [_DIMENSION, _VALUE, *_RANGE, STEP, TZ, FORMAT]
_UNKNOWN = "Hits are not divided by this dimension; `rule` names those by which they are"


def _of_dimension(
    summary: str, parameters: list[Schema], answer: Schema, example: dict[str, Any], csv: str
) -> dict[str, Any]:
    return with_refusals(route(summary, parameters, answer, example, csv), {404: _UNKNOWN})


BY_CURVE = _of_dimension("One value of a link along time", [KEY, *_IN_CURVE], _CURVE_SHAPE, _CURVE_EXAMPLE, _CURVE_CSV)
ALL_BY_CURVE = _of_dimension(
    "One value of all links along time", _IN_CURVE, _CURVE_SHAPE, {**_CURVE_EXAMPLE, "key": None}, _CURVE_CSV
)
VISITORS = route("A link's visitors by day", [KEY, *_RANGE, TZ], _VISITORS_SHAPE, _VISITORS_EXAMPLE)
GROUP_BY = _of_dimension("How a group's hits divide by a dimension", [GROUP, *_IN_BY], _BY_SHAPE, _BY_EXAMPLE, _BY_CSV)
GROUP_BY_CURVE = _of_dimension(
    "One value of a group along time", [GROUP, *_IN_CURVE], _CURVE_SHAPE, _CURVE_EXAMPLE, _CURVE_CSV
)
GROUP_VISITORS = route("A group's visitors by day", [GROUP, *_RANGE, TZ], _VISITORS_SHAPE, _VISITORS_EXAMPLE)

# What `query.http.hot_endpoint` answers where hits are divided. The ids are those that the framework would give.
HOT_PATHS_OF_VALUES: dict[str, Schema] = {
    "/v1/links/{key}/by/{dimension}": hot_path(
        "link_by_v1_links__key__by__dimension__get",
        _of_dimension("How a link's hits divide by a dimension", [KEY, *_IN_BY], _BY_SHAPE, _BY_EXAMPLE, _BY_CSV),
    ),
    "/v1/by/{dimension}": hot_path(
        "all_by_v1_by__dimension__get",
        _of_dimension(
            "How the hits of all links divide by a dimension", _IN_BY, _BY_SHAPE, {**_BY_EXAMPLE, "key": None}, _BY_CSV
        ),
    ),
}
