"""Limits for single routes of a FastAPI application, with the meanings of `clickcurve.limiter.http.middleware`.

    app = FastAPI()
    install(app)

    @app.post("/links", dependencies=[Depends(Limited(limiter, "url_shorten"))])
    async def shorten(...): ...

The dependency yields what it decided, so that a route may ask, and a route that is `only_failures` may say that it
failed. An exception that leaves the route, an HTTPException too, is a failure by itself:

    @app.post("/login")
    async def login(attempt: Annotated[Attempt | None, Depends(Limited(limiter, "login", only_failures=True))]): ...

FastAPI cancels a reservation after the answer is sent; with `Depends(..., scope="function")` it does so before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from clickcurve.limiter.events import Attempt
from clickcurve.limiter.http.admission import Admission
from clickcurve.limiter.http.headers import HttpRefusal, may_carry_limits


class Refused(HTTPException):
    """A hit that is not allowed, or whose caller has no name.

    Without `install` FastAPI answers it, with the same status and headers but another body.
    """

    def __init__(self, refused: HttpRefusal) -> None:
        headers = {name: value for name, value in refused.fields if not name.startswith("Content-")}
        super().__init__(refused.status, refused.detail, headers)
        self.refused = refused


class Limited(Admission[Request]):
    """A dependency; the parameters are those of `RateLimit`, but `features` is a function of the request.

    only_failures: a hit counts only if its route fails.
    """

    async def __call__(self, request: Request, response: Response) -> AsyncIterator[Attempt | None]:
        """Yields None where nothing is limited: another method, or an event that has no rule any more."""
        decided = await self.decide(request.scope, request)
        if isinstance(decided, HttpRefusal):
            raise Refused(decided)
        if decided is None:
            yield None
            return
        attempt = Attempt(decided.decision)
        if not self.reserves and not _redirects(request.scope.get("route")):
            response.headers.update(dict(decided.shown))
        try:
            yield attempt
        except BaseException:
            attempt.fail()
            raise
        finally:
            await self.settle(decided, attempt.keep)


def install(app: FastAPI) -> None:
    """Makes refusals of this application whole answers in their dialect: a problem document, or GitHub's body."""

    async def on_refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return Response(error.refused.body, error.refused.status, dict(error.refused.fields))

    app.add_exception_handler(Refused, on_refused)


def _redirects(route: Any) -> bool:
    kind = getattr(route, "response_class", None)
    if isinstance(kind, type) and issubclass(kind, RedirectResponse):
        return True
    return not may_carry_limits(getattr(route, "status_code", None) or 200)
