"""The links with the most hits, for a page that must not wait for them.

A ranking walks over all links: two seconds for 100,000 of them where none is known. The page waits a little; then it
shows the one before, or says that it is being made, and asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import msgspec

PATIENCE_S = 0.3
MOST = 16  # rankings that are kept, and that may be under way

Asked: TypeAlias = "asyncio.Future[tuple[str, bytes]]"


class CountedLink(msgspec.Struct, frozen=True):
    """A link of a ranking or of a list."""

    key: str
    count: int


class LinksAnswer(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """A ranking, or a page of all links in the order of their keys; after: the key to go on after."""

    start: int | None
    end: int | None
    links: list[CountedLink]
    after: str | None = None


READ_LINKS = msgspec.json.Decoder(LinksAnswer).decode


class Rankings:
    """Asks for rankings, each once at a time, and keeps the latest of each."""

    def __init__(self, links: Callable[[bytes], Awaitable[tuple[str, bytes]]], patience_s: float = PATIENCE_S) -> None:
        self._links = links
        self._patience_s = patience_s
        self._under_way: dict[bytes, Asked] = {}
        self._latest: dict[bytes, LinksAnswer] = {}

    async def ranking(self, query: bytes) -> LinksAnswer | None:
        """Returns a ranking; the latest if the new one takes long, None if there is none. Raises what asking raises."""
        asked = self._under_way.get(query)
        if asked is None and len(self._under_way) < MOST:
            asked = self._under_way[query] = asyncio.ensure_future(self._links(query))
            asked.add_done_callback(partial(self._ended, query))
        if asked is not None:
            await asyncio.wait({asked}, timeout=self._patience_s)
            if asked.done():
                return READ_LINKS(asked.result()[1])
        return self._latest.get(query)

    def _ended(self, query: bytes, asked: Asked) -> None:
        del self._under_way[query]
        if not asked.cancelled() and asked.exception() is None:
            if len(self._latest) >= MOST:
                self._latest.clear()
            self._latest[query] = READ_LINKS(asked.result()[1])
