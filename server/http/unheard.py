"""Names in an answer the workers of this machine that were not heard for it.

What they have accepted and not flushed may be missing in it.
"""

from __future__ import annotations

from contextvars import ContextVar

from clickcurve.asgi import Application, Message, Receive, Scope, Send

HEADER = "Clickcurve-Unheard"
_unheard: ContextVar[set[str] | None] = ContextVar("unheard", default=None)


def note_unheard(journal: str) -> None:
    """Notes, for the answer to the request under way, that the worker of this journal was not heard."""
    names = _unheard.get()
    if names is not None:
        names.add(journal)


def some_unheard() -> bool:
    """Returns whether a worker was not heard for the request under way, so far."""
    return bool(_unheard.get())


def naming_unheard(app: Application) -> Application:
    """Makes answers of the application name the workers that were not heard."""

    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        names: set[str] = set()
        _unheard.set(names)

        async def send_named(message: Message) -> None:
            if names and message["type"] == "http.response.start":
                value = ", ".join(sorted(names)).encode()
                message = {**message, "headers": [*message["headers"], (HEADER.lower().encode(), value)]}
            await send(message)

        await app(scope, receive, send_named)

    return named
