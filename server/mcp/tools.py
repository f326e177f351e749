"""The tools of an assistant: each asks a question of ours and says the answer in words beside it.

A tool's arguments are a struct: its schema is what a client sees, and arguments are read by it. What a tool answers is
the answer of the HTTP route, byte for byte, in `structuredContent`, and a sentence with a table in `content`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from clickcurve.answers.breakdowns import ValuesAnswer, VisitorsAnswer, WhyAnswer
from clickcurve.answers.counts import CurveAnswer, LinksAnswer, TotalAnswer
from clickcurve.answers.events import EventsAnswer, EventsByAnswer
from clickcurve.answers.written import as_json
from clickcurve.buckets.errors import ClickcurveError, ParameterInvalid
from clickcurve.visible import visible
from query.steps import AUTO, STEPS
from server.mcp import sentences
from server.mcp.help_pages import HelpPages
from server.mcp.protocol import BAD_PARAMETERS, Json, McpRefused
from server.settings.events import Unit

ALL = "/v1"  # all links together
MOST_POINTS = 100
MOST_LISTED = 50

# Answers GET of a raw path with a query string, as the HTTP route does; raises ClickcurveError.
Ask: TypeAlias = Callable[[str, str], Awaitable[Any]]

Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1_024)] | UnsetType
Moment: TypeAlias = Annotated[str, Meta(max_length=64)] | UnsetType
Listed: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_LISTED)]
Bots: TypeAlias = Literal["exclude", "include", "only"]
Event: TypeAlias = Annotated[str, Meta(max_length=32)] | UnsetType
Measured: TypeAlias = Literal["count", "value"] | UnsetType


class Arguments(Struct, forbid_unknown_fields=True, kw_only=True):
    """What may be given to any tool that asks for hits."""

    last: (
        Annotated[str, Meta(max_length=16, description="7d, 24h, 12mo: the current unit and those before")] | UnsetType
    ) = UNSET
    start: Annotated[str, Meta(max_length=64, description="ISO 8601, in tz")] | UnsetType = field(
        name="from", default=UNSET
    )
    end: Moment = field(name="to", default=UNSET)
    tz: Annotated[str, Meta(max_length=64, description="IANA; default UTC")] | UnsetType = UNSET


class OfSubject(Arguments, kw_only=True):
    """Of a link, of a group, or of all links together where neither is given."""

    key: Annotated[str, Meta(min_length=1, max_length=1_024, description="a link")] | UnsetType = UNSET
    group: Annotated[str, Meta(min_length=1, max_length=64, description="instead of key")] | UnsetType = UNSET

    @property
    def path(self) -> str:
        if isinstance(self.key, str):
            return f"/v1/links/{quote(self.key, safe='')}"
        return ALL if isinstance(self.group, UnsetType) else f"/v1/groups/{quote(self.group, safe='')}"

    @property
    def subject(self) -> str:
        """What it is called in a sentence."""
        if isinstance(self.key, str):
            return sentences.quoted(self.key)
        return "all links" if isinstance(self.group, UnsetType) else f"the group {sentences.quoted(self.group)}"


class Found(Arguments, kw_only=True):
    event: Event = UNSET
    measure: Measured = UNSET
    contains: Text = UNSET
    prefix: Text = UNSET
    sort: Literal["hits", "key"] | UnsetType = UNSET
    after: (
        Annotated[str, Meta(max_length=1_024, description="with sort=key: the list begins behind it")] | UnsetType
    ) = UNSET
    limit: Listed = 20
    bots: Bots | UnsetType = UNSET


class OfMeasured(OfSubject, kw_only=True):
    """Of an event in place of clicks, if one is named."""

    event: Event = UNSET
    measure: Measured = UNSET


class Counted(OfMeasured, kw_only=True):
    bots: Bots | UnsetType = UNSET


class Along(Counted, kw_only=True):
    step: Annotated[str, Meta(description=f"auto, {', '.join(STEPS)}")] = AUTO


class Divided(OfMeasured, kw_only=True):
    dimension: Annotated[str, Meta(max_length=64, description="ref, country, device, source, browser, os, ...")]
    value: Annotated[str, Meta(max_length=2_048)] | UnsetType = UNSET
    limit: Listed = 20


class Came(OfSubject, kw_only=True):
    dimension: Annotated[str, Meta(max_length=64, description="to divide by")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED, description="with dimension")] | UnsetType = UNSET


class Explained(OfMeasured, kw_only=True):
    before_from: Moment = UNSET
    before_to: Moment = UNSET
    limit: Listed = 5


class Helped(Struct, forbid_unknown_fields=True):
    about: Annotated[str, Meta(max_length=200)] = ""


A = TypeVar("A", bound=Struct)
_OF_PATH = {"key", "group", "dimension"}


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """A tool. run: from its arguments to its result, raising what a route does."""

    name: str
    text: str
    arguments: type[A]
    run: Callable[[A], Awaitable[Json]]

    def definition(self) -> Json:
        """Returns it as `tools/list` has it."""
        (schema,), parts = msgspec.json.schema_components([self.arguments])
        whole = parts[schema["$ref"].rpartition("/")[2]]
        shown = {
            name: whole[name]
            for name in ("type", "properties", "required", "additionalProperties")
            if whole.get(name) not in (None, [])
        }
        return {"name": self.name, "description": self.text, "inputSchema": shown, "annotations": _READS}


_READS = {"readOnlyHint": True, "openWorldHint": False}


class Tools:
    """All tools of a server. ask: answers as the token of the request under way may see. units: of events."""

    def __init__(self, ask: Ask, pages: HelpPages, units: Mapping[str, Unit]) -> None:
        self._ask, self._pages, self._units = ask, pages, units
        tools: tuple[Tool[Any], ...] = (
            Tool("find_links", "Links by their hits, or in the order of their keys.", Found, self._find),
            Tool("count", "Hits of a range, or of all time where none is given.", Counted, self._count),
            Tool(
                "curve", f"Hits along time: at most {MOST_POINTS} points, last 24 hours by default.", Along, self._curve
            ),
            Tool("breakdown", "Hits by the values of a dimension: where they came from.", Divided, self._divide),
            Tool("events", "What came of clicks (event): how often, sum of values, rate.", Came, self._came),
            Tool("why", "Why hits changed against the time before: causes that add up.", Explained, self._explain),
            Tool(
                "visitors",
                "Visitors by day. A visitor of two days counts twice: persons are not known.",
                OfSubject,
                self._visitors,
            ),
            Tool("help", "Looks a topic up in the manual of this server.", Helped, self._help),
        )
        self._tools = {tool.name: tool for tool in tools}

    def definitions(self) -> list[Json]:
        """Returns all of them as `tools/list` has them."""
        return [tool.definition() for tool in self._tools.values()]

    async def call(self, name: str, arguments: Json) -> Json:
        """Runs a tool. Raises McpRefused for an unknown one; what is wrong with its arguments is its result."""
        tool = self._tools.get(name)
        if tool is None:
            raise McpRefused(BAD_PARAMETERS, f"no tool {visible(name)[:100]!r}; known: {', '.join(self._tools)}")
        given = {each: value for each, value in arguments.items() if value is not None}
        try:
            return await tool.run(msgspec.convert(given, tool.arguments))
        except msgspec.ValidationError as error:
            return _failure(f"{name}: {error}")
        except ClickcurveError as error:
            return _failure(f"{error.title}: {error.detail}")

    # --- the tools ------------------------------------------------------------------------------------------------
    async def _find(self, asked: Found) -> Json:
        answer: LinksAnswer = await self._answer("/v1/links", asked)
        return _result(answer, sentences.of_links(answer, _zone(asked), _whose(asked)))

    async def _count(self, asked: Counted) -> Json:
        answer: TotalAnswer = await self._answer(f"{asked.path}/total", asked)
        return _result(answer, sentences.of_total(answer, asked.subject, _zone(asked), _whose(asked)))

    async def _curve(self, asked: Along) -> Json:
        answer: CurveAnswer = await self._answer(f"{asked.path}/curve", asked)
        finer = ""
        if len(answer.points) > MOST_POINTS:
            finer = answer.step
            answer = await self._answer(f"{asked.path}/curve", replace(asked, step=_coarser(answer)))
        return _result(answer, sentences.of_curve(answer, asked.subject, _whose(asked), finer))

    async def _divide(self, asked: Divided) -> Json:
        answer: ValuesAnswer = await self._answer(f"{asked.path}/by/{quote(asked.dimension, safe='')}", asked)
        return _result(answer, sentences.of_values(answer, asked.subject, _zone(asked), _noun(asked)))

    async def _came(self, asked: Came) -> Json:
        if isinstance(asked.dimension, UnsetType):
            answer: EventsAnswer = await self._answer(f"{asked.path}/events", asked)
            return _result(answer, sentences.of_events(answer, asked.subject, _zone(asked), self._units))
        by: EventsByAnswer = await self._answer(f"{asked.path}/events/by/{quote(asked.dimension, safe='')}", asked)
        return _result(by, sentences.of_events_by(by, asked.subject, _zone(asked), self._units))

    async def _explain(self, asked: Explained) -> Json:
        answer: WhyAnswer = await self._answer(f"{asked.path}/why", asked)
        return _result(answer, sentences.of_why(answer, asked.subject, _zone(asked), _noun(asked)))

    async def _visitors(self, asked: OfSubject) -> Json:
        if asked.path == ALL:
            raise ParameterInvalid("name a link (key) or a group: visitors of all links together are not counted")
        answer: VisitorsAnswer = await self._answer(f"{asked.path}/visitors", asked)
        return _result(answer, sentences.of_visitors(answer, asked.subject, _zone(asked)))

    async def _help(self, asked: Helped) -> Json:
        found = self._pages.about(asked.about)
        return _result(found, found.text())

    async def _answer(self, path: str, asked: Struct) -> Any:
        """Asks with these arguments as parameters."""
        given: Mapping[str, Any] = msgspec.to_builtins(asked)
        if "key" in given and "group" in given:
            raise ParameterInvalid("give a key or a group, not both", field="group", value=given["group"])
        return await self._ask(path, urlencode({name: each for name, each in given.items() if name not in _OF_PATH}))


def _zone(asked: Arguments) -> str:
    return "UTC" if isinstance(asked.tz, UnsetType) else asked.tz


def _noun(asked: Found | OfMeasured) -> str:
    """Returns what is counted, as sentences name it."""
    if isinstance(asked.event, UnsetType):
        return "hits"
    return f"in values of {asked.event} events" if asked.measure == "value" else f"{asked.event} events"


def _whose(asked: Found | Counted) -> str:
    whose = {"include": "people and bots", "only": "bots"}.get(str(asked.bots), "people")
    return f"{_noun(asked)} of {whose}"


def _coarser(answer: CurveAnswer) -> str:
    """Returns the finest step with few enough points; one more may lie at each end."""
    most_s = (answer.end - answer.start) / (MOST_POINTS - 2)
    return next((name for name, step in STEPS.items() if step.average_s >= most_s), "1y")


def _result(answer: Struct, text: str) -> Json:
    structured = msgspec.Raw(as_json(answer))
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": False}


def _failure(text: str) -> Json:
    return {"content": [{"type": "text", "text": visible(text)}], "isError": True}
