"""Requests of an import, each sent until it counts, with pauses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from clickcurve.buckets.errors import (
    ClickcurveError,
    ImportElsewhere,
    ImportOutOfStep,
    JournalError,
    JournalUnknown,
    OwnerFenced,
    StoreUnavailable,
)
from ingest.imports.chunk import Chunk
from ingest.imports.target import KeptOffset, Taken, Target

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 15.0
TRIES = 40  # of one request, some nine minutes
QUICK_TRIES = 32  # new connections until one reaches the right worker, before there is any waiting

_MAY_PASS = (JournalError, StoreUnavailable, ImportElsewhere)
T = TypeVar("T")


@dataclass(eq=False)
class Sender:
    """Sends to a target. `wait` sleeps; `on_wait` hears why; `tries` None: for ever."""

    target: Target
    wait: Callable[[float], Awaitable[None]]
    on_wait: Callable[[str], None] = lambda sentence: None
    tries: int | None = TRIES

    async def offset(self, source: str) -> KeptOffset:
        """Returns how far a source was counted."""
        return await self._tried(lambda: self.target.offset(source))

    async def send(self, chunk: Chunk) -> Taken | None:
        """Sends a chunk until it counts; returns None if it does, but its receipt was lost.

        Raises ImportOutOfStep, ImportRefused.
        """

        async def once() -> Taken | None:
            try:
                return await self.target.send(chunk)
            except JournalUnknown as error:
                if await self._counts(chunk):
                    return None
                raise error
            except ImportOutOfStep as error:
                if error.value == chunk.step.end:
                    return None  # an earlier try had arrived
                raise

        return await self._tried(once)

    async def _counts(self, chunk: Chunk) -> bool:
        """Tells whether a chunk arrived whose answer did not."""
        offset = (await self.offset(chunk.step.source)).offset
        if offset not in (chunk.step.start, chunk.step.end):
            raise ImportOutOfStep(f"the offset of the source is {offset}", value=offset)
        return offset == chunk.step.end

    async def _tried(self, call: Callable[[], Awaitable[T]]) -> T:
        tried = elsewhere = 0
        while True:
            try:
                return await call()
            except OwnerFenced:
                raise
            except _MAY_PASS as error:
                if isinstance(error, ImportElsewhere):
                    await self.target.reconnect()
                    elsewhere += 1
                    if elsewhere <= QUICK_TRIES:
                        continue
                tried += 1
                if tried == self.tries:
                    raise
                await self._pause(tried, error)

    async def _pause(self, tried: int, error: ClickcurveError) -> None:
        pause_s = min(FIRST_PAUSE_S * 2 ** min(tried - 1, 16), LONGEST_PAUSE_S)
        answered = isinstance(error, JournalError) and not isinstance(error, JournalUnknown)
        asked_s = float(getattr(error, "retry_after_s", 0)) if answered else 0.0
        if tried == 1:
            self.on_wait(f"{error.detail}; trying again")
        await self.wait(max(pause_s, min(asked_s, LONGEST_PAUSE_S)))
