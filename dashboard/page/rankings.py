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


class CountedName(msgspec.Struct, frozen=True):
    """A link or a group of a ranking, or of a list."""

    key: str
    count: int


class NamesAnswer(msgspec.Struct, frozen=True):
    """A ranking of links or of groups, or a page of them in their order; after: the name to go on after."""

    links: list[CountedName] = []
    groups: list[CountedName] = []
    after: str | None = None


READ_NAMES = msgspec.json.Decoder(NamesAnswer).decode


class Rankings:
    """Asks for rankings, each once at a time, and keeps the latest of each."""

    def __init__(self, ask: Callable[[bytes], Awaitable[tuple[str, bytes]]], patience_s: float = PATIENCE_S) -> None:
        self._ask = ask
        self._patience_s = patience_s
        self._under_way: dict[bytes, Asked] = {}
        self._latest: dict[bytes, NamesAnswer] = {}

    async def ranking(self, query: bytes) -> NamesAnswer | None:
        """Returns a ranking; the latest if the new one takes long, None if there is none. Raises what asking raises."""
        asked = self._under_way.get(query)
        if asked is None and len(self._under_way) < MOST:
            asked = self._under_way[query] = asyncio.ensure_future(self._ask(query))
            asked.add_done_callback(partial(self._ended, query))
        if asked is not None:
            await asyncio.wait({asked}, timeout=self._patience_s)
            if asked.done():
                return READ_NAMES(asked.result()[1])
        return self._latest.get(query)

    def _ended(self, query: bytes, asked: Asked) -> None:
        del self._under_way[query]
        if not asked.cancelled() and asked.exception() is None:
            if len(self._latest) >= MOST:
                self._latest.clear()
            self._latest[query] = READ_NAMES(asked.result()[1])
