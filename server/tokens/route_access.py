"""Which scope a request needs, and what a token with a prefix may do there.

`ROUTES` is the one table of what a prefix does to each route. A route that is missing is refused to such tokens. The
table admits; the reading of rows and of hits itself stays within the prefix (`clickcurve.access`), so a row of this
table that is wrong refuses too much, or shows nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from clickcurve.access import Access
from server.tokens.token import Scope

IMPORTS = "/v1/import/"
LIMIT = "/v1/limit/"
# What is asked by POST too, because such questions are long: it changes nothing.
QUESTIONS = frozenset(
    (
        *("/v1/sum", "/render", "/metrics/find", "/metrics/find/", "/metrics/expand", "/functions", "/version"),
        *("/api/v1/query", "/api/v1/query_range", "/api/v1/labels", "/api/v1/series", "/mcp"),
    )
)
# And below them: administering in every method.
ADMIN_PATHS = ("/v1/tokens", "/v1/audit", "/v1/disavow", "/v1/words", "/v1/clock")
# Routes of other products' senders, of which most can send no header field with a token: they look for it themselves.
DOOR_PATHS = frozenset(
    ("/matomo.php", "/api/send", "/api/batch", "/api/v0/count", "/i/v0/e/", "/batch/", "/v1/from/dub")
)
DOORS_BELOW = ("/api/send/", "/api/batch/", "/v1/from/segment/v1/")
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/docs", "/openapi.json", "/login"})
OPEN_BELOW = ("/static/", "/share/")  # what pages load; and addresses that are signed
# Forms of the page. The one that shares a link checks the token that is typed in it.
_OPEN_FORMS = frozenset({"/login", "/logout"})
_is_disavow = re.compile(r"/v1/(links|groups)/.+/disavow", re.DOTALL).fullmatch
_is_share_form = re.compile(r"/(links|groups)/.+/share", re.DOTALL).fullmatch


def scope_of(method: str, path: str) -> Scope | None:
    """Returns the scope that a request needs, or None for an open path. A new route needs a token by default."""
    if path.startswith(ADMIN_PATHS):
        return Scope.admin
    if method in ("GET", "HEAD"):
        if path.startswith((IMPORTS, LIMIT)) or path in DOOR_PATHS:
            return Scope.write  # an import asks how far it has come; a proxy's question to the limiter counts
        return None if path in OPEN_PATHS or path.startswith(OPEN_BELOW) else Scope.read
    if method == "POST" and (path in _OPEN_FORMS or _is_share_form(path)):
        return None
    if method == "POST" and _is_disavow(path):
        return Scope.admin
    if method in ("POST", "PUT", "PATCH"):
        return Scope.read if method == "POST" and path in QUESTIONS else Scope.write
    return Scope.admin


def is_question_to_limiter(path: str) -> bool:
    """Tells whether a GET of this path counts a hit in the limiter, as a POST does."""
    return path.startswith(LIMIT) and path.endswith("/check")


def is_door(path: str) -> bool:
    """Returns whether a path is one of another product's senders."""
    return path in DOOR_PATHS or path.startswith(DOORS_BELOW)


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


def _questions(path: str, effect: Effect, *names: str) -> Iterator[RouteEffect]:
    for name in names:
        yield RouteEffect("GET", f"{path}/{name}" if name else path, effect)


