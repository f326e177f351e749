"""`clickcurve` whose server also decides, by a limiter in the worker: POST /decide/{event}/{cost}?{ip} is 200 or 429.

The limiter tells the worker's history, as any limiter of the server does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ratelimit.async_limiter import AsyncLimiter
from ratelimit.rule import parse_rules
from server import clock, worker
from server.cli.main import main

RULES = {
    "login": {"by": "ip", "rates": "5/h"},
    "free": {"by": "ip", "rates": "1/h", "shadow": True, "history": "callers"},
}
Message = MutableMapping[str, Any]


class Deciding:
    """In front of a worker's application."""

    def __init__(self, behind: Any, limiter: AsyncLimiter) -> None:
        self._behind = behind
        self._limiter = limiter
        self.answers = behind.answers

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if not scope["path"].startswith("/decide/"):
            await self._behind(scope, receive, send)
            return
        _, _, event, cost = scope["path"].split("/")
        decision = await self._limiter.hit(event, {"ip": scope["query_string"].decode()}, int(cost))
        await send({"type": "http.response.start", "status": 200 if decision.allowed else 429, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Worker(worker.Worker):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        limiter = AsyncLimiter(
            parse_rules(RULES),
            clock=clock.now,
            listener=self.limit_history.heard,
            caller_listener=self.limit_history.heard_of_caller,
        )
        self.limit_history.events = limiter.events
        self.front = Deciding(self.front, limiter)  # type: ignore[assignment]


if __name__ == "__main__":
    worker.Worker = Worker  # type: ignore[assignment,misc]
    main()
