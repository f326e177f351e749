"""The decision service: programs in other languages, and proxies, ask here whether a hit may pass.

The answer to a hit that is refused is its decision as well, under the status of the rule that refuses. A backend that
is down never makes a 5xx: each rule says what is done without it.

A proxy (nginx `auth_request`, Caddy and Traefik `forward_auth`) asks at `.../check`: with the header fields of the
client's request instead of a body, and answered by a status and header fields alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from clickcurve.asgi import SAFE, Answer, Scope, answer, read_bounded
from clickcurve.buckets.errors import ReservationEnded, ReservationUnknown
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.backend import Settled
from clickcurve.limiter.decision import Decision
from clickcurve.limiter.http.address import Addresses
from clickcurve.limiter.http.admission import decide_anyway, settle_anyway
from clickcurve.limiter.http.headers import fields
from clickcurve.limiter.http.json_shapes import (
    BODY_BYTES,
    ServiceQuestion,
    read_commit,
    read_question,
    show_decision,
    show_rules,
)
from clickcurve.limiter.http.middleware import encoded
from clickcurve.limiter.rule import Rule

_ASKED: dict[str, Any] = {
    "requestBody": {
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "ip": {"type": "string", "description": "An address; another text is taken as it is."},
                        "user": {"type": "string"},
                        "email": {"type": "string"},
                        "cost": {"type": "integer", "minimum": 1, "default": 1},
                        "peek": {"type": "boolean", "description": "Count nothing.", "default": False},
                        "explain": {"type": "boolean", "description": "Tell the buckets.", "default": False},
                        "reserve": {"type": "boolean", "description": "May be taken back.", "default": False},
                    },
                    "additionalProperties": {"type": "string"},
                },
                "example": {"ip": "203.0.113.7", "user": "ann"},
            }
        }
    }
}
_COMMIT: dict[str, Any] = {
    "requestBody": {
        "content": {
            "application/json": {
                "schema": {"type": "object", "properties": {"cost": {"type": "integer", "minimum": 0}}},
                "example": {"cost": 1},
            }
        }
    }
}
_DECISION = {
    "allowed": True,
    "rule": "login",
    "limit": 5,
    "remaining": 4,
    "retry_after_s": 0,
    "reset_at": 1772357460,
    "bound": [1, 1],
}
_SAID: dict[int | str, dict[str, Any]] = {
    200: {"description": "It may pass.", "content": {"application/json": {"example": _DECISION}}},
    404: {"description": "No rule is for this event; the answer names the events that have one."},
    413: {"description": f"A body of more than {BODY_BYTES} bytes."},
    429: {"description": "It may not pass now. The status is that of the rule; the body is the decision."},
}
_CHECKED: dict[int | str, dict[str, Any]] = {
    200: {"description": "It may pass. The answer is empty; its header fields say how much is left."},
    404: _SAID[404],
    429: {"description": "It may not pass now. The status is that of the rule; the answer is empty."},
}
_ENDED_SO = {"reservation": "1-3f8c0a52d9e14b7796f0c1b2a3d4e5f6", "state": "committed"}
_ENDED: dict[int | str, dict[str, Any]] = {
    200: {"description": "It is ended.", "content": {"application/json": {"example": _ENDED_SO}}},
    404: {"description": "No rule is for this event, or no reservation has this token, or it has expired."},
    409: {"description": "It was ended before."},
}


@dataclass(eq=False)
class DecisionService:
    """Answers questions to the limiter. dialect: of the headers; GitHub's puts its two fields into refusals as well."""

    limiter: AsyncLimiter
    addresses: Addresses
    dialect: str

    async def answer(self, event: str, body: bytes) -> Answer:
        """Decides the hit of an event that a body describes; raises EventUnknown, ParameterInvalid."""
        limiter = self.limiter
        limiter.events[event]
        asked = read_question(body)
        features = asked.features
        if "ip" in features:
            features = {**features, "ip": self.addresses.name(features["ip"])}
        decision, rules = await decide_anyway(
            limiter, asked.verb, event, features, asked.cost, caller=asked.caller, explain=asked.explain
        )
        return self._shown(decision, asked, rules)

    async def check(self, event: str, scope: Scope) -> Answer:
        """Decides a hit of an event that a request's header fields describe; raises EventUnknown, ParameterInvalid."""
        limiter = self.limiter
        features = self._features_of(limiter.events[event].rules, scope)
        decision, rules = await decide_anyway(limiter, "hit", event, features)
        shown = fields(self.dialect, decision, rules, limiter.events.now())
        headers = ((b"content-length", b"0"), *encoded(shown), *SAFE)
        status = 200 if decision.allowed else decision.rule.status
        return Answer(
            {"type": "http.response.start", "status": status, "headers": [*headers]},
            {"type": "http.response.body", "body": b""},
        )

    def _features_of(self, rules: Sequence[Rule], scope: Scope) -> dict[str, str]:
        """Returns the features that the fields named by the rules hold, and `ip` always, as the middleware has it."""
        named = {feature: header for rule in rules for feature, header in rule.headers}
        features = {"ip": self.addresses.client(scope, named.pop("ip", ""))}
        given = dict(scope["headers"])
        for feature, header in named.items():
            features[feature] = given.get(header.encode(), b"").decode("latin-1")
        return features

    def _shown(self, decision: Decision, asked: ServiceQuestion, rules: Sequence[Rule]) -> Answer:
        shown = show_decision(decision, asked.explain, self.dialect)
        if "message" in shown:
            shown["documentation_url"] = "/docs"
        headers = encoded(fields(self.dialect, decision, rules, self.limiter.events.now()))
        status = 200 if decision.allowed else decision.rule.status
        return answer(status, msgspec.json.encode(shown), more=(*headers, *SAFE))


