"""What routes ask of a token: the scope that a request needs, and what a token with a prefix may do there.

Each part of the server says it of its own routes (`RouteAccess`); `server.app.parts` has the table of all. A route that
is missing there needs a token by its method, and is refused to tokens with a prefix. The table admits; the reading of
rows and of hits itself stays within the prefix (`clickcurve.access`), so a row of the table that is wrong refuses too
much, or shows nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from clickcurve.access import Access
from server.tokens.token import Scope


class Effect(StrEnum):
    """What a prefix does to a route, as the docs say it."""

    hits = "other keys are refused one by one; each hit counts in the token's group too"
    link = "another key is 403"
    links = "another key among those asked for is 403"
    group = "another group is 403"
    listed = "lists its own keys alone"
    exported = "writes its group and its own links"
    groups = "lists its group alone"
    all_links = "speaks of its group"
    found = "finds its own keys and its group alone; `total` is its group"
    notes = "notes of its own keys and its group alone; a note of all links is 403"
    page = "shows its group and its own links"
    offsets = "offsets of imports are its own; other keys are refused one by one"
    words = "as without a prefix: it says nothing of hits"
    refused = "403: it speaks of the whole server"
    admin = "403: it needs the scope admin, which no token with a prefix has"
    form = "403: only a token of scope admin shares"
    typed = "asks for a token of scope admin in the form"
    open = "open to everybody, as without a prefix"


class RouteEffect(NamedTuple):
    """A route: methods with blanks between them, a path with its parameters in braces, and what a prefix does to it."""

    methods: str
    path: str
    effect: Effect


class ScopeRule(NamedTuple):
    """Which scope a request needs where its method alone does not tell; None: it is open.

    methods: with blanks between them; empty for all. paths: an expression for whole paths, decoded.
    """

    methods: str
    paths: str
    scope: Scope | None


@dataclass(frozen=True, slots=True)
class RouteAccess:
    """What the routes of a part ask of tokens. doors: paths that look for their token themselves, as an expression."""

    routes: tuple[RouteEffect, ...]
    scopes: tuple[ScopeRule, ...] = ()
    doors: str = ""


def questions(path: str, effect: Effect, *names: str) -> Iterator[RouteEffect]:
    """Yields routes of questions below a path, by their names there."""
    for name in names:
        yield RouteEffect("GET", f"{path}/{name}" if name else path, effect)


_CLOSED = Effect.refused, Effect.admin, Effect.form
_BY_METHOD = {"GET": Scope.read, "POST": Scope.write, "PUT": Scope.write, "PATCH": Scope.write}


class RouteTable:
    """The routes of all parts."""

    def __init__(self, *parts: RouteAccess) -> None:
        self.routes = tuple(route for part in parts for route in part.routes)
        self._rules = [rule for part in parts for rule in part.scopes]
        self._by_method = {method: self._rules_of(method) for method in ("GET", "POST", "DELETE", "")}
        self._admitted = {method: _admitted(self.routes, method) for method in ("GET", "POST", "DELETE")}
        self.is_door = _whole(part.doors for part in parts if part.doors)

    def _rules_of(self, method: str) -> list[tuple[Callable[[str], object], Scope | None]]:
        """Returns which paths need which scope in a method; "": in all that no rule names."""
        scopes: dict[Scope | None, list[str]] = {}
        for rule in self._rules:
            if not rule.methods or method in rule.methods.split():
                scopes.setdefault(rule.scope, []).append(rule.paths)
        return [(_whole(paths), scope) for scope, paths in scopes.items()]

    def scope_of(self, method: str, path: str) -> Scope | None:
        """Returns the scope that a request needs, or None for an open path. A new route needs a token by default."""
        if method == "HEAD":
            method = "GET"
        for is_one, scope in self._by_method.get(method, self._by_method[""]):
            if is_one(path):
                return scope
        return _BY_METHOD.get(method, Scope.admin)

    def is_question(self, path: str) -> bool:
        """Returns whether a path is asked by POST too, because such questions are long: it changes nothing."""
        return self.scope_of("POST", path) is Scope.read

    def check(self, access: Access, method: str, raw_path: bytes) -> None:
        """Raises OutsidePrefix where a token with a prefix may not ask at all; HEAD is GET."""
        if not access.prefix:
            return
        admitted = self._admitted.get("GET" if method == "HEAD" else method)
        if admitted is None or not admitted(raw_path.decode("latin-1")):
            raise access.refusal(f"{method} {raw_path.decode('latin-1')}"[:200])


def _whole(paths: Iterable[str]) -> Callable[[str], object]:
    """Makes what matches paths that one of these expressions matches as a whole; none: nothing."""
    return re.compile("|".join(paths) or "(?!)", re.DOTALL).fullmatch


def _admitted(routes: tuple[RouteEffect, ...], method: str) -> Callable[[str], object]:
    open_routes = (each for each in routes if method in each.methods.split() and each.effect not in _CLOSED)
    return _whole(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(each.path)) for each in open_routes)
