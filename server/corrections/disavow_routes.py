"""`/v1/links/{key}/disavow` and its like: rules by which counted hits are called bots, with a token of scope admin."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from clickcurve.asgi import read_bounded
from clickcurve.buckets.breakdowns.breakdown import NOT_GIVEN
from clickcurve.buckets.breakdowns.check import OF_BOTS
from clickcurve.buckets.breakdowns.disavow import CORRECTIONS, CalledLink, disavow
from clickcurve.buckets.errors import BodyUnreadable, ClickcurveError, ParameterInvalid, RowCorrupt
from clickcurve.buckets.ladder import END_OF_TIME, fold_day
from clickcurve.keys import ALL, KEY_BYTES, KEY_RULE, Subject, group_subject, link_subject
from clickcurve.routes import RawPathRoute, group_of_path, json_answer, key_of_path, raw_query
from clickcurve.row_kinds.names import what_it_is
from clickcurve.waiting import in_thread
from query.comparison import TimeSpan
from query.http.openapi import TEXT, describe_route
from query.parameters import parse_parameters, parse_query, resolve_range
from server.corrections.rules import DisavowRule, NotedRule, Walked
from server.corrections.runner import Corrections, called_hits
from server.timeline.known_notes import KnownNotes
from server.timeline.note import NoteKind
from server.tokens.audit import DISAVOWED, UNDONE, AuditLog, rule_subject
from server.tokens.route_access import Effect, RouteAccess, RouteEffect, ScopeRule
from server.tokens.token import Scope

_BODY_BYTES = 16 * 1024
_ASKED = ("from", "to", "last", "tz", "dry_run")
_BODY_RULE = 'one dimension and its value, as {"ref": "spam.example"}'


class RuleUnknown(ClickcurveError, status=404, title="unknown rule"):
    """There is no rule with this id."""


_BODY = {
    "schema": {"type": "object", "additionalProperties": TEXT, "minProperties": 1, "maxProperties": 1},
    "example": {"ref": "spam.example"},
}
_CALL = {400: "The body cannot be read", 409: "The value is being undone", 422: "A parameter or the body is not valid"}
_UNKNOWN = {404: "There is no rule with this id"}


def _rule_route(summary: str, names: Sequence[str]) -> dict[str, Any]:
    """Describes a route that takes a rule, with these parameters in its query."""
    parameters = [{"name": name, "in": "query", "required": False, "schema": TEXT} for name in names]
    return describe_route(summary, "The rule", _CALL, parameters=parameters, body=_BODY)


@dataclass(eq=False)
class _Rules:
    """Answers for a worker. kept_value: what is kept of a value that is named, given its dimension."""

    corrections: Corrections
    dimensions: Collection[str]
    kept_value: Callable[[str, str], str]
    clock: Callable[[], float]

    async def rule_in(self, request: Request, subject: Subject) -> tuple[DisavowRule, bool]:
        """Returns the rule that a request asks for, and whether it only asks what it would do."""
        self.corrections.corrector.require_fine_counts()
        given = parse_query(raw_query(request), _ASKED if subject is not ALL else (*_ASKED, "prefix"))
        prefix = _prefix_in(given) if subject is ALL else None
        dry_run = given.pop("dry_run", "false")
        if dry_run not in ("true", "false"):
            raise ParameterInvalid(
                "dry_run is neither true nor false", field="dry_run", value=dry_run, rule="true, false"
            )
        dimension, value = self._target_in(await read_bounded(request.stream(), _BODY_BYTES))
        parameters, now = parse_parameters(given), int(self.clock())
        span = resolve_range(parameters, now, 0) or (0, END_OF_TIME)
        self._require_buckets(span, now)
        return DisavowRule(subject.stored, dimension, value, *span, now, prefix), dry_run == "true"

    def _target_in(self, body: bytes) -> tuple[str, str]:
        try:
            asked = msgspec.json.decode(body, type=dict[str, str])
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise BodyUnreadable("the body is not an object of texts", rule=_BODY_RULE) from None
        if len(asked) != 1:
            detail = f"the body names {len(asked)} dimensions"
            raise ParameterInvalid(detail, field="body", value=", ".join(asked), rule=_BODY_RULE)
        ((dimension, value),) = asked.items()
        allowed = [name for name in self.dimensions if name not in OF_BOTS]
        if dimension not in allowed:
            detail = f"hits are not broken down by {dimension!r}, or its values are those of bots"
            raise ParameterInvalid(detail, field="dimension", value=dimension, rule=", ".join(allowed))
        if value == NOT_GIVEN:
            detail = "hits that gave no value cannot be called bots by that"
            raise ParameterInvalid(detail, field=dimension, value=value, rule="a value that is not empty")
        return dimension, self.kept_value(dimension, value)

    def _require_buckets(self, span: tuple[int, int], now: int) -> None:
        """Refuses a range without a whole bucket of breakdowns."""
        ladder, day = CORRECTIONS.ladder, fold_day(now)
        low, high = ladder.kept(span[0], day)
        if low < span[0]:
            low, high = ladder.kept(high, day)
        if high > span[1]:
            around = ladder.kept(span[0], day)
            detail = f"the range holds no whole bucket; it begins in the one from {around[0]} to {around[1]}"
            raise ParameterInvalid(
                detail, field="from", value=span[0], rule="one whole kept bucket of breakdowns or more"
            )

    async def answer(self, noted: NotedRule, state: str | None = None) -> dict[str, Any]:
        """Returns a rule as it is answered, with what it has called so far and could call yet."""
        waiting = noted.waiting(await self._open_owners([] if state else [noted]))
        if noted.rule.prefix is not None:
            walked = await self.corrections.dry_run(noted.rule) if state == "dry_run" else noted.walked
            return _answer_of_many(noted, walked or Walked(), waiting, state)
        link = await self._read(noted.rule.stored)
        return await in_thread("reading a rule", _answer_of_row, noted, link, waiting, state)

    async def answers(self) -> list[dict[str, Any]]:
        """Returns all rules as they are answered, oldest first. What several are of is read once."""
        found = await in_thread("reading rules", self.corrections.book.all)
        open_owners = await self._open_owners(found)
        by_row: dict[str, list[NotedRule]] = {}
        answers: dict[str, dict[str, Any]] = {}
        for each in found:
            if each.rule.prefix is not None:
                answers[each.rule.id] = _answer_of_many(each, each.walked or Walked(), each.waiting(open_owners))
            else:
                by_row.setdefault(each.rule.stored, []).append(each)
        for stored, several in by_row.items():
            link = await self._read(stored)
            for each in several:  # of 2 ms each, and there may be 1,000
                waiting = each.waiting(open_owners)
                answers[each.rule.id] = await in_thread("reading a rule", _answer_of_row, each, link, waiting)
        return [answers[each.rule.id] for each in found]

    async def _open_owners(self, some: Sequence[NotedRule]) -> list[int]:
        """Returns the owners that rules may wait for; none, without a question, if all of these are settled."""
        if all(each.settled for each in some):
            return []
        return await in_thread("reading owners", self.corrections.book.open_owners)

    async def _read(self, stored: str) -> CalledLink:
        try:
            return await self.corrections.corrector.read(stored)
        except RowCorrupt as error:
            what, name = what_it_is(stored)
            detail = (
                f"{what}, its breakdown or its correction, is damaged ({error.detail}); `clickcurve repair` says more"
            )
            raise RowCorrupt(detail, field="key", value=name) from error

    async def noted(self, rule_id: str) -> NotedRule:
        """Returns a rule as it is noted now; raises RuleUnknown."""
        for each in await in_thread("reading rules", self.corrections.book.all):
            if each.rule.id == rule_id:
                return each
        detail = "there is no rule with this id"
        raise RuleUnknown(detail, field="id", value=rule_id, rule="an id of GET /v1/disavow")


ACCESS = RouteAccess(
    (
        RouteEffect("POST", "/v1/links/{key}/disavow", Effect.admin),
        RouteEffect("POST", "/v1/groups/{name}/disavow", Effect.admin),
        RouteEffect("GET POST", "/v1/disavow", Effect.admin),
        RouteEffect("GET DELETE", "/v1/disavow/{id}", Effect.admin),
    ),
    (
        ScopeRule("", "/v1/disavow.*", Scope.admin),
        ScopeRule("POST", "/v1/(links|groups)/.+/disavow", Scope.admin),
    ),
)


def disavow_routes(
    corrections: Corrections,
    audit: AuditLog,
    dimensions: Collection[str],
    kept_value: Callable[[str, str], str],
    clock: Callable[[], float],
    notes: KnownNotes,
) -> APIRouter:
    """Makes the router. clock: epoch seconds."""
    router = APIRouter(route_class=RawPathRoute, tags=["administering"])
    rules, book = _Rules(corrections, dimensions, kept_value, clock), corrections.book

    async def call(request: Request, subject: Subject) -> Response:
        rule, dry_run = await rules.rule_in(request, subject)
        if dry_run:
            await corrections.corrector.flush()
            return json_answer(await rules.answer(NotedRule(rule), "dry_run"))
        await audit.note_request(DISAVOWED, _what(rule))
        rule = await in_thread("writing a rule", book.add, rule)
        await corrections.refresh()
        said, at, span = _said_of(rule), _moment(rule), _span(rule)
        await notes.write_own(NoteKind.disavow, rule.stored, said, note_id=note_of(rule), at=at, span=span)
        noted = await rules.noted(rule.id)
        is_begun = rule.prefix is not None and not (noted.settled or (noted.walked and noted.walked.ended))
        return json_answer(await rules.answer(noted), 202 if is_begun else 200)

    @router.post("/v1/links/{key}/disavow", **_rule_route("Call hits of a link bots", _ASKED))
    async def call_of_link(request: Request) -> Response:
        """Hits of the value in whole kept buckets of the range become bots' in every answer; all links follow.

        `dry_run=true` says how many these are. Sent again it is the same rule.
        """
        return await call(request, link_subject(key_of_path(request)))

    @router.post("/v1/groups/{name}/disavow", **_rule_route("Call hits of a group bots", _ASKED))
    async def call_of_group(request: Request) -> Response:
        """As for a link; the links of the group stay as they are."""
        return await call(request, group_subject(group_of_path(request)))

    @router.post("/v1/disavow", **_rule_route("Call hits of many links bots", (*_ASKED, "prefix")))
    async def call_of_many(request: Request) -> Response:
        """As for a link, for each link; with `prefix`, for those whose keys begin with it. All links follow.

        202 while it goes on: the rule says how many links it has met.
        """
        return await call(request, ALL)

    @router.get("/v1/disavow", **describe_route("List the rules that call hits bots", "The rule"))
    async def list_rules() -> Response:
        return json_answer({"rules": await rules.answers()})

    @router.get("/v1/disavow/{id}", **describe_route("One rule that calls hits bots", "The rule", _UNKNOWN))
    async def show_rule(request: Request) -> Response:
        return json_answer(await rules.answer(await rules.noted(str(request.path_params["id"]))))

    @router.delete("/v1/disavow/{id}", **describe_route("Undo a rule that calls hits bots", "The rule", _UNKNOWN))
    async def undo(request: Request) -> Response:
        """All ranges of its value are undone together. Every answer is then as it was."""
        noted = await rules.noted(str(request.path_params["id"]))
        await audit.note_request(UNDONE, _what(noted.rule))
        same = [each.rule for each in await in_thread("reading rules", book.all)]
        await in_thread("undoing a rule", book.undo, noted.rule.id)
        await notes.drop([note_of(rule) for rule in same if rule.target == noted.rule.target])
        await corrections.refresh()
        left = {each.rule.id for each in await in_thread("reading rules", book.all)}
        return json_answer(await rules.answer(noted, "undoing" if noted.rule.id in left else "undone"))

    return router


def _answer_of_row(noted: NotedRule, link: CalledLink, waiting: list[int], state: str | None = None) -> dict[str, Any]:
    rule = noted.rule
    more = disavow(link, rule.dimension, rule.value, rule.since, rule.until)
    found = {"at_least": more.at_least, "at_most": more.at_most, "moved": called_hits(link, rule)}
    return _answer(noted, found, waiting, state)


def _answer_of_many(noted: NotedRule, walked: Walked, waiting: list[int], state: str | None = None) -> dict[str, Any]:
    moved = 0 if state == "undone" else walked.moved
    found = {"at_least": walked.at_least, "at_most": walked.at_most, "moved": moved}
    answer = _answer(noted, found, waiting, state)
    return {**answer, "links": walked.links, "left_out": walked.left_out}


def _answer(noted: NotedRule, found: Mapping[str, int], waiting: list[int], state: str | None) -> dict[str, Any]:
    rule = noted.rule
    start, end = _span(rule) or (None, None)
    return {
        "id": rule.id,
        "kind": rule.kind,
        "key": rule.name,
        "dimension": rule.dimension,
        "value": rule.value,
        "from": start,
        "to": end,
        **found,
        "state": state or ("undoing" if noted.undo else "settled" if noted.settled else "running"),
        "waiting": waiting,
    }


def note_of(rule: DisavowRule) -> str:
    """Returns the id of the note that stands beside the hits which a rule calls."""
    return f"disavow-{rule.id}"


def _said_of(rule: DisavowRule) -> str:
    """Says what a rule does without its value, which may have to be forgotten."""
    return f"Hits of one {rule.dimension} called bots (rule {rule.id})"


def _moment(rule: DisavowRule) -> int:
    """Returns where the hits begin that a rule calls; of all time, when it was made."""
    return rule.since or rule.at


def _span(rule: DisavowRule) -> TimeSpan | None:
    """Returns the range of a rule; None for all time."""
    span = rule.since, rule.until
    return None if span == (0, END_OF_TIME) else span


def _prefix_in(given: dict[str, str]) -> str:
    """Takes the beginning of keys out of the parameters; empty: all keys."""
    prefix = given.pop("prefix", "")
    if len(prefix.encode()) > KEY_BYTES:
        raise ParameterInvalid("no key is that long", field="prefix", value=prefix, rule=KEY_RULE)
    return prefix


def _what(rule: DisavowRule) -> str:
    """Says which hits a rule calls, for the audit log."""
    of = {"all": "all links", "prefix": f"keys with {rule.name}"}.get(rule.kind, rule.name)
    return rule_subject(of, rule.dimension, rule.value)
