"""A URL shortener in one file: answers 302 at once, and reports each hit to Clickcurve in the background.

    LINKS=links.json CLICKCURVE_URL=http://127.0.0.1:8080 uvicorn examples.redirector.app:app --port 9000

LINKS is a JSON object of key -> address. CLICKCURVE_TOKEN is sent if it is set, CLICKCURVE_SPOOL names a file that
keeps hits through a kill. What a shortener should do, and this one leaves to `clickcurve.client`:

- A visitor never waits for the counter: a hit goes into a buffer, with its time and what the visitor's browser says.
- The buffer is bounded. When the counter is away so long that it is full, new hits are dropped, and that is logged.
- Hits are sent together, under an id that is made before the first try. The same batch is tried under the same id until
  it is answered, so it counts once, however often the answer is lost.
- On shutdown what waits is sent; what cannot be sent within a few seconds is logged as lost, or stays in the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from clickcurve.asgi import Receive, Scope, Send
from clickcurve.client import AsyncClient
from clickcurve.keys import decoded_once


class Redirector:
    """The ASGI application. `links` is key -> address; `new_client` makes the client that reports."""

    def __init__(self, links: dict[str, str], new_client: Callable[[], AsyncClient]) -> None:
        self.links = links
        self._new_client = new_client
        self.clicks: AsyncClient | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self.clicks = self._new_client()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.clicks.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, send: Send) -> None:
        # The raw path, decoded once: everything after the slash is the key, as Clickcurve's own log import has it.
        key = decoded_once(scope["raw_path"].decode("ascii", "replace").removeprefix("/"))
        address = self.links.get(key)
        headers = [(b"cache-control", b"no-store")]  # or a browser that comes back is not seen
        if address is not None:
            headers.append((b"location", address.encode()))
            if scope["method"] == "GET" and self.clicks is not None:
                agent = dict(scope["headers"]).get(b"user-agent", b"").decode("latin-1")
                self.clicks.hit(key, ua=agent)
        status = 404 if address is None else 302
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def client_from_environment() -> AsyncClient:
    """The client that the variables describe."""
    url = os.environ.get("CLICKCURVE_URL", "http://127.0.0.1:8080")
    return AsyncClient(url, os.environ.get("CLICKCURVE_TOKEN"), spool=os.environ.get("CLICKCURVE_SPOOL"), gather_s=0.5)


def from_environment() -> Redirector:
    """The application that the variables describe."""
    links = json.loads(Path(os.environ.get("LINKS", Path(__file__).with_name("links.json"))).read_text())
    return Redirector(links, client_from_environment)


app = from_environment()
