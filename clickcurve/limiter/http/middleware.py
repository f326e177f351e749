"""Limits for any ASGI application, without a web framework.

    app = RateLimit(app, limiter, "url_shorten", features=lambda scope: {"user": user_of(scope)})

Only requests that write (POST, PUT, PATCH, DELETE) and those that open a web socket (WEBSOCKET) are limited unless
`methods` says otherwise. A refused one is answered here, before its body is read; all others carry how much is left,
redirects excepted. A web socket is one hit, whatever passes over it.

With `only`, just answers of some kind count, such as failed logins (`only=is_failure`). The hit is reserved while
the application works, and cancelled where its answer does not count: a burst of attempts cannot pass together.

A backend that cannot answer never makes a 5xx: see `clickcurve.limiter.http.admission`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from clickcurve.asgi import Application, Message, Receive, Scope, Send
from clickcurve.limiter.async_limiter import AsyncLimiter
from clickcurve.limiter.events import Features
from clickcurve.limiter.http.address import Addresses
from clickcurve.limiter.http.admission import LIMITED, Admission, Pass
from clickcurve.limiter.http.headers import Fields, HttpRefusal, may_carry_limits

OPENED = 101  # the status of a web socket that is opened
_DENIED = 403  # what servers answer where an application closes a web socket that is not open yet
_POLICY_VIOLATION = 1008  # of the codes with which web sockets are closed (RFC 6455)
_RESPONSE = "websocket.http.response"  # the extension by which a web socket is refused with a whole answer


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
        features: Callable[[Scope], Features | Awaitable[Features]] | None = None,
        methods: Collection[str] = LIMITED,
        cost: int = 1,
        dialect: str = "x",
        addresses: Addresses | None = None,
        only: Callable[[int], bool] | None = None,
        documentation_url: str = "",
    ) -> None:
        self._app = app
        self._only = only
        self._admission = Admission(
            limiter,
            event,
            features=features,
            methods=methods,
            cost=cost,
            dialect=dialect,
            addresses=addresses,
            only_failures=only is not None,
            documentation_url=documentation_url,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        decided = await self._admission.decide(scope, scope)
        if decided is None:
            await self._app(scope, receive, send)
        elif isinstance(decided, HttpRefusal):
            if scope["type"] == "websocket":
                await _refuse_socket(decided, scope, receive, send)
            else:
                await send_refusal(decided, send)
        elif self._only is None or decided.decision.reservation is None:
            await self._app(scope, receive, _with_fields(send, decided.shown))
        else:
            await self._hold(decided, self._only, (scope, receive, send))

    async def _hold(self, passed: Pass, counts: Callable[[int], bool], request: tuple[Scope, Receive, Send]) -> None:
        """Lets the application answer, and cancels the hit first if that answer does not count. No answer counts."""
        scope, receive, send = request
        keep: int | None = None
        ended = False

        async def sending(message: Message) -> None:
            nonlocal keep, ended
            status = _status_of(message)
            if status is not None and not ended:
                ended = True
                keep = None if counts(status) else 0
                await self._admission.settle(passed, keep)
            # How much was left is shown only where it still holds.
            await (showing if keep is None else send)(message)

        showing = _with_fields(send, passed.shown)
        try:
            await self._app(scope, receive, sending)
        finally:
            if not ended:
                await self._admission.settle(passed, None)


def _status_of(message: Message) -> int | None:
    """Returns the status of the answer that a message begins; None if it begins none."""
    kind = message["type"]
    if kind in ("http.response.start", f"{_RESPONSE}.start"):
        return int(message["status"])
    return {"websocket.accept": OPENED, "websocket.close": _DENIED}.get(kind)


def _with_fields(send: Send, shown: Fields) -> Send:
    """Returns a `send` that adds these fields to an answer that may have them; its own fields stay."""

    async def sending(message: Message) -> None:
        status = _status_of(message)
        if status is not None and message["type"] != "websocket.close" and may_carry_limits(status):
            own = list(message.get("headers", ()))
            taken = {bytes(name).lower() for name, _ in own}
            more = [(name, value) for name, value in encoded(shown) if name not in taken]
            message = {**message, "headers": [*own, *more]}
        await send(message)

    return sending


async def _refuse_socket(refused: HttpRefusal, scope: Scope, receive: Receive, send: Send) -> None:
    """Refuses to open a web socket: with the whole answer where the server can send it, which else answers 403."""
    await receive()  # websocket.connect
    if _RESPONSE not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    await send({"type": f"{_RESPONSE}.start", "status": refused.status, "headers": encoded(refused.fields)})
    await send({"type": f"{_RESPONSE}.body", "body": refused.body})


async def send_refusal(refused: HttpRefusal, send: Send, *more: tuple[bytes, bytes]) -> None:
    """Sends a whole answer."""
    headers = [*encoded(refused.fields), *more]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": refused.body})


def encoded(shown: Fields) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in shown]
