"""What the routes of the core ask of tokens: hits, questions and their pictures, the page, the server itself."""

from __future__ import annotations

from server.tokens.route_access import Effect, RouteAccess, RouteEffect, ScopeRule, questions
from server.tokens.token import Scope

_PICTURES = "curve.svg", "curve.png", "badge.svg", "badge.json"
_BROKEN_DOWN = "by/{dimension}", "by/{dimension}/curve", "why"
_EVENTS = "events", "events/by/{dimension}"
_OF_ONE = "", "total", "curve", "now", "hours", *_BROKEN_DOWN, *_EVENTS, "visitors", *_PICTURES

WRITING = RouteAccess(
    (
        RouteEffect("POST", "/v1/hits", Effect.hits),
        RouteEffect("POST", "/v1/hits/{key}", Effect.link),
        RouteEffect("GET POST", "/v1/import/{source}", Effect.offsets),
    ),
    (ScopeRule("GET", "/v1/import/.*", Scope.write),),  # an import asks how far it has come
)
READING = RouteAccess(
    (
        *questions("/v1/links/{key}", Effect.link, *_OF_ONE),
        *questions("/v1/groups/{name}", Effect.group, *_OF_ONE),
        *questions("/v1", Effect.all_links, "total", "curve", "now", "hours", *_BROKEN_DOWN, *_EVENTS),
        RouteEffect("GET", "/v1/links", Effect.listed),
        RouteEffect("GET", "/v1/export", Effect.exported),
        RouteEffect("GET", "/v1/groups", Effect.groups),
        RouteEffect("POST", "/v1/sum", Effect.links),
        RouteEffect("DELETE", "/v1/links", Effect.admin),
        RouteEffect("DELETE", "/v1/links/{key}", Effect.admin),
        RouteEffect("DELETE", "/v1/groups/{name}", Effect.admin),
    ),
    (ScopeRule("POST", "/v1/sum", Scope.read),),
)
SERVER = RouteAccess(
    (
        RouteEffect("GET", "/metrics", Effect.refused),
        RouteEffect("GET", "/docs", Effect.open),
        RouteEffect("GET", "/openapi.json", Effect.open),
        RouteEffect("GET", "/healthz", Effect.open),
        RouteEffect("GET", "/readyz", Effect.open),
    ),
    (ScopeRule("GET", "/healthz|/readyz|/docs|/openapi.json", None),),
)
PAGE = RouteAccess(
    (
        RouteEffect("GET", "/", Effect.page),
        RouteEffect("GET", "/links", Effect.page),
        RouteEffect("GET", "/links.csv", Effect.page),
        RouteEffect("GET", "/compare", Effect.links),
        RouteEffect("GET", "/compare.csv", Effect.links),
        RouteEffect("GET", "/links/{key}", Effect.link),
        RouteEffect("GET", "/groups/{name}", Effect.group),
        RouteEffect("GET", "/system", Effect.refused),
        RouteEffect("GET", "/node", Effect.refused),
        RouteEffect("GET", "/limits", Effect.refused),
        RouteEffect("GET", "/static/{name}", Effect.open),
        RouteEffect("GET", "/help", Effect.open),
        RouteEffect("GET", "/help/{topic}", Effect.open),
        RouteEffect("GET POST", "/login", Effect.open),
        RouteEffect("POST", "/logout", Effect.open),
        RouteEffect("GET", "/links/{key}/share", Effect.form),
        RouteEffect("GET", "/groups/{name}/share", Effect.form),
        RouteEffect("POST", "/links/{key}/share", Effect.typed),
        RouteEffect("POST", "/groups/{name}/share", Effect.typed),
        RouteEffect("GET", "/share/{signed}", Effect.open),
        *questions("/share/{signed}", Effect.open, "curve", "hours", *_BROKEN_DOWN, "visitors"),
        RouteEffect("GET", "/share/{signed}/curve.svg", Effect.open),
        RouteEffect("GET", "/share/{signed}/badge.svg", Effect.open),
    ),
    (
        # What pages load, the manual, and addresses that are signed.
        ScopeRule("GET", "/static/.*|/help|/help/.*|/share/.*|/login", None),
        ScopeRule("POST", "/login|/logout", None),
        ScopeRule("POST", "/(links|groups)/.+/share", None),  # it checks the token that is typed in it
    ),
)
