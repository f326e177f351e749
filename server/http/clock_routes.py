"""Route by which an operator says that the system's clock is right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter
from fastapi.responses import Response

from clickcurve.routes import json_answer
from query.http.openapi import describe_route
from server.clock import TrustedClock
from server.tokens.audit import AuditLog
from server.tokens.route_access import Effect, RouteAccess, RouteEffect, ScopeRule
from server.tokens.token import Scope

_ACCEPT = describe_route(
    "Accept the system's clock",
    "The server goes by the system's clock from now on, also for what cannot be undone. `moved_s`: by how much its time"
    " has moved",
)


ACCESS = RouteAccess(
    (RouteEffect("POST", "/v1/clock/accept", Effect.admin),),
    (ScopeRule("", "/v1/clock.*", Scope.admin),),
)


def clock_routes(accept: Callable[[], Awaitable[float]], trusted: TrustedClock, audit: AuditLog) -> APIRouter:
    """Makes the router. accept: takes the system's time, and returns by how much the server's moved."""
    router = APIRouter(tags=["administering"])

    @router.post("/v1/clock/accept", **_ACCEPT)
    async def accept_clock() -> Response:
        """After a jump of that clock which is right, such as of a machine that stood still: nothing waits for it then.

        Each server of a cluster has a clock of its own.
        """
        status = trusted.status()
        await audit.note_request("clock accepted", f"{status.off_s:+.0f} s, {status.state}")
        moved_s = await accept()
        return json_answer({"clock": trusted.status().state, "moved_s": round(moved_s, 3), "now": int(trusted.now())})

    return router
