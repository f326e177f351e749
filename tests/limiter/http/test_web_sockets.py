"""Opening a web socket is a hit like any other: counted, told, and refused before the application hears of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clickcurve.asgi import Message, Receive, Scope, Send
from clickcurve.limiter.http.middleware import RateLimit, is_failure
from tests.limiter.http.asgi import ANN, limiter

TWO = {"talk": {"by": "ip", "rates": "2/m", "strategy": "fixed"}}
WHOLE_ANSWERS: dict[str, Any] = {"websocket.http.response": {}}


class Talk:
    """Opens each web socket, or closes it unopened; counts those that reach it."""

    def __init__(self, opens: bool = True) -> None:
        self.opens = opens
        self.asked = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        assert (await receive())["type"] == "websocket.connect"
        if self.opens:
            await send({"type": "websocket.accept", "headers": [(b"x-own", b"1")]})
            await send({"type": "websocket.send", "text": "hello"})
        await send({"type": "websocket.close", "code": 1000})


def opened(app: RateLimit, extensions: dict[str, Any] | None = None) -> list[Message]:
    """What the server is told when one client asks for a web socket."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {"type": "websocket", "path": "/", "headers": [], "client": (ANN, 1), "extensions": extensions}
    asyncio.run(app(scope, receive, send))
    return sent


def test_opening_counts_once_whatever_passes_over_it_and_says_how_much_is_left() -> None:
    app = RateLimit(Talk(), limiter(TWO), "talk")
    first, second = opened(app), opened(app)
    assert [message["type"] for message in first] == ["websocket.accept", "websocket.send", "websocket.close"]
    left = [dict(messages[0]["headers"])[b"x-ratelimit-remaining"] for messages in (first, second)]
    assert left == [b"1", b"0"]
    assert dict(first[0]["headers"])[b"x-own"] == b"1"


def test_a_refusal_is_a_whole_answer_where_the_server_can_send_one() -> None:
    inner = Talk()
    app = RateLimit(inner, limiter(TWO), "talk")
    for _ in range(2):
        opened(app)
    start, body = opened(app, WHOLE_ANSWERS)
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 429)
    assert b"retry-after" in dict(start["headers"])
    assert b"rate limit exceeded" in body["body"]
    assert inner.asked == 2


def test_else_it_is_closed_unopened_which_servers_answer_with_403() -> None:
    app = RateLimit(Talk(), limiter(TWO), "talk")
    for _ in range(2):
        opened(app)
    assert opened(app) == [{"type": "websocket.close", "code": 1008}]


def test_only_those_that_the_application_turns_away_count_where_it_is_told_so() -> None:
    opening = RateLimit(Talk(), limiter(TWO), "talk", only=is_failure)
    assert all(opened(opening)[0]["type"] == "websocket.accept" for _ in range(4))
    closing = RateLimit(Talk(opens=False), limiter(TWO), "talk", only=is_failure)
    closed = [opened(closing, WHOLE_ANSWERS)[0]["type"] for _ in range(3)]
    assert closed == ["websocket.close", "websocket.close", "websocket.http.response.start"]


@pytest.mark.parametrize(("methods", "limited"), [(["POST"], False), (["WEBSOCKET"], True)])
def test_methods_say_whether_they_are_limited(methods: list[str], limited: bool) -> None:
    app = RateLimit(Talk(), limiter(TWO), "talk", methods=methods)
    third = [opened(app) for _ in range(3)][2]
    assert (third[0]["type"] == "websocket.close") is limited
