"""The routes that answer questions, as one table: what a path asks, of which subject, and what the OpenAPI page says.

A path is that of a subject (a link, a group, all links, a limit's history) and what is asked of it. Lists of links and
of groups are asked of all links. `query.http.query_endpoint` answers by this table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

from clickcurve.asgi import Scope
from clickcurve.buckets.errors import ParameterInvalid, SwitchedOff
from clickcurve.keys import ALL, Subject, group_in_path, group_subject, key_in_path, link_subject
from query.breakdowns.queries import BreakdownQueries
from query.breakdowns.why import ChangeQueries
from query.http import openapi
from query.http.openapi import Schema
from query.parameters import LIMIT_CURVE, LIMIT_TOTAL
from query.queries import Limits, Queries

# Of a raw name and a raw dimension in the path, empty where it has none, and a query string; gives an answer.
Ask: TypeAlias = Callable[[bytes, bytes, bytes], Awaitable[object]]
Place: TypeAlias = tuple[bytes, bytes]  # the kind of subject, empty for all links; what is asked of it

# The same of a subject and a dimension.
AskOfSubject: TypeAlias = Callable[[Subject, str, bytes], Awaitable[object]]

_NAMED = frozenset({b"links", b"groups", b"limits"})
_BREAKDOWNS = ("by", "by/curve", "visitors", "why", "events/by")
_OF_SUBJECTS = ("total", "curve", "", "now", "hours", "events", *_BREAKDOWNS)
_NOT_OF_ALL = ("", "visitors")
_DELETED = ("/v1/links/{key}", "/v1/groups/{name}", "/v1/links")
_BREAKDOWN_OFF = 'breakdown_dimensions names some, such as "ref,country"; hits are broken down from then on'
_VISITORS_OFF = "breakdown_visitors = true"


@dataclass(frozen=True, slots=True)
class Question:
    """A route. operation: its description, None if it is switched off. also: other methods that its path has."""

    path: str
    operation: Schema | None
    ask: Ask
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that a path asks, with the raw name and the raw dimension in it; both may be empty."""

    question: Question
    name: bytes
    dimension: bytes


class Questions:
    """All questions of a node. breakdowns: None where hits are not broken down; visitors: are days of them kept?"""

    def __init__(
        self, queries: Queries, breakdowns: BreakdownQueries | None, limits: Limits, visitors: bool = True
    ) -> None:
        self.table: dict[Place, Question] = {}
        events = queries.what_came(breakdowns)
        asks: dict[str, AskOfSubject] = {
            "total": lambda subject, dimension, query: queries.total(subject, query),
            "curve": lambda subject, dimension, query: queries.curve(subject, query),
            "": lambda subject, dimension, query: queries.summary(subject, query),
            "events": lambda subject, dimension, query: events.of(subject, query),
            "now": lambda subject, dimension, query: queries.recent(subject, query),
            "hours": lambda subject, dimension, query: queries.hours(subject, query),
        }
        off: dict[str, Ask] = {}
        if breakdowns is None:
            off = dict.fromkeys(_BREAKDOWNS, _switched_off("breaks down no hits", _BREAKDOWN_OFF))
        else:
            days, why = breakdowns.visitors, ChangeQueries(queries, breakdowns).why
            asks |= {
                "by": breakdowns.by,
                "by/curve": breakdowns.curve,
                "visitors": lambda subject, dimension, query: days(subject, query),
                "why": lambda subject, dimension, query: why(subject, query),
                "events/by": events.by,
            }
            if not visitors:
                off["visitors"] = _switched_off("counts no visitors", _VISITORS_OFF)
        for path, subject in ((openapi.LINK, _link), (openapi.GROUP, _group), (openapi.ALL_LINKS, lambda raw: ALL)):
            for what in _OF_SUBJECTS:
                if path is openapi.ALL_LINKS and what in _NOT_OF_ALL:
                    continue
                self._add(path, what, off.get(what) or _ask_of(subject, asks[what]), what not in off)
        self._add(openapi.ALL_LINKS, "links", lambda name, dimension, query: queries.links(query))
        self._add(openapi.ALL_LINKS, "groups", lambda name, dimension, query: queries.groups(query))

        async def limit_total(name: bytes, dimension: bytes, query: bytes) -> object:
            subject = await queries.limit_subject(key_in_path(name, ParameterInvalid), query, limits, LIMIT_TOTAL)
            return await queries.total(subject, query, LIMIT_TOTAL)

        async def limit_curve(name: bytes, dimension: bytes, query: bytes) -> object:
            subject = await queries.limit_subject(key_in_path(name, ParameterInvalid), query, limits, LIMIT_CURVE)
            return await queries.curve(subject, query, LIMIT_CURVE)

        self._add(openapi.LIMIT, "total", limit_total)
        self._add(openapi.LIMIT, "curve", limit_curve)

    def asked(self, scope: Scope) -> Asked | None:
        """Returns the question that a request's path asks; None for any other path.

        The path is read raw, because a key may hold an encoded slash, or be called `total`.
        """
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        if not raw.startswith(b"/v1/"):
            return None
        parts = raw.split(b"/")[2:]
        kind = name = dimension = b""
        if len(parts) > 1 and parts[0] in _NAMED:
            kind, name, *parts = parts
            if not name:
                return None
        at = parts.index(b"by") + 1 if b"by" in parts[:2] else 0  # where the dimension stands
        if at and not (len(parts) > at and parts[at]):
            return None
        if at:
            dimension = parts.pop(at)
        what = b"/".join(parts)
        question = self.table.get((kind, what))
        return None if question is None else Asked(question, name, dimension)

    def paths(self) -> dict[str, Schema]:
        """Returns the paths as the OpenAPI page has them."""
        return {each.path: {"get": each.operation} for each in self.table.values() if each.operation is not None}

    def _add(self, subject: openapi.SubjectPath, what: str, ask: Ask, is_on: bool = True) -> None:
        path = subject.with_question(what)
        operation = openapi.describe_question(subject, what) if is_on else None
        also = ("DELETE",) if path in _DELETED else ()
        self.table[subject.kind.encode(), what.encode()] = Question(path, operation, ask, also)


def _ask_of(subject: Callable[[bytes], Subject], ask: AskOfSubject) -> Ask:
    """Returns a question as a path asks it. What is not UTF-8 in the dimension is none that is known."""
    return lambda name, dimension, query: ask(
        subject(name), unquote(dimension.decode("latin-1"), errors="replace"), query
    )


def _switched_off(what: str, rule: str) -> Ask:
    setting = rule.partition(" ")[0]

    async def refuse(name: bytes, dimension: bytes, query: bytes) -> object:
        raise SwitchedOff(f"this server {what}: its setting {setting} says so", field=setting, rule=rule)

    return refuse


def _link(raw: bytes) -> Subject:
    return link_subject(key_in_path(raw, ParameterInvalid))


def _group(raw: bytes) -> Subject:
    return group_subject(group_in_path(raw, ParameterInvalid))
