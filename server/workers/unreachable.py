"""Names in an answer the workers of this machine that could not be reached for it.

What they have accepted and not flushed may be missing in the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from clickcurve.asgi import Answer, Application, Headers, Message, Receive, Scope, Send

HEADER = "Clickcurve-Unreachable-Workers"
OLD_HEADER = "Clickcurve-Unheard"  # its name until 0.2; sent beside it for one version
Ask = Callable[[str, bytes], Awaitable[Answer]]  # as of a fast route
# Of the request under way. Between the worker that does not answer and the head of the answer lie the store's reader,
# the questions and their encoders, none of which has any use for it.
_unreachable: ContextVar[set[str] | None] = ContextVar("unreachable", default=None)


def note_unreachable(journal: str) -> None:
    """Notes, for the answer to the request under way, that the worker of this journal was not reached."""
    names = _unreachable.get()
    if names is not None:
        names.add(journal)


def some_unreachable() -> bool:
    """Returns whether a worker was not reached for the request under way, so far."""
    return bool(_unreachable.get())


def naming_unreachable(app: Application) -> Application:
    """Makes answers of the application name the workers that were not reached."""
    named = naming_noted(app)

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        _unreachable.set(set())
        await named(scope, receive, send)

    return noting


def naming_noted(app: Application) -> Application:
    """Makes an answer name the workers that are noted as unreachable for the request under way."""

    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start" and (fields := _fields()):
                message = {**message, "headers": [*message["headers"], *fields]}
            await send(message)

        await app(scope, receive, send_named)

    return named


def asking_all(ask: Ask) -> Ask:
    """Makes answers of a fast route name the workers that were not reached; its errors are left to `naming_noted`."""

    async def named(name: str, body: bytes) -> Answer:
        _unreachable.set(set())
        answer = await ask(name, body)
        fields = _fields()
        if not fields:
            return answer
        return Answer({**answer.start, "headers": [*answer.start["headers"], *fields]}, answer.body)

    return named


def _fields() -> Headers:
    names = ", ".join(sorted(_unreachable.get() or ())).encode()
    return tuple((header.lower().encode(), names) for header in (HEADER, OLD_HEADER)) if names else ()
