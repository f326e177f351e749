"""What the OpenAPI page says of the routes that answer questions: their parameters, answers and examples.

The schemas of answers are made from their classes, and the examples are answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from clickcurve.answers import (
    JSON,
    CauseAnswer,
    CurveAnswer,
    DimensionAnswer,
    ErasedAnswer,
    GroupsAnswer,
    HiddenChange,
    KeyCount,
    LinksAnswer,
    NotShown,
    PointAnswer,
    Problem,
    RowAnswer,
    SummaryAnswer,
    Tabular,
    TimeRange,
    TotalAnswer,
    TotalChange,
    ValueAnswer,
    ValueCurveAnswer,
    ValuePointAnswer,
    ValuesAnswer,
    VisitorDay,
    VisitorsAnswer,
    WhyAnswer,
    as_csv,
)
from clickcurve.keys import GROUP_RULE, KEY_RULE, OUTCOMES
from clickcurve.problem import MEDIA_TYPE
from clickcurve.times import TIME_RULE
from query.parameters import (
    CURVE_FORMATS,
    DEFAULT_ERASED,
    DEFAULT_OUTCOME,
    DEFAULT_TOP,
    MAX_ERASED,
    MAX_TOP,
    SORTS,
    TIMES,
)
from query.steps import LAST_RULE, STEP_RULE, STEPS
from query.sums import BODY_BYTES, MAX_KEYS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}


def parameter(name: str, description: str, schema: Schema | None = None, example: Any = None) -> Schema:
    query: Schema = {"name": name, "in": "query", "description": description, "schema": schema or TEXT}
    return query if example is None else {**query, "example": example}


def path_parameter(name: str, description: str, example: str) -> Schema:
    return {**parameter(name, description, TEXT, example), "in": "path", "required": True}


KEY = path_parameter("key", f"{KEY_RULE}, percent-encoded, slash included", "spring-sale")
GROUP_NAME = path_parameter("name", f"{GROUP_RULE}, percent-encoded, slash included", "spring")
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
CURVE_FORMAT = parameter(
    "format",
    "Default: what `Accept` prefers, else JSON. `rows`: flat JSON, a list of `time`, `end`, `count` and `state`.",
    {"type": "string", "enum": [*CURVE_FORMATS]},
)
TIMES_OF_CSV = parameter(
    "times",
    "Times of CSV: epoch seconds, or ISO 8601 in `tz`. JSON has epoch seconds always.",
    {"type": "string", "enum": list(TIMES), "default": TIMES[0]},
)
_SORT = parameter(
    "sort",
    "The order: most hits first, ties by key; or by key, as the bytes of UTF-8 are ordered.",
    {"type": "string", "enum": list(SORTS), "default": SORTS[0]},
)
_PREFIX = parameter("prefix", "Only keys that begin with this.")
_CONTAINS = parameter("contains", "With `sort=key`: only keys that contain this text, ASCII letters in any case.")
_AFTER = parameter("after", "With `sort=key`: only keys after this one, the `after` of the page before.")
_LIMIT = parameter("limit", "How many.", {"type": "integer", "minimum": 1, "maximum": MAX_TOP, "default": DEFAULT_TOP})

_EVENT = path_parameter("event", "An event of the limiter that has rules, or had some.", "login")
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


_DIMENSION = path_parameter(
    "dimension", "One of the dimensions that the settings name, such as `ref` or `country`.", "ref"
)
_VALUES = parameter(
    "limit",
    'How many values. `""`, hits that gave none, is listed in addition.',
    {"type": "integer", "minimum": 1, "maximum": MAX_TOP, "default": DEFAULT_TOP},
)
_ONE_VALUE = parameter("value", "This value alone, also one that is not kept. Empty: hits that gave none.")
_VALUE: Schema = {
    **parameter("value", "The value. Empty: hits that gave none.", TEXT, "news.example"),
    "required": True,
}
_BEFORE_FROM = parameter("before_from", "Start of the range to compare with. Default: as long, and just before.")
_BEFORE_TO = parameter("before_to", "End of it, not included.")
_CAUSES = parameter(
    "limit",
    "How many causes of each dimension, and links.",
    {"type": "integer", "minimum": 1, "maximum": MAX_TOP, "default": 5},
)
_RANGE = [FROM, TO, LAST]
_TOTAL = [*_RANGE, TZ, BOTS]
_CURVE = [*_RANGE, STEP, TZ, BOTS, CURVE_FORMAT, TIMES_OF_CSV]
_LIST = [_SORT, *_RANGE, _PREFIX, _CONTAINS, _AFTER, _LIMIT, TZ, BOTS, FORMAT]

# --- examples ---------------------------------------------------------------------------------------------------------
_TOTAL_EXAMPLE = TotalAnswer("spring-sale", 1772323200, 1772409600, 42, 42, 42, True)
_CURVE_EXAMPLE = CurveAnswer(
    key="spring-sale",
    start=1772402400,
    end=1772409600,
    step="1h",
    tz="UTC",
    first_hit=1772323260,
    total=4,
    at_least=4,
    at_most=4,
    exact=True,
    points=[PointAnswer(1772402400, 1772406000, 3, "complete"), PointAnswer(1772406000, 1772409600, 1, "open")],
)
_SUMMARY_EXAMPLE = SummaryAnswer(
    key="spring-sale",
    lifetime=1042,
    today=4,
    yesterday=12,
    last_7d=42,
    last_30d=42,
    bots=7,
    first_hit=1772323260,
    last_hit=1772407680,
    opening=1000,
    exact=True,
)
_LISTED = [KeyCount("spring-sale", 1042), KeyCount("docs", 7)]
_VALUES_EXAMPLE = ValuesAnswer(
    key="spring-sale",
    dimension="ref",
    start=1771804800,
    end=1772409600,
    total=1042,
    values=[ValueAnswer("news.example", 600, 605), ValueAnswer("", 300, 300)],
    shown=2,
    not_shown=NotShown(81, 120),
    other=22,
    unrecorded=0,
    exact=False,
)
_VALUE_CURVE_EXAMPLE = ValueCurveAnswer(
    key="spring-sale",
    dimension="ref",
    value="news.example",
    start=1772402400,
    end=1772409600,
    step="1h",
    tz="UTC",
    first_hit=1772323260,
    at_least=4,
    at_most=5,
    exact=False,
    points=[
        ValuePointAnswer(1772402400, 1772406000, 3, 4, "complete"),
        ValuePointAnswer(1772406000, 1772409600, 1, 1, "open"),
    ],
)
_VISITORS_EXAMPLE = VisitorsAnswer(
    key="spring-sale",
    visitor_days=31,
    at_least=31,
    at_most=31,
    exact=True,
    days=[VisitorDay(1772323200, 1772409600, 31, 31, 31, True)],
    unknown=2,
)
_WHY_EXAMPLE = WhyAnswer(
    key="spring-sale",
    start=1771804800,
    end=1772409600,
    before=TimeRange(1771200000, 1771804800),
    total=TotalChange(150, 1105, 955),
    same_length=True,
    dimensions=[
        DimensionAnswer(
            "ref",
            0.906,
            [CauseAnswer("news.example", 940, 940, 940, 0, 940)],
            HiddenChange(2, 15),
            other=0,
            unrecorded=0,
        )
    ],
    by_link=[],
    exact=True,
)
_PROBLEM_EXAMPLE = Problem(
    title="invalid parameter",
    status=422,
    detail="step '1x' is not known",
    field="step",
    value="1x",
    rule=STEP_RULE,
)


# --- routes -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class SubjectPath:
    """Where the subjects of a kind stand in paths.

    kind  its segment, empty for all links. noun: for ids; of: for sentences. name: the parameter in the path, if any.
    key: the name in examples.
    """

    kind: str
    noun: str
    of: str
    name: Schema | None
    key: str | None

    def with_question(self, what: str) -> str:
        """Returns the path of a question, with its parameters in braces."""
        name = None if self.name is None else f"{{{self.name['name']}}}"
        what = re.sub("^by", "by/{dimension}", what)
        return "/".join(part for part in ("/v1", self.kind, name, what) if part)


LINK = SubjectPath("links", "link", "of a link", KEY, "spring-sale")
GROUP = SubjectPath("groups", "group", "of a group", GROUP_NAME, "spring")
ALL_LINKS = SubjectPath("", "all", "of all links together", None, None)
LIMIT = SubjectPath("limits", "limit", "of what was asked of the limiter's event, or admitted", _EVENT, "login")


@dataclass(frozen=True, slots=True)
class _Shape:
    """A question of any subject: what the page says of it. refusals: further statuses, and what each means."""

    summary: str
    parameters: list[Schema]
    example: Any
    refusals: Mapping[int, str] | None = None


_NO_DIMENSION = {404: "Hits are not broken down by this dimension; `rule` names the dimensions that are known"}
_SHAPES: Mapping[str, _Shape] = {
    "": _Shape("A {noun} at a glance", [TZ, BOTS], _SUMMARY_EXAMPLE),
    "total": _Shape("The total {of}, in a range or in all time", _TOTAL, _TOTAL_EXAMPLE),
    "curve": _Shape("The curve {of}", _CURVE, _CURVE_EXAMPLE),
    "links": _Shape(
        "The links with the most hits, or all links in the order of their keys",
        _LIST,
        LinksAnswer(1771804800, 1772409600, _LISTED, True),
    ),
    "groups": _Shape(
        "The groups with the most hits, or all groups in the order of their names",
        _LIST,
        GroupsAnswer(1771804800, 1772409600, _LISTED, True),
    ),
    "by": _Shape(
        "The hits {of}, by the values of a dimension",
        [_DIMENSION, _ONE_VALUE, *_RANGE, TZ, _VALUES, FORMAT],
        _VALUES_EXAMPLE,
        _NO_DIMENSION,
    ),
    "by/curve": _Shape(
        "One value {of} along time",
        [_DIMENSION, _VALUE, *_RANGE, STEP, TZ, FORMAT, TIMES_OF_CSV],
        _VALUE_CURVE_EXAMPLE,
        _NO_DIMENSION,
    ),
    "visitors": _Shape("The visitors {of} by day", [*_RANGE, TZ, FORMAT, TIMES_OF_CSV], _VISITORS_EXAMPLE),
    "why": _Shape(
        "Why the total {of} differs from that of the range before",
        [*_RANGE, _BEFORE_FROM, _BEFORE_TO, TZ, _CAUSES, FORMAT],
        _WHY_EXAMPLE,
    ),
}
_EVENT_REFUSED = {404: "No rule is for the event, and none was"}


def describe_question(path: SubjectPath, what: str) -> Schema:
    """Returns the operation of a question as the document has it."""
    shape = _SHAPES[what]
    name = f"list_{what}" if what in ("links", "groups") else f"{path.noun}_{what or 'summary'}"
    own = [] if path.name is None else [path.name]
    more = [_OUTCOME, _CALLER] if path is LIMIT else []
    example = msgspec.structs.replace(shape.example, key=path.key) if hasattr(shape.example, "key") else shape.example
    return {
        "tags": ["reading"],
        "summary": shape.summary.format(noun=path.noun, of=path.of),
        "operationId": re.sub(r"\W", "_", f"{name}{path.with_question(what)}_get"),
        "parameters": [*own, *more, *shape.parameters],
        "responses": {
            "200": {"description": "The answer", "content": _content_of(example)},
            **{
                str(status): each
                for status, each in refusals({**(shape.refusals or {}), **(_EVENT_REFUSED if more else {})}).items()
            },
        },
    }


def _content_of(example: Any) -> Schema:
    """Returns the media types of an answer: its schema, and this example in each."""
    schema = schema_of(type(example))
    if isinstance(example, CurveAnswer):
        rows = {"type": "array", "items": schema_of(RowAnswer), "description": "with `format=rows`"}
        schema = {"oneOf": [schema, rows]}
    content: Schema = {JSON: {"schema": schema, "example": msgspec.to_builtins(example)}}
    if isinstance(example, Tabular):
        content["text/csv"] = {"schema": TEXT, "example": as_csv(example).decode()}
    return content


def refusals(meanings: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Returns the answers of a question that is refused: those of every question, and further ones."""
    problem = {"schema": schema_of(Problem)}
    wrong = {**problem, "example": msgspec.to_builtins(_PROBLEM_EXAMPLE)}
    return {
        422: {"description": "A parameter is wrong, unknown or given twice", "content": {MEDIA_TYPE: wrong}},
        503: {"description": "The store cannot answer now", "content": {MEDIA_TYPE: problem}},
        **{status: {"description": meaning, "content": {MEDIA_TYPE: problem}} for status, meaning in meanings.items()},
    }