_PICTURES = "curve.svg", "curve.png", "badge.svg", "badge.json"
_BROKEN_DOWN = "by/{dimension}", "by/{dimension}/curve", "why"
_OF_ONE = "", "total", "curve", *_BROKEN_DOWN, "visitors", *_PICTURES
ROUTES: tuple[RouteEffect, ...] = (
    RouteEffect("POST", "/v1/hits", Effect.hits),
    RouteEffect("POST", "/v1/hits/{key}", Effect.link),
    RouteEffect("POST", "/api/event", Effect.hits),
    RouteEffect("POST", "/v1/metrics", Effect.hits),
    RouteEffect("GET POST", "/matomo.php", Effect.hits),
    RouteEffect("POST", "/api/send", Effect.hits),
    RouteEffect("POST", "/api/send/{token}", Effect.hits),
    RouteEffect("POST", "/api/batch", Effect.hits),
    RouteEffect("POST", "/api/batch/{token}", Effect.hits),
    RouteEffect("POST", "/api/v0/count", Effect.hits),
    RouteEffect("POST", "/i/v0/e/", Effect.hits),
    RouteEffect("POST", "/batch/", Effect.hits),
    RouteEffect("POST", "/v1/from/segment/v1/{kind}", Effect.hits),
    RouteEffect("POST", "/v1/from/dub", Effect.hits),
    RouteEffect("GET POST", "/v1/import/{source}", Effect.offsets),
    *_questions("/v1/links/{key}", Effect.link, *_OF_ONE),
    *_questions("/v1/groups/{name}", Effect.group, *_OF_ONE),
    *_questions("/v1", Effect.all_links, "total", "curve", *_BROKEN_DOWN),
    RouteEffect("GET", "/v1/links", Effect.listed),
    RouteEffect("GET", "/v1/export", Effect.exported),
    RouteEffect("GET", "/v1/groups", Effect.groups),
    RouteEffect("POST", "/v1/sum", Effect.links),
    RouteEffect("GET", "/", Effect.page),
    RouteEffect("GET", "/links", Effect.page),
    RouteEffect("GET", "/links.csv", Effect.page),
    RouteEffect("GET", "/links/{key}", Effect.link),
    RouteEffect("GET", "/groups/{name}", Effect.group),
    RouteEffect("GET POST", "/render", Effect.found),
    RouteEffect("GET POST", "/metrics/find", Effect.found),
    RouteEffect("GET POST", "/metrics/find/", Effect.found),
    RouteEffect("GET POST", "/metrics/expand", Effect.found),
    RouteEffect("GET POST", "/functions", Effect.words),
    RouteEffect("GET POST", "/version", Effect.words),
    RouteEffect("GET", "/tags/autoComplete/{what}", Effect.words),
    RouteEffect("GET", "/metrics/links", Effect.listed),
    RouteEffect("GET POST", "/api/v1/query", Effect.found),
    RouteEffect("GET POST", "/api/v1/query_range", Effect.found),
    RouteEffect("GET POST", "/api/v1/series", Effect.found),
    RouteEffect("GET POST", "/api/v1/labels", Effect.words),
    RouteEffect("GET", "/api/v1/label/{name}/values", Effect.found),
    RouteEffect("GET", "/api/v1/metadata", Effect.words),
    *_questions("/v4/bitlinks/{host}/{key}", Effect.link, "clicks", "clicks/summary", "{facet}"),
    RouteEffect("POST", "/mcp", Effect.found),
    RouteEffect("GET", "/metrics", Effect.refused),
    RouteEffect("GET", "/system", Effect.refused),
    RouteEffect("GET", "/node", Effect.refused),
    RouteEffect("GET", "/limits", Effect.refused),
    RouteEffect("GET", "/v1/limits", Effect.refused),
    *_questions("/v1/limits/{event}", Effect.refused, "total", "curve"),
    RouteEffect("POST", "/v1/limit/{event}", Effect.refused),
    RouteEffect("GET POST", "/v1/limit/{event}/check", Effect.refused),
    RouteEffect("POST", "/v1/limit/{event}/{reservation}/commit", Effect.refused),
    RouteEffect("POST", "/v1/limit/{event}/{reservation}/cancel", Effect.refused),
    RouteEffect("DELETE", "/v1/links", Effect.admin),
    RouteEffect("DELETE", "/v1/links/{key}", Effect.admin),
    RouteEffect("DELETE", "/v1/groups/{name}", Effect.admin),
    RouteEffect("GET POST", "/v1/tokens", Effect.admin),
    RouteEffect("DELETE", "/v1/tokens/{id}", Effect.admin),
    RouteEffect("GET", "/v1/audit", Effect.admin),
    RouteEffect("POST", "/v1/links/{key}/disavow", Effect.admin),
    RouteEffect("POST", "/v1/groups/{name}/disavow", Effect.admin),
    RouteEffect("GET POST", "/v1/disavow", Effect.admin),
    RouteEffect("GET DELETE", "/v1/disavow/{id}", Effect.admin),
    RouteEffect("POST", "/v1/words/erase", Effect.admin),
    RouteEffect("GET", "/v1/words/erase/{id}", Effect.admin),
    RouteEffect("POST", "/v1/clock/accept", Effect.admin),
    RouteEffect("GET", "/links/{key}/share", Effect.form),
    RouteEffect("GET", "/groups/{name}/share", Effect.form),
    RouteEffect("POST", "/links/{key}/share", Effect.typed),
    RouteEffect("POST", "/groups/{name}/share", Effect.typed),
    RouteEffect("GET", "/share/{signed}", Effect.open),
    *_questions("/share/{signed}", Effect.open, "curve", *_BROKEN_DOWN, "visitors"),
    RouteEffect("GET", "/share/{signed}/curve.svg", Effect.open),
    RouteEffect("GET", "/share/{signed}/badge.svg", Effect.open),
    RouteEffect("GET", "/static/{name}", Effect.open),
    RouteEffect("GET", "/docs", Effect.open),
    RouteEffect("GET", "/openapi.json", Effect.open),
    RouteEffect("GET POST", "/login", Effect.open),
    RouteEffect("POST", "/logout", Effect.open),
    RouteEffect("GET", "/healthz", Effect.open),
    RouteEffect("GET", "/readyz", Effect.open),
)
_CLOSED = Effect.refused, Effect.admin, Effect.form


def _expression(path: str) -> str:
    return re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))


def _admitted(method: str) -> re.Pattern[str]:
    open_routes = (each for each in ROUTES if method in each.methods.split() and each.effect not in _CLOSED)
    return re.compile("|".join(_expression(each.path) for each in open_routes))


_by_method: Mapping[str, re.Pattern[str]] = {method: _admitted(method) for method in ("GET", "POST")}


def check_route(access: Access, method: str, raw_path: bytes) -> None:
    """Raises OutsidePrefix where a token with a prefix may not ask at all; HEAD is GET."""
    if not access.prefix:
        return
    admitted = _by_method.get("GET" if method == "HEAD" else method)
    if admitted is None or not admitted.fullmatch(raw_path.decode("latin-1")):
        raise access.refusal(f"{method} {raw_path.decode('latin-1')}"[:200])
