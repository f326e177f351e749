"""What the OpenAPI page says of the routes that answer questions: their parameters, answers and examples.

The schemas of answers are made from their classes, and the examples are answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clickcurve.answers.breakdowns import (
    CauseAnswer,
    DimensionAnswer,
    HiddenChange,
    NotShown,
    TimeRange,
    TotalChange,
    ValueAnswer,
    ValueCurveAnswer,
    ValuePointAnswer,
    ValuesAnswer,
    VisitorDay,
    VisitorsAnswer,
    WhyAnswer,
)
from clickcurve.answers.counts import (
    CurveAnswer,
    ErasedAnswer,
    GroupsAnswer,
    HourOfWeek,
    HoursAnswer,
    KeyCount,
    LinksAnswer,
    NowAnswer,
    PointAnswer,
    RowAnswer,
    SummaryAnswer,
    TotalAnswer,
)
from clickcurve.answers.events import (
    EventAnswer,
    EventCount,
    EventsAnswer,
    EventsByAnswer,
    EventsOfValue,
    HiddenEvents,
    OtherEvents,
    RateBounds,
    Within,
)
from clickcurve.answers.written import JSON, Problem, Tabular, as_csv
from clickcurve.buckets.ranges import Bots
from clickcurve.keys import GROUP_RULE, KEY_RULE, OUTCOMES
from clickcurve.problem import MEDIA_TYPE
from clickcurve.times import TIME_RULE
from query import parameters
from query.breakdowns.selection import MOST
from query.comparison import Compare
from query.steps import AUTO, LAST_RULE, STEP_RULE, STEPS
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
_EVENT = path_parameter("event", "An event of the limiter that has rules, or had some.", "login")
_DIMENSION = path_parameter(
    "dimension", "One of the dimensions that the settings name, such as `ref` or `country`.", "ref"
)


def _how_many(description: str, default: int) -> Schema:
    return parameter(
        "limit", description, {"type": "integer", "minimum": 1, "maximum": parameters.MAX_TOP, "default": default}
    )


def _choice(name: str, description: str, values: Iterable[str], default: str | None = None) -> Schema:
    schema: Schema = {"type": "string", "enum": list(values)}
    return parameter(name, description, schema if default is None else {**schema, "default": default})


def _several(name: str, description: str) -> Schema:
    """Describes a parameter that may stand several times."""
    return parameter(name, description, {"type": "array", "items": TEXT, "maxItems": MOST}, ["news.example"])


# What the names in `query.parameters` mean.
_PARAMETERS = (
    parameter("event", "An event that the settings name, such as `sale`, in place of clicks.", example="sale"),
    _choice("measure", "With `event`: how many there were, or the sum of their values.", parameters.MEASURES, "count"),
    parameter("from", f"Start of the range, included: {TIME_RULE}. Without an offset it is meant in `tz`."),
    parameter("to", "End of the range, not included, as `from`. Default: the end of the minute that holds now."),
    parameter(
        "last", f"The current unit and those before it: {LAST_RULE}. Not together with `from` or `to`.", example="7d"
    ),
    parameter(
        "tz",
        "IANA time zone in which days, weeks and months begin.",
        {"type": "string", "default": "UTC"},
        "Europe/Berlin",
    ),
    _choice(
        "step",
        "Length of a point. Where less is kept, points are as wide as what is kept. `native`: the buckets as kept.",
        (*STEPS, AUTO),
        AUTO,
    ),
    _choice("bots", "Count people, people and bots, or bots.", Bots, Bots.exclude),
    _choice("format", "Default: what `Accept` prefers, else JSON.", parameters.FORMATS),
    _choice(
        "times",
        "Times of CSV: epoch seconds, or ISO 8601 in `tz`. JSON has epoch seconds always.",
        parameters.TIMES,
        parameters.TIMES[0],
    ),
    _choice("raw", "`1`: texts of CSV that begin as a formula does get no `'` in front.", parameters.NO_OR_YES, "0"),
    _choice("bom", "`1`: CSV begins with a byte order mark, by which Excel knows UTF-8.", parameters.NO_OR_YES, "0"),
    _choice(
        "sort",
        "The order: most hits first, ties by key; or by key, as the bytes of UTF-8 are ordered.",
        parameters.SORTS,
        parameters.SORTS[0],
    ),
    parameter("prefix", "Only keys that begin with this."),
    parameter("contains", "With `sort=key`: only keys that contain this text, ASCII letters in any case."),
    parameter("after", "With `sort=key`: only keys after this one, the `after` of the page before."),
    _how_many("How many.", parameters.DEFAULT_TOP),
    _choice(
        "outcome",
        "All hits that were asked for, or those that were admitted; each counts its cost.",
        OUTCOMES,
        parameters.DEFAULT_OUTCOME,
    ),
    parameter(
        "caller",
        "Of one caller only: its features as the rule names them, `feature=value`, with blanks between several. For "
        'rules with `history = "callers"`; kept for 30 days.',
        example="ip=203.0.113.7",
    ),
    _several("value", "These values alone, also ones that are not kept. Empty: hits that gave none."),
    _several("not", "All values but these; not one that `value` asks for."),
    _choice(
        "compare",
        "Beside the range the one before: as long and on the same weekdays (`before`), as long and just before "
        "(`before_exact`), or 364 days before (`year`). A range under way is compared with the same part.",
        Compare,
    ),
    _choice("notes", "`true`: with what was noted in the range.", parameters.FALSE_OR_TRUE, "false"),
    parameter("before_from", "Start of the range to compare with. Default: as long, and just before."),
    parameter("before_to", "End of it, not included."),
)

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
    points=[
        PointAnswer(1772402400, 1772406000, 3, "complete"),
        PointAnswer(1772406000, 1772409600, 1, "open"),
    ],
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
_NOW_EXAMPLE = NowAnswer("spring-sale", 1772407705, 3, 21, True, [0] * 10 + [1, 2] * 9 + [1, 2])
_HOURS_EXAMPLE = HoursAnswer(
    "spring-sale",
    1769644800,
    1772406000,
    "UTC",
    1769731260,
    42,
    0,
    True,
    [HourOfWeek(1, 0, 2, 4), HourOfWeek(1, 1, 0, 4)],
)
_LISTED = [KeyCount("spring-sale", 1042), KeyCount("docs", 7)]
_SALES = EventAnswer("sale", 3, 3, Within(14970, 14970), RateBounds(0.025, 0.025))
_EVENTS_EXAMPLE = EventsAnswer("spring-sale", None, None, Within(120, 120), [_SALES], True)
_EVENTS_BY_EXAMPLE = EventsByAnswer(
    key="spring-sale",
    dimension="ref",
    start=None,
    end=None,
    clicks=Within(120, 120),
    events=[_SALES],
    values=[EventsOfValue("news.example", Within(120, 120), [_SALES])],
    not_shown=HiddenEvents(0, 0, [EventCount("sale", 0, 0)]),
    other=OtherEvents(0, [EventCount("sale", 0, 0)]),
    exact=True,
)
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
    """

    kind: str
    noun: str
    of: str
    name: Schema | None = None

    def with_question(self, what: str) -> str:
        """Returns the path of a question, with its parameters in braces."""
        name = None if self.name is None else f"{{{self.name['name']}}}"
        what = re.sub("(^|/)by", r"\1by/{dimension}", what)
        return "/".join(part for part in ("/v1", self.kind, name, what) if part)


