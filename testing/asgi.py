"""A request to an ASGI application in this process, without a server."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


def ask_app(
    app: Any, method: str, path: str, *, url: str = "http://node", peer: str = "127.0.0.1", **options: Any
) -> httpx.Response:
    """The answer to one request, on an event loop of its own. peer: the client's address."""

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app, client=(peer, 4711))
        async with httpx.AsyncClient(transport=transport, base_url=url) as client:
            return await client.request(method, path, **options)

    return asyncio.run(asked())