def describe_route(
    summary: str,
    meaning: str,
    refused: Mapping[int, str] | None = None,
    *,
    status: int = 200,
    parameters: Sequence[Schema] = (),
    body: Schema | None = None,
    content: Schema | None = None,
) -> dict[str, Any]:
    """Returns what the framework needs for a route that answers an object, or nothing with status 204.

    meaning: of the answer. refused: further statuses, and what each means. body: its schema, and an example. content:
    the media types of the answer, if they say more than that it is an object.
    """
    answer = {} if status == 204 else {"content": content or {JSON: {"schema": {"type": "object"}}}}
    asked = {} if body is None else {"requestBody": {"required": True, "content": {JSON: body}}}
    return {
        "summary": summary,
        "status_code": status,
        "responses": {status: {"description": meaning, **answer}, **refusals(refused or {})},
        "openapi_extra": {**({"parameters": parameters} if parameters else {}), **asked},
    }


def schema_of(answer: type) -> Schema:
    """Returns the reference to the schema of an answer."""
    return {"$ref": f"#/components/schemas/{answer.__name__}"}


def schemas() -> dict[str, Schema]:
    """Returns the schemas of all answers, by name."""
    answers = [type(shape.example) for shape in _SHAPES.values()]
    _, named = msgspec.json.schema_components(
        [*answers, RowAnswer, Problem], ref_template="#/components/schemas/{name}"
    )
    return named


