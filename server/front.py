"""What every request meets first: the token, then the hot routes, then the web framework.

Routing and validation of the framework cost more than a hit or a total, so those are answered in front of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from buckets.errors import ClickcurveError, JournalUnknown
from ingest.answer import close_unanswered
from ingest.asgi import HitRoutes
from server.auth import Gate, scope_of
from server.errors import Problems

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Front:
    """The application that the server runs. `answers` counts what is answered by others than the hit routes."""

    def __init__(self, gate: Gate, problems: Problems, hits: HitRoutes, behind: Application) -> None:
        self._gate = gate
        self._problems = problems
        self._hits = hits
        self._behind = behind
        self.answers: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if self._gate.asks() and not await self._allowed(scope, receive, send):
            return
        if not self._hits.serves(scope["raw_path"]):
            await self._rest(scope, receive, send)
            return
        try:  # not in a method of its own: a further coroutine costs as much as the routing
            await self._hits(scope, receive, send)  # type: ignore[arg-type]
        except JournalUnknown:
            raise  # the connection is closed without an answer
        except Exception as error:
            with suppress(RuntimeError):  # it had begun to answer: the connection is closed
                await self._problems.answer(error)(scope, receive, send)

    async def _allowed(self, scope: Scope, receive: Receive, send: Send) -> bool:
        needed = scope_of(scope["method"], scope["path"])
        if needed is None:
            return True
        shown = [value for name, value in scope["headers"] if name == b"authorization"]
        try:
            self._gate.check(needed, shown[0] if len(shown) == 1 else None)
        except ClickcurveError as error:
            response = self._problems.answer(error)
            if scope["method"] not in ("GET", "HEAD"):
                response.headers["Connection"] = "close"  # its body is not read
            self.answers[response.status_code] += 1
            await response(scope, receive, send)
            return False
        return True

    async def _rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.answers[message["status"]] += 1
            await send(message)

        try:
            await self._behind(scope, receive, counted)
        except JournalUnknown:
            await close_unanswered(send)
            raise
        except Exception:  # answered and told to the log by the app's own handler, which raises it again
            return
