"""How far each import has come.

A source belongs to one owner, which alone moves its offset, with the hits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from clickcurve.buckets.errors import ImportElsewhere, ImportOutOfStep, StoreUnavailable
from ingest.batch import SourceStep
from storage.contract import CLOSED, RETIRED, Held, Source, Store


class Offsets:
    """The offsets that this owner keeps. `held` names the owner; None while the store has not answered yet.

    in_thread: runs a call that may block off the loop.
    """

    def __init__(
        self,
        store: Store,
        held: Callable[[], Held | None],
        in_thread: Callable[[Callable[[], Source]], Awaitable[Source]],
    ) -> None:
        self._store = store
        self._held = held
        self._in_thread = in_thread
        self._known: dict[str, Source] = {}
        self._moving: dict[str, asyncio.Lock] = {}

    def buffered(self, steps: dict[str, SourceStep]) -> None:
        """Takes over the offsets that the journal still holds after a restart."""
        for step in steps.values():
            self._known[step.source] = Source(0, step.end, step.tail)

    async def where(self, source: str) -> Source:
        """Returns the offset of a source, unflushed chunks included; the source belongs to this owner afterwards."""
        held = self._held()
        if held is None:
            raise StoreUnavailable("the store has not answered yet, so the offset of this import is unknown")
        offset = self._known.get(source)
        if offset is None or (offset.owner, offset.epoch) != (held.owner, held.epoch):
            stored = await self._in_thread(lambda: self._adopt(source, held))
            offset = self._known.get(source)  # steps may have moved it while the store was asked
            if offset is None or offset.position < stored.position:
                offset = stored
            offset = self._known[source] = replace(offset, owner=held.owner, epoch=held.epoch)
        return offset

    def _adopt(self, source: str, held: Held) -> Source:
        stored = self._store.source(source)
        if stored is not None and stored.owner != held.owner:
            keeper = self._store.owner(stored.owner)
            if keeper is not None and keeper.state not in (CLOSED, RETIRED):
                raise ImportElsewhere(
                    f"owner {stored.owner} at {keeper.place} keeps the offset of this import;"
                    f" this worker is owner {held.owner}",
                    field="source",
                    value=source,
                )
        if not self._store.claim_source(source, held, stored):
            raise ImportElsewhere("another owner has just taken this import", field="source", value=source)
        return Source(held.owner, stored.position, stored.tail) if stored else Source(held.owner, 0, "")

    @asynccontextmanager
    async def step(self, step: SourceStep) -> AsyncIterator[None]:
        """Keeps others from moving this source; raises ImportOutOfStep unless the step begins at the offset."""
        async with self._moving.setdefault(step.source, asyncio.Lock()):
            offset = await self.where(step.source)
            if step.start != offset.position or step.end < step.start:
                raise ImportOutOfStep(
                    f"the offset of the source is {offset.position}, but the chunk begins at byte {step.start}",
                    field="from",
                    value=offset.position,
                )
            yield
            self._known[step.source] = Source(offset.owner, step.end, step.tail, offset.epoch)
