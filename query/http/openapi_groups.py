"""What the OpenAPI page says of the routes of groups: the shapes of links."""

from __future__ import annotations

from query.http.openapi import (
    BOTS,
    CURVE_CSV,
    CURVE_EXAMPLE,
    CURVE_OR_ROWS,
    GROUP,
    IN_CURVE,
    IN_LIST,
    IN_TOTAL,
    SUMMARY_EXAMPLE,
    SUMMARY_SHAPE,
    TOP_CSV,
    TOP_EXAMPLE,
    TOP_SHAPE,
    TOTAL_EXAMPLE,
    TOTAL_SHAPE,
    TZ,
    Schema,
    route,
    shape,
)

_NAME = {"key": "spring"}
_LIST_SHAPE: Schema = shape(
    {("groups" if name == "links" else name): TOP_SHAPE["properties"][name] for name in TOP_SHAPE["required"]}
)
_LIST_SHAPE["properties"]["after"] = TOP_SHAPE["properties"]["after"]
_LIST_EXAMPLE = {("groups" if name == "links" else name): each for name, each in TOP_EXAMPLE.items()}

GROUPS = route(
    "The groups with the most hits, or all groups in the order of their names",
    IN_LIST,
    _LIST_SHAPE,
    _LIST_EXAMPLE,
    TOP_CSV,
)
SUMMARY = route("A group at a glance", [GROUP, TZ, BOTS], SUMMARY_SHAPE, {**SUMMARY_EXAMPLE, **_NAME})
TOTAL = route("A group's total, for a range or its life", [GROUP, *IN_TOTAL], TOTAL_SHAPE, {**TOTAL_EXAMPLE, **_NAME})
CURVE = route("A group's curve", [GROUP, *IN_CURVE], CURVE_OR_ROWS, {**CURVE_EXAMPLE, **_NAME}, CURVE_CSV)
