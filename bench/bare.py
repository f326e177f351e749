"""The yardstick: an ASGI callable that answers 200 with the body it was told to answer, and does nothing else.

BARE_BODY is the body, BARE_TYPE its content type. It runs under the same server, loop and parser as Clickcurve.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

Message = dict[str, Any]
BODY = os.environ.get("BARE_BODY", "{}").encode()
HEADERS = [
    (b"content-type", os.environ.get("BARE_TYPE", "application/json").encode()),
    (b"content-length", str(len(BODY)).encode()),
]
START: Message = {"type": "http.response.start", "status": 200, "headers": HEADERS}
END: Message = {"type": "http.response.body", "body": BODY}


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    await send(START)
    await send(END)
