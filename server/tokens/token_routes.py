"""`/v1/tokens`: tokens made, listed and revoked, with one of scope admin; and `/v1/audit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from clickcurve.asgi import read_bounded
from clickcurve.buckets.errors import BodyUnreadable, ClickcurveError, ParameterInvalid
from clickcurve.routes import json_answer
from clickcurve.times import parse_time, require_in_range
from clickcurve.waiting import in_thread
from query.http.openapi import TEXT, describe_route
from server.tokens.audit import AuditLog
from server.tokens.known_tokens import KnownTokens
from server.tokens.route_access import Effect, RouteAccess, RouteEffect, ScopeRule
from server.tokens.token import Scope, Token, TokenRequest

_BODY_BYTES = 16 * 1024
_EXAMPLE = {"name": "acme", "scopes": ["write", "read"], "prefix": "acme/", "group": "acme", "expires_at": 1798761600}


ACCESS = RouteAccess(
    (
        RouteEffect("GET POST", "/v1/tokens", Effect.admin),
        RouteEffect("DELETE", "/v1/tokens/{id}", Effect.admin),
        RouteEffect("GET", "/v1/audit", Effect.admin),
    ),
    (ScopeRule("", "/v1/(tokens|audit).*", Scope.admin),),
)


class TokenUnknown(ClickcurveError, status=404, title="unknown token"):
    """There is no token with this id in the store."""


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/tokens`, whose expiry may be written as any time."""

    name: str
    scopes: tuple[Scope, ...]
    prefix: str | None = None
    group: str | None = None
    expires_at: int | float | str | None = None

    def token_request(self) -> TokenRequest:
        """Returns the request; raises ParameterInvalid for an expiry that is no time."""
        expires_at = None if self.expires_at is None else _time_of(str(self.expires_at))
        return TokenRequest(self.name, self.scopes, self.prefix, self.group, expires_at)


def _time_of(text: str) -> int:
    return require_in_range("expires_at", text, parse_time("expires_at", text).utc_s)


_read_asked = msgspec.json.Decoder(_Asked).decode


_MAYBE: dict[str, Any] = {"type": ["string", "null"]}
_BODY = {
    "type": "object",
    "required": ["name", "scopes"],
    "additionalProperties": False,
    "properties": {
        "name": TEXT,
        "scopes": {"type": "array", "items": {"type": "string", "enum": [*Scope]}, "minItems": 1},
        "prefix": _MAYBE,
        "group": _MAYBE,
        "expires_at": {"type": ["integer", "string", "null"]},
    },
}
_ID = {"name": "id", "in": "path", "required": True, "description": "The id of a token", "schema": TEXT}
_MAKE = describe_route(
    "Make a token",
    "Made. `token` is shown only here",
    {400: "The body cannot be read", 413: f"More than {_BODY_BYTES:,} bytes"},
    status=201,
    body={"schema": _BODY, "example": _EXAMPLE},
)
_LIST = describe_route("List the tokens", "All tokens of the store, without the tokens themselves")
_REVOKE = describe_route(
    "Revoke a token", "Revoked", {404: "The store has no token with this id"}, status=204, parameters=[_ID]
)
_AUDIT = describe_route("List what administrators did", "Entries of the last 400 days, oldest first")


def token_routes(
    tokens: KnownTokens, audit: AuditLog, clock: Callable[[], float], careful: Callable[[], float]
) -> APIRouter:
    """Makes the router. clock: epoch seconds. careful: the time that old tokens are dropped by."""
    router = APIRouter(tags=["administering"])
    book = tokens.book

    @router.post("/v1/tokens", **_MAKE)
    async def make(request: Request) -> Response:
        """With `prefix`, it touches keys that begin so and nothing else; `group` counts every hit that it writes."""
        asked = _request_in(await read_bounded(request.stream(), _BODY_BYTES)).checked(clock())
        await audit.note_request("token made", asked.name if asked.prefix is None else f"{asked.name} {asked.prefix}")
        token, secret = await in_thread("writing a token", book.add, asked, int(clock()), int(careful()))
        await tokens.refresh()
        return json_answer({"token": secret, **listed(token, None)}, 201)

    @router.get("/v1/tokens", **_LIST)
    async def list_all() -> Response:
        tokens, used = await in_thread("reading tokens", lambda: (book.all(), book.last_used()))
        return json_answer({"tokens": [listed(token, used.get(token.id)) for token in tokens]})

    @router.delete("/v1/tokens/{id}", **_REVOKE)
    async def revoke(request: Request) -> Response:
        token_id = str(request.path_params["id"])
        if all(token.id != token_id for token in await in_thread("reading tokens", book.all)):
            detail = "the store has no token with this id"
            raise TokenUnknown(detail, field="id", value=token_id, rule="an id of GET /v1/tokens")
        await audit.note_request("token revoked", token_id)
        await in_thread("revoking a token", book.remove, token_id)
        await tokens.refresh()
        return Response(status_code=204)

    @router.get("/v1/audit", **_AUDIT)
    async def audited() -> Response:
        return await in_thread("reading the audit log", lambda: json_answer({"entries": list(audit.entries())}))

    return router


def listed(token: Token, last_used: str | None) -> dict[str, Any]:
    """Returns a token as lists show it. last_used: the day (UTC), as 20261123."""
    hidden = {"sha256", "from_file"}
    shown_fields = {name: value for name, value in msgspec.to_builtins(token).items() if name not in hidden}
    return {**shown_fields, "last_used": last_used}


def _request_in(body: bytes) -> TokenRequest:
    try:
        return _read_asked(body).token_request()
    except msgspec.ValidationError as error:
        raise ParameterInvalid(f"the token cannot be made: {error}", field="body", rule=str(_EXAMPLE)) from None
    except msgspec.DecodeError:
        raise BodyUnreadable("the body is not JSON", rule=str(_EXAMPLE)) from None
