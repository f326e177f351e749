"""Counts the redirects of any ASGI application: FastAPI, Starlette, Litestar, a plain function.

    clicks = AsyncClient("http://127.0.0.1:8080")
    app.add_middleware(ClickMiddleware, counter=RedirectCounter(clicks))

An answer goes out unchanged, and before it is counted.
"""

from __future__ import annotations

from urllib.parse import quote

from clickcurve.asgi import Application, Message, Receive, Scope, Send
from clickcurve.client.redirects import RedirectCounter, encoded_path


class ClickMiddleware:
    """The application, whose redirects are reported."""

    def __init__(self, app: Application, counter: RedirectCounter) -> None:
        self._app = app
        self._counter = counter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counting(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start" and self._counter.wants(scope["method"], message["status"]):
                self._count(scope)

        await self._app(scope, receive, counting)

    def _count(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        raw: bytes | None = scope.get("raw_path")
        path = quote(scope["path"], safe="/:@!$&'()*+,;=~") if raw is None else encoded_path(raw)
        peer = (scope.get("client") or (None, 0))[0]
        query = scope["query_string"].decode("latin-1")
        self._counter.count(path.partition("?")[0], query, lambda name: headers.get(name.encode()), peer)
