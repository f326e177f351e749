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

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from inspect import isawaitable
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from clickcurve.buckets.errors import EventUnknown, ParameterInvalid
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.events import Attempt
from clickcurve.limiter.http.address import Addresses
from clickcurve.limiter.http.fallback import Verb, decide_anyway, settle_anyway
from clickcurve.limiter.http.headers import HttpRefusal, check_dialect, fields, http_refusal, may_carry_limits, sentence
from clickcurve.limiter.http.middleware import WRITES, Given


class Refused(HTTPException):
    """A hit that is not allowed.

    Without `install` FastAPI answers it, with the same status and headers but another body.
    """

    def __init__(self, refused: HttpRefusal, detail: str) -> None:
        headers = {name: value for name, value in refused.fields if not name.startswith("Content-")}
        super().__init__(refused.status, detail, headers)
        self.refused = refused


class Limited:
    """A dependency; the parameters are those of `RateLimit`, but `features` is a function of the request."""

    def __init__(
        self,
        limiter: AsyncLimiter,
        event: str,
        *,
        features: Callable[[Request], Given | Awaitable[Given]] | None = None,
        methods: Collection[str] = WRITES,
        cost: int = 1,
        dialect: str = "x",
        addresses: Addresses | None = None,
        only_failures: bool = False,
        documentation_url: str = "",
    ) -> None:
        limiter.events[event]
        self._limiter = limiter
        self._event = event
        self._features = features
        self._methods = frozenset(methods)
        self._cost = cost
        self._dialect = check_dialect(dialect)
        self._addresses = addresses or Addresses()
        self._only_failures = only_failures
        self._documentation_url = documentation_url

    async def __call__(self, request: Request, response: Response) -> AsyncIterator[Attempt | None]:
        """Yields None where nothing is limited: another method, or an event that has no rule any more."""
        attempt = await self._admit(request, response) if request.method in self._methods else None
        if attempt is None or attempt.reservation is None:
            yield attempt
            return
        try:
            yield attempt
        except BaseException:
            attempt.fail()
            raise
        finally:
            await settle_anyway(self._limiter, self._event, attempt.reservation, attempt.keep)

    async def _admit(self, request: Request, response: Response) -> Attempt | None:
        try:
            self._limiter.events[self._event]
        except EventUnknown:
            return None
        given: dict[str, str] = {"ip": self._addresses.client(request.scope), **await self._given(request)}
        try:
            verb: Verb = "reserve" if self._only_failures else "hit"
            rules = self._limiter.events.of(self._event, given).rules
            decision = await decide_anyway(self._limiter, verb, self._event, given, self._cost)
        except ParameterInvalid as error:
            raise HTTPException(error.status, error.detail) from error
        now = self._limiter.events.now()
        if not decision.allowed:
            refused = http_refusal(self._dialect, decision, rules, now, self._documentation_url)
            raise Refused(refused, sentence(decision))
        if not self._only_failures and not _redirects(request.scope.get("route")):
            response.headers.update(dict(fields(self._dialect, decision, rules, now)))
        return Attempt(decision)

    async def _given(self, request: Request) -> Given:
        if self._features is None:
            return {}
        given = self._features(request)
        return await given if isawaitable(given) else given


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
