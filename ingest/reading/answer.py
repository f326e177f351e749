"""HTTP answers as plain values, and errors as `application/problem+json`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from clickcurve.buckets.errors import ClickcurveError
from ingest.hit import shown

Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]

_RETRY_AFTER_S = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer; the messages are what ASGI sends, made once."""

    start: dict[str, Any]
    body: dict[str, Any]

    @property
    def status(self) -> int:
        return int(self.start["status"])

    async def send(self, send: Send) -> None:
        await send(self.start)
        await send(self.body)


def answer(status: int, body: bytes, content_type: bytes = b"application/json", more: Headers = ()) -> Answer:
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *more]
    return Answer(
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
    )


def problem(error: ClickcurveError, more: Headers = ()) -> Answer:
    """The error as its answer. 429 and 503 carry Retry-After: nothing was counted, so the request may be repeated."""
    if error.status in (429, 503):
        more = (*more, (b"retry-after", b"%d" % getattr(error, "retry_after_s", _RETRY_AFTER_S)))
    members = {"field": error.field, "value": shown(error.value), "rule": error.rule}
    return problem_answer(error.status, error.title, error.detail, more, **members)


def problem_answer(
    status: int, title: str, detail: str, more: Headers = (), **members: str | int | float | bool | None
) -> Answer:
    """Members that are None are left out."""
    given = {name: value for name, value in members.items() if value is not None}
    body = msgspec.json.encode({"title": title, "status": status, "detail": detail, **given})
    return answer(status, body, b"application/problem+json", more)


async def close_unanswered(send: Send) -> None:
    """Make the server close the connection without an answer. The caller raises afterwards.

    ASGI has no word for it, and a plain exception becomes a 500, which would say that nothing was counted. A start
    with a status that does not exist is refused by the server before it has written a byte; as an answer that has
    started cannot become a 500 any more, the server closes the connection.
    """
    with suppress(Exception):
        await send({"type": "http.response.start", "status": 0, "headers": []})