LINK = SubjectPath("links", "link", "of a link", KEY)
GROUP = SubjectPath("groups", "group", "of a group", GROUP_NAME)
ALL_LINKS = SubjectPath("", "all", "of all links together")
LIMIT = SubjectPath("limits", "limit", "of what was asked of the limiter's event, or admitted", _EVENT)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A question of any subject: what the page says of it. names: of its parameters.

    own: parameters that mean something else than in other questions. refusals: further statuses, and what each means.
    of_limits: the names of the parameters where it is asked of a limit, if they are others.
    """

    summary: str
    names: Sequence[str]
    example: Any
    own: Sequence[Schema] = ()
    refusals: Mapping[int, str] = field(default_factory=dict)
    of_limits: Sequence[str] = ()

    def query(self, is_limit: bool = False) -> list[Schema]:
        """Returns the parameters of its query."""
        known = {each["name"]: each for each in (*_PARAMETERS, *self.own)}
        return [known[name] for name in (self.of_limits if is_limit else self.names)]


_VALUE = _several("value", "Of these values, added up; needed if there is no `not`. Empty: hits that gave none.")
_CURVE_FORMAT = _choice(
    "format",
    "Default: what `Accept` prefers, else JSON. `rows`: flat JSON, a list of `time`, `end`, `count` and `state`.",
    parameters.CURVE_FORMATS,
)
_NO_DIMENSION = {404: "Hits are not broken down by this dimension; `rule` names the dimensions that are known"}
_SHAPES: Mapping[str, _Shape] = {
    "": _Shape("A {noun} at a glance", parameters.SUMMARY, _SUMMARY_EXAMPLE),
    "total": _Shape(
        "The total {of}, in a range or in all time",
        parameters.TOTAL,
        _TOTAL_EXAMPLE,
        of_limits=parameters.LIMIT_TOTAL,
    ),
    "curve": _Shape(
        "The curve {of}", parameters.CURVE, _CURVE_EXAMPLE, [_CURVE_FORMAT], of_limits=parameters.LIMIT_CURVE
    ),
    "now": _Shape("The hits {of} in the last 5 and 30 minutes", parameters.NOW, _NOW_EXAMPLE),
    "hours": _Shape("The hits {of} by weekday and hour", parameters.HOURS, _HOURS_EXAMPLE),
    "links": _Shape(
        "The links with the most hits, or all links in the order of their keys",
        parameters.LINKS,
        LinksAnswer(1771804800, 1772409600, _LISTED, True),
    ),
    "groups": _Shape(
        "The groups with the most hits, or all groups in the order of their names",
        parameters.LINKS,
        GroupsAnswer(1771804800, 1772409600, _LISTED, True),
    ),
    "by": _Shape(
        "The hits {of}, by the values of a dimension",
        parameters.BY,
        _VALUES_EXAMPLE,
        [_how_many('How many values. `""`, hits that gave none, is listed in addition.', parameters.DEFAULT_TOP)],
        _NO_DIMENSION,
    ),
    "by/curve": _Shape("Values {of} along time", parameters.BY_CURVE, _VALUE_CURVE_EXAMPLE, [_VALUE], _NO_DIMENSION),
    "events": _Shape(
        "What came of the clicks {of}: each event, the sum of its values, and its rate",
        parameters.EVENTS,
        _EVENTS_EXAMPLE,
    ),
    "events/by": _Shape(
        "What came of the clicks {of}, by the values of a dimension",
        parameters.EVENTS_BY,
        _EVENTS_BY_EXAMPLE,
        [_how_many('How many values. `""`, hits that gave none, is listed in addition.', parameters.DEFAULT_TOP)],
        _NO_DIMENSION,
    ),
    "visitors": _Shape("The visitors {of} by day", parameters.VISITORS, _VISITORS_EXAMPLE),
    "why": _Shape(
        "Why the total {of} differs from that of the range before",
        parameters.WHY,
        _WHY_EXAMPLE,
        [_how_many("How many causes of each dimension, and links.", 5)],
    ),
}
_EVENT_REFUSED = {404: "No rule is for the event, and none was"}


def describe_parameters(*names: str) -> list[Schema]:
    """Returns parameters of questions as the document has them."""
    known = {each["name"]: each for each in _PARAMETERS}
    return [known[name] for name in names]


def describe_question(path: SubjectPath, what: str) -> Schema:
    """Returns the operation of a question as the document has it."""
    shape, is_limit = _SHAPES[what], path is LIMIT
    name = f"list_{what}" if what in ("links", "groups") else f"{path.noun}_{what or 'summary'}"
    in_path = [] if path.name is None else [path.name]
    dimension = [_DIMENSION] if "by" in what.split("/") else []
    example = shape.example
    if hasattr(example, "key"):
        example = msgspec.structs.replace(example, key=None if path.name is None else path.name["example"])
    refused = refusals({**shape.refusals, **(_EVENT_REFUSED if is_limit else {})})
    return {
        "tags": ["reading"],
        "summary": shape.summary.format(noun=path.noun, of=path.of),
        "operationId": re.sub(r"\W", "_", f"{name}{path.with_question(what)}_get"),
        "parameters": [*in_path, *dimension, *shape.query(is_limit)],
        "responses": {
            "200": {"description": "The answer", "content": _content_of(example)},
            **{str(status): each for status, each in refused.items()},
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
    asked = [type(shape.example) for shape in _SHAPES.values()]
    _, named = msgspec.json.schema_components([*asked, RowAnswer, Problem], ref_template="#/components/schemas/{name}")
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
    parameters=[each for each in _SHAPES["curve"].query() if each["name"] in parameters.SUM],
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
            f"How many links at most, {parameters.DEFAULT_ERASED:,} by default",
            {"type": "integer", "minimum": 1, "maximum": parameters.MAX_ERASED},
        ),
    ],
    content=_content_of(ErasedAnswer(1_000, True)),
)
DELETE_GROUP = describe_route(
    "Erase a group: what was counted for it until now is gone", _GONE, status=204, parameters=[GROUP_NAME]
)
