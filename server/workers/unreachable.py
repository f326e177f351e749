"""Names in an answer the workers of this machine that were not heard for it.

What they have accepted and not flushed may be missing in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from clickcurve.asgi import Answer, Application, Headers, Message, Receive, Scope, Send

HEADER = "Clickcurve-Unheard"
Ask = Callable[[str, bytes], Awaitable[Answer]]  # as of a fast route
_unheard: ContextVar[set[str] | None] = ContextVar("unheard", default=None)


def note_unreachable(journal: str) -> None:
    """Notes, for the answer to the request under way, that the worker of this journal was not heard."""
    names = _unheard.get()
    if names is not None:
        names.add(journal)


def some_unreachable() -> bool:
    """Returns whether a worker was not heard for the request under way, so far."""
    return bool(_unheard.get())


def naming_unreachable(app: Application) -> Application:
    """Makes answers of the application name the workers that were not heard."""
    named = naming_noted(app)

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        _unheard.set(set())
        await named(scope, receive, send)

    return noting


def naming_noted(app: Application) -> Application:
    """Makes an answer name the workers that are noted as unheard for the request under way."""

    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start" and (field := _field()):
                message = {**message, "headers": [*message["headers"], *field]}
            await send(message)

        await app(scope, receive, send_named)

    return named


def asking_all(ask: Ask) -> Ask:
    """Makes answers of a fast route name the workers that were not heard; its errors are left to `naming_noted`."""

    async def named(name: str, body: bytes) -> Answer:
        _unheard.set(set())
        found = await ask(name, body)
        field = _field()
        return Answer({**found.start, "headers": [*found.start["headers"], *field]}, found.body) if field else found

    return named


def _field() -> Headers:
    names = _unheard.get()
    return ((HEADER.lower().encode(), ", ".join(sorted(names)).encode()),) if names else ()
