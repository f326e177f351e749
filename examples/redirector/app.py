"""A URL shortener in one file: answers 302 at once, and reports each hit to Clickcurve in the background.

    LINKS=links.json CLICKCURVE_URL=http://127.0.0.1:8080 uvicorn examples.redirector.app:app --port 9000

LINKS is a JSON object of key -> address. CLICKCURVE_TOKEN is sent if it is set. What a shortener should do, and this
one does:

- A visitor never waits for the counter: a hit goes into a queue, with its time and the visitor's user agent.
- The queue is bounded. When the counter is away so long that it is full, new hits are dropped, and that is logged.
- Hits are sent together, under an id that is made before the first try. The same batch is tried under the same id until
  it is answered, so it counts once, however often the answer is lost.
- On shutdown what is queued is sent; what cannot be sent within a few seconds is logged as lost.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

log = logging.getLogger("redirector")

QUEUE_HITS = 100_000
BATCH_HITS = 1_000
GATHER_S = 0.5  # how long a hit waits for others to travel with
LONGEST_PAUSE_S = 5.0
LAST_PAUSE_S = 0.2  # between the last tries, on shutdown
SHUTDOWN_S = 5.0

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Reporter:
    """Sends hits to Clickcurve, in order, one batch at a time."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._queue: deque[dict[str, Any]] = deque()
        self._arrived = asyncio.Event()
        self._closing = asyncio.Event()
        self._sending = asyncio.create_task(self._run())
        self.dropped = 0

    def hit(self, key: str, agent: str) -> None:
        """Never waits, never fails."""
        if len(self._queue) >= QUEUE_HITS:
            self.dropped += 1
            if self.dropped % 1000 == 1:
                log.warning("the queue is full: %d hits dropped so far", self.dropped)
            return
        self._queue.append({"key": key, "ts": int(time.time()), "ua": agent})
        self._arrived.set()

    async def close(self) -> None:
        """Send what is queued, for a few seconds at most."""
        self._closing.set()
        self._arrived.set()
        try:
            await asyncio.wait_for(self._sending, SHUTDOWN_S)
        except TimeoutError:
            log.error("%d hits could not be reported", len(self._queue))
        await self._client.aclose()

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            await self._pause(GATHER_S)
            while self._queue:
                # A batch stays in the queue until it is answered: it counts against the bound and is seen on shutdown.
                batch = [self._queue[n] for n in range(min(BATCH_HITS, len(self._queue)))]
                await self._send(batch)
                for _ in batch:
                    self._queue.popleft()
            self._arrived.clear()
            if self._closing.is_set():
                return

    async def _send(self, batch: list[dict[str, Any]]) -> None:
        """Until it is answered: the same hits under the same id."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        pause_s = 0.1
        while True:
            try:
                answer = await self._client.post("/v1/hits", json=batch, headers=headers)
            except httpx.TransportError as error:
                why = repr(error)
            else:
                if answer.status_code < 500 and answer.status_code != 429:
                    if answer.is_error or answer.json()["refused"]:
                        log.error("hits were refused (%d): %s", answer.status_code, answer.text[:500])
                    return
                why = f"status {answer.status_code}"
                pause_s = max(pause_s, float(answer.headers.get("Retry-After", 0)))
            log.warning("%d hits wait: %s; trying again in %.1f s", len(self._queue), why, pause_s)
            if self._closing.is_set():
                pause_s = LAST_PAUSE_S
                await asyncio.sleep(pause_s)
            else:
                await self._pause(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _pause(self, seconds: float) -> None:
        """A pause that a shutdown cuts short."""
        try:
            await asyncio.wait_for(self._closing.wait(), seconds)
        except TimeoutError:
            return


class Redirector:
    """The ASGI application. `links` is key -> address; `new_client` makes the client that reports."""

    def __init__(self, links: dict[str, str], new_client: Callable[[], httpx.AsyncClient]) -> None:
        self.links = links
        self._new_client = new_client
        self.reporter: Reporter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self.reporter = Reporter(self._new_client())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.reporter.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, send: Send) -> None:
        # The raw path: everything after the slash is the key, as Clickcurve's own log import has it.
        key = scope["raw_path"].decode("ascii", "replace").removeprefix("/")
        address = self.links.get(key)
        headers = [(b"cache-control", b"no-store")]  # or a browser that comes back is not seen
        if address is not None:
            headers.append((b"location", address.encode()))
            if scope["method"] == "GET" and self.reporter is not None:
                agent = dict(scope["headers"]).get(b"user-agent", b"").decode("latin-1")
                self.reporter.hit(key, agent)
        status = 404 if address is None else 302
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def from_environment() -> Redirector:
    """The application that the variables describe."""
    token = os.environ.get("CLICKCURVE_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = os.environ.get("CLICKCURVE_URL", "http://127.0.0.1:8080")
    links = json.loads(Path(os.environ.get("LINKS", Path(__file__).with_name("links.json"))).read_text())
    return Redirector(links, lambda: httpx.AsyncClient(base_url=url, headers=headers, timeout=10.0))


app = from_environment()