def _response(result: Answer) -> Response:
    response = Response(result.body["body"], result.status)
    response.raw_headers = result.start["headers"]
    return response


def limit_routes(service: DecisionService) -> APIRouter:
    """Makes the router of the decision service."""
    router, limiter = APIRouter(tags=["limits"]), service.limiter

    @router.post("/v1/limit/{event}", summary="Decide whether a hit may pass", responses=_SAID, openapi_extra=_ASKED)
    async def hit(event: str, request: Request) -> Response:
        """Decides a hit of the event under all of its rules, and counts it if it may pass. The body has the features
        that the rules ask for, as text, and `cost`, `peek`, `explain` and `reserve` if they are wanted."""
        limiter.events[event]
        return _response(await service.answer(event, await read_bounded(request.stream(), BODY_BYTES)))

    @router.get("/v1/limit/{event}/check", summary="Decide whether a request to a proxy may pass", responses=_CHECKED)
    @router.post("/v1/limit/{event}/check", summary="Decide whether a request to a proxy may pass", responses=_CHECKED)
    async def check(event: str, request: Request) -> Response:
        """Decides a hit of the event and counts it if it may pass, as POST /v1/limit/{event} does. The features are in
        the header fields that the rules name (`headers`); `ip` is the caller's address. The body is ignored."""
        return _response(await service.check(event, request.scope))

    @router.post(
        "/v1/limit/{event}/{reservation}/commit",
        summary="Confirm a reservation",
        responses=_ENDED,
        openapi_extra=_COMMIT,
    )
    async def commit(event: str, reservation: str, request: Request) -> Response:
        """Ends a reservation: it stays counted. With a `cost`, only so much of it does."""
        return await ended(
            event, reservation, read_commit(await read_bounded(request.stream(), BODY_BYTES)), "committed"
        )

    @router.post("/v1/limit/{event}/{reservation}/cancel", summary="Cancel a reservation", responses=_ENDED)
    async def cancel(event: str, reservation: str) -> Response:
        """Ends a reservation: it is taken out of the very buckets that it was counted in."""
        return await ended(event, reservation, 0, "cancelled")

    @router.get("/v1/limits", summary="List the rules")
    async def rules() -> Response:
        """Every rule, in the words of the settings file."""
        return JSONResponse({"limits": show_rules(limiter.events.rules())})

    async def ended(event: str, reservation: str, keep: int | None, state: str) -> Response:
        limiter.events[event]
        how = await settle_anyway(limiter, event, reservation, keep)
        if how is None:
            return JSONResponse({"reservation": reservation, "state": "unknown", "fallback": True, "blind": True})
        if how is Settled.unknown:
            detail = "there is no such reservation, or its windows are over"
            raise ReservationUnknown(detail, field="reservation", value=reservation[:80])
        if how is Settled.ended:
            detail = "this reservation was committed or cancelled before"
            raise ReservationEnded(detail, field="reservation", value=reservation[:80])
        return JSONResponse({"reservation": reservation, "state": state})

    return router
