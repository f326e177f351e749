"""ASGI as types, and a whole answer as a plain value.

Written down once, so that what is answered in front of the web framework needs no framework.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from clickcurve.buckets.errors import BodyTooLarge

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

# Of every answer but a receipt of hits: they change with each hit and hold text of strangers, so none is kept, and none
# is taken for another type than it says.
SAFE: Headers = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
FIELDS = "clickcurve.fields"  # the header fields by name, in the scope of a connection that has made that dict already


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer; the messages are what ASGI sends, made once."""

    start: Message
    body: Message

    @property
    def status(self) -> int:
        return int(self.start["status"])

    async def send(self, send: Send) -> None:
        await send(self.start)
        await send(self.body)


def answer(status: int, body: bytes, content_type: bytes = b"application/json", more: Headers = ()) -> Answer:
    """Makes an answer with its length; `more` are further headers, names in lower case."""
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *more]
    return Answer(
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
    )


async def read_bounded(pieces: AsyncGenerator[bytes, None], most_bytes: int) -> bytes:
    """Reads a whole body, and closes it. Raises BodyTooLarge as soon as it has more than so many bytes."""
    body = bytearray()
    async with aclosing(pieces):
        async for piece in pieces:
            body += piece
            if len(body) > most_bytes:
                raise BodyTooLarge(f"the body has more than {most_bytes:,} bytes", rule=f"at most {most_bytes:,} bytes")
    return bytes(body)


async def close_unanswered(send: Send) -> None:
    """Makes the server close the connection without an answer. The caller raises afterwards.

    ASGI has no word for it, and a plain exception becomes a 500, which would say that nothing was counted. A start
    with a status that does not exist is refused by the server before it has written a byte; as an answer that has
    started cannot become a 500 any more, the server closes the connection.
    """
    with suppress(Exception):
        await send({"type": "http.response.start", "status": 0, "headers": []})
