"""The links with the most hits, for a page that must not wait for them.

A ranking may walk over all links: two seconds for 100,000 of them over Cassandra. The page waits a little; then it
shows the one before, or says that it is being made, and asks again. A page that renews itself must not keep the server
walking either, so a ranking serves for twenty times as long as it took: 5 % of a processor at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from clickcurve.access import access

PATIENCE_S = 0.3
SERVES = 20  # times as long as it took
MOST = 16  # rankings that are kept, and that may be under way

RANKED = 1_000  # as many links as can be asked for by their hits

A = TypeVar("A")
AskedFor: TypeAlias = tuple[tuple[str, str], bytes]  # what the request may see, and its query string


@dataclass(eq=False)
class Rankings(Generic[A]):
    """Asks for rankings, each once at a time, and keeps the latest of each. `clock` is in seconds."""

    ask: Callable[[bytes], Awaitable[A]]
    clock: Callable[[], float]
    patience_s: float = PATIENCE_S

    def __post_init__(self) -> None:
        self._under_way: dict[AskedFor, asyncio.Future[A]] = {}
        self._latest: dict[AskedFor, tuple[A, float]] = {}  # each with the moment until which it serves
        self._failed: dict[AskedFor, BaseException] = {}  # since nobody waited any more

    async def ranking(self, query: bytes) -> A | None:
        """Returns a ranking; the latest if the new one takes long, None if there is none.

        Raises what asking raises, also what it raised after the last look had gone on without it.
        """
        asked_for = access().reach, query
        if (failure := self._failed.pop(asked_for, None)) is not None:
            raise failure
        latest = self._latest.get(asked_for)
        now = self.clock()
        if latest is not None and now < latest[1]:
            return latest[0]
        asked = self._under_way.get(asked_for)
        if asked is None and len(self._under_way) < MOST:
            asked = self._under_way[asked_for] = asyncio.ensure_future(self.ask(query))
            asked.add_done_callback(partial(self._ended, asked_for, now))
        if asked is not None:
            await asyncio.wait({asked}, timeout=self.patience_s)
            if asked.done():
                self._failed.pop(asked_for, None)
                return asked.result()
        return None if latest is None else latest[0]

    def _ended(self, asked_for: AskedFor, began: float, asked: asyncio.Future[A]) -> None:
        del self._under_way[asked_for]
        if asked.cancelled():
            return
        if (failure := asked.exception()) is not None:
            if len(self._failed) >= MOST:
                self._failed.clear()
            self._failed[asked_for] = failure
        else:
            if len(self._latest) >= MOST:
                self._latest.clear()
            now = self.clock()
            self._latest[asked_for] = asked.result(), now + SERVES * (now - began)
