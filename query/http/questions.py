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

_NAMED = frozenset({b"links", b"groups", b"limits"})
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
        self._queries = queries
        self._limits = limits
        self.table: dict[Place, Question] = {}
        for path, subject in ((openapi.LINK, _link), (openapi.GROUP, _group), (openapi.ALL_LINKS, _all)):
            self._add_counts(path, subject)
            self._add_breakdowns(path, subject, breakdowns, visitors)
        self._add(openapi.ALL_LINKS, "links", lambda name, dimension, query: queries.links(query))
        self._add(openapi.ALL_LINKS, "groups", lambda name, dimension, query: queries.groups(query))
        self._add(openapi.LIMIT, "total", self._limit_total)
        self._add(openapi.LIMIT, "curve", self._limit_curve)

    def asked(self, scope: Scope) -> Asked | None:
        """Returns the question that a request's path asks; None for any other path.

        The path is read raw, because a key may hold an encoded slash, or be called `total`.
        """
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        _, version, *parts = raw.split(b"/")
        if version != b"v1" or not parts:
            return None
        kind = name = dimension = b""
        if len(parts) > 1 and parts[0] in _NAMED:
            kind, name, *parts = parts
            if not name:
                return None
        what = b"/".join(parts)
        if what.startswith(b"by/") and len(parts) <= 3 and parts[1]:
            dimension, what = parts[1], b"/".join([b"by", *parts[2:]])
        elif parts and parts[0] == b"by":
            return None
        question = self.table.get((kind, what))
        return None if question is None else Asked(question, name, dimension)

    def paths(self) -> dict[str, Schema]:
        """Returns the paths as the OpenAPI page has them."""
        return {each.path: {"get": each.operation} for each in self.table.values() if each.operation is not None}

    def _add(self, path: openapi.SubjectPath, what: str, ask: Ask, is_on: bool = True) -> None:
        operation = openapi.describe_question(path, what) if is_on else None
        deleted = (openapi.LINK, ""), (openapi.GROUP, ""), (openapi.ALL_LINKS, "links")
        also = ("DELETE",) if (path, what) in deleted else ()
        self.table[path.kind.encode(), what.encode()] = Question(path.with_question(what), operation, ask, also)

    def _add_counts(self, path: openapi.SubjectPath, subject: Callable[[bytes], Subject]) -> None:
        queries = self._queries
        self._add(path, "total", lambda name, dimension, query: queries.total(subject(name), query))
        self._add(path, "curve", lambda name, dimension, query: queries.curve(subject(name), query))
        if path is not openapi.ALL_LINKS:
            self._add(path, "", lambda name, dimension, query: queries.summary(subject(name), query))

    def _add_breakdowns(
        self,
        path: openapi.SubjectPath,
        subject: Callable[[bytes], Subject],
        breakdowns: BreakdownQueries | None,
        visitors: bool,
    ) -> None:
        asks: dict[str, Ask]
        if breakdowns is None:
            names = ("by", "by/curve", "visitors", "why")
            asks = dict.fromkeys(names, _switched_off("breaks down no hits", _BREAKDOWN_OFF))
        else:
            by, curve, days = breakdowns.by, breakdowns.curve, breakdowns.visitors
            why = ChangeQueries(self._queries, breakdowns).why
            asks = {
                "by": lambda name, dimension, query: by(subject(name), _dimension(dimension), query),
                "by/curve": lambda name, dimension, query: curve(subject(name), _dimension(dimension), query),
                "visitors": lambda name, dimension, query: days(subject(name), query),
                "why": lambda name, dimension, query: why(subject(name), query),
            }
            if not visitors:
                asks["visitors"] = _switched_off("counts no visitors", _VISITORS_OFF)
        if path is openapi.ALL_LINKS:
            del asks["visitors"]
        for what, ask in asks.items():
            self._add(path, what, ask, breakdowns is not None and (visitors or what != "visitors"))

    async def _limit_total(self, name: bytes, dimension: bytes, query: bytes) -> object:
        event = key_in_path(name, ParameterInvalid)
        subject = await self._queries.limit_subject(event, query, self._limits, LIMIT_TOTAL)
        return await self._queries.total(subject, query, LIMIT_TOTAL)

    async def _limit_curve(self, name: bytes, dimension: bytes, query: bytes) -> object:
        event = key_in_path(name, ParameterInvalid)
        subject = await self._queries.limit_subject(event, query, self._limits, LIMIT_CURVE)
        return await self._queries.curve(subject, query, LIMIT_CURVE)


def _switched_off(what: str, rule: str) -> Ask:
    setting = rule.partition(" ")[0]

    async def refuse(name: bytes, dimension: bytes, query: bytes) -> object:
        raise SwitchedOff(f"this server {what}: its setting {setting} says so", field=setting, rule=rule)

    return refuse


def _link(raw: bytes) -> Subject:
    return link_subject(key_in_path(raw, ParameterInvalid))


def _group(raw: bytes) -> Subject:
    return group_subject(group_in_path(raw, ParameterInvalid))


def _all(raw: bytes) -> Subject:
    return ALL


def _dimension(raw: bytes) -> str:
    """Returns the dimension that a raw path segment names. What is not UTF-8 is none that is known."""
    return unquote(raw.decode("latin-1"), errors="replace")
