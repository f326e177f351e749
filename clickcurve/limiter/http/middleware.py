"""Limits for any ASGI application, without a web framework.

    app = RateLimit(app, limiter, "url_shorten", features=lambda scope: {"user": user_of(scope)})

Only requests that write (POST, PUT, PATCH, DELETE) are limited unless `methods` says otherwise. A refused one is
answered here, before its body is read; all others carry how much is left, redirects excepted.

With `only`, just answers of some kind count, such as failed logins (`only=is_failure`). The hit is reserved while
the application works, and cancelled where its answer does not count: a burst of attempts cannot pass together.

A backend that cannot answer never makes a 5xx: see `clickcurve.limiter.http.fallback`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from inspect import isawaitable
from typing import TypeAlias

from clickcurve.asgi import Application, Message, Receive, Scope, Send
from clickcurve.buckets.errors import EventUnknown, ParameterInvalid
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.http.address import Addresses
from clickcurve.limiter.http.fallback import Verb, decide_anyway, settle_anyway
from clickcurve.limiter.http.headers import Fields, HttpRefusal, check_dialect, fields, http_refusal, may_carry_limits
from clickcurve.problem import MEDIA_TYPE, problem_body

Given: TypeAlias = Mapping[str, str]

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def is_failure(status: int) -> bool:
    return status >= 400


class RateLimit:
    """The application with limits in front of it.

    event: the event of each request, or a function of the ASGI scope that names it; None, and an event that has no
    rule any more, are not limited. features: a function of the scope, which may be awaited; `ip` is always added. cost:
    of each hit. only: which statuses count. A request without the features that the event's rules ask for is answered
    422.
    """

    def __init__(
        self,
        app: Application,
        limiter: AsyncLimiter,
        event: str | Callable[[Scope], str | None],
        *,
        features: Callable[[Scope], Given | Awaitable[Given]] | None = None,
        methods: Collection[str] = WRITES,
        cost: int = 1,
        dialect: str = "x",
        addresses: Addresses | None = None,
        only: Callable[[int], bool] | None = None,
        documentation_url: str = "",
    ) -> None:
        if isinstance(event, str):
            limiter.events[event]  # a name that nobody knows is an error now, not with the first request
        self._app = app
        self._limiter = limiter
        self._event = event
        self._features = features
        self._methods = frozenset(methods)
        self._cost = cost
        self._dialect = check_dialect(dialect)
        self._addresses = addresses or Addresses()
        self._only = only
        self._documentation_url = documentation_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        event = None
        if scope["type"] == "http" and scope["method"] in self._methods:
            event = self._event if isinstance(self._event, str) else self._event(scope)
        if event is None:
            await self._app(scope, receive, send)
            return
        try:
            self._limiter.events[event]
        except EventUnknown:
            await self._app(scope, receive, send)
            return
        given: dict[str, str] = {"ip": self._addresses.client(scope), **await self._given(scope)}
        try:
            verb: Verb = "hit" if self._only is None else "reserve"
            rules = self._limiter.events.of(event, given).rules
            decision = await decide_anyway(self._limiter, verb, event, given, self._cost)
        except ParameterInvalid as error:
            await send_refusal(_unnamed_caller(error), send)
            return
        now = self._limiter.events.now()
        if not decision.allowed:
            await send_refusal(http_refusal(self._dialect, decision, rules, now, self._documentation_url), send)
            return
        shown = fields(self._dialect, decision, rules, now)
        if self._only is None or decision.reservation is None:
            await self._app(scope, receive, _with_fields(send, shown))
        else:
            await self._hold(event, decision.reservation, self._only, shown, (scope, receive, send))

    async def _given(self, scope: Scope) -> Given:
        if self._features is None:
            return {}
        given = self._features(scope)
        return await given if isawaitable(given) else given

    async def _hold(
        self,
        event: str,
        reservation: str,
        counts: Callable[[int], bool],
        shown: Fields,
        request: tuple[Scope, Receive, Send],
    ) -> None:
        """Lets the application answer, and cancels the hit first if that answer does not count. No answer counts."""
        scope, receive, send = request
        settle: int | None = None
        ended = False

        async def sending(message: Message) -> None:
            nonlocal settle, ended
            if message["type"] == "http.response.start" and not ended:
                ended = True
                settle = None if counts(message["status"]) else 0
                await settle_anyway(self._limiter, event, reservation, settle)
            # How much was left is shown only where it still holds.
            await (showing if settle is None else send)(message)

        showing = _with_fields(send, shown)
        try:
            await self._app(scope, receive, sending)
        finally:
            if not ended:
                await settle_anyway(self._limiter, event, reservation, None)


def _with_fields(send: Send, shown: Fields) -> Send:
    """Returns a `send` that adds these fields to an answer that may have them; its own fields stay."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and may_carry_limits(message["status"]):
            own = list(message.get("headers", ()))
            taken = {bytes(name).lower() for name, _ in own}
            more = [(name, value) for name, value in encoded(shown) if name not in taken]
            message = {**message, "headers": [*own, *more]}
        await send(message)

    return sending


async def send_refusal(refused: HttpRefusal, send: Send, *more: tuple[bytes, bytes]) -> None:
    """Sends a whole answer."""
    headers = [*encoded(refused.fields), *more]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": refused.body})


def encoded(shown: Fields) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in shown]


def _unnamed_caller(error: ParameterInvalid) -> HttpRefusal:
    """Returns the answer to a caller without the features that the rules ask for."""
    content = problem_body(error.status, error.title, error.detail, field=error.field)
    return HttpRefusal(error.status, [("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(content)))], content)