_KEYS: Schema = {
    "type": "object",
    "required": ["keys"],
    "properties": {"keys": {"type": "array", "items": TEXT, "maxItems": MAX_KEYS}},
}
SUM = describe_route(
    "The curve of a set of links",
    "The answer",
    {400: "The body cannot be read", 413: f"More than {BODY_BYTES:,} bytes"},
    parameters=_CURVE,
    body={"schema": _KEYS, "example": {"keys": ["spring-sale", "docs"]}},
    content=_content_of(msgspec.structs.replace(_CURVE_EXAMPLE, key=None)),
)
_GONE = "Gone, also if it was never there"
DELETE = describe_route("Erase a link: what was counted for it until now is gone", _GONE, status=204, parameters=[KEY])
DELETE_LINKS = describe_route(
    "Erase the links whose keys begin with a prefix, so many at a time",
    "The answer",
    parameters=[
        {**parameter("prefix", "How the keys begin", {**TEXT, "minLength": 1}), "required": True},
        parameter(
            "limit",
            f"How many links at most, {DEFAULT_ERASED:,} by default",
            {"type": "integer", "minimum": 1, "maximum": MAX_ERASED},
        ),
    ],
    content=_content_of(ErasedAnswer(1_000, True)),
)
DELETE_GROUP = describe_route(
    "Erase a group: what was counted for it until now is gone", _GONE, status=204, parameters=[GROUP_NAME]
)
