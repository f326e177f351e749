"""How far each import has come.

A source belongs to one owner, which alone moves its offset, with the hits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

from clickcurve.access import Access, access
from clickcurve.buckets.errors import ImportElsewhere, ImportOutOfStep, StoreUnavailable
from ingest.batch import SourceStep
from storage.contract import CLOSED, RETIRED, Held, Source, Store

T = TypeVar("T")


class InThread(Protocol):
    """Runs a call that may block off the loop."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]: ...


class Offsets:
    """The offsets that this owner keeps. `held` names the owner; None while the store has not answered yet."""

    def __init__(
        self,
        store: Store,
        held: Callable[[], Held | None],
        in_thread: InThread,
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

    async def kept(self, source: str) -> Source:
        """Returns the offset of a source, unflushed chunks included; writes and keeps nothing.

        Raises ImportElsewhere if another owner may move it.
        """
        held, allowed = self._holding(), access()
        stored = (
            None if self._is_mine(source, held) else await self._in_thread(lambda: self._read(source, held, allowed))
        )
        return self._latest(source, stored or Source(held.owner, 0, ""))

    async def claimed(self, source: str) -> Source:
        """Returns the offset of a source, which belongs to this owner afterwards."""
        held, allowed = self._holding(), access()
        if not self._is_mine(source, held):
            stored = await self._in_thread(lambda: self._claim(source, held, allowed))
            latest = self._latest(source, stored)
            self._known[source] = replace(latest, owner=held.owner, epoch=held.epoch)
        return self._known[source]

    def _holding(self) -> Held:
        held = self._held()
        if held is None:
            raise StoreUnavailable("the store has not answered yet, so the offset of this import is unknown")
        return held

    def _is_mine(self, source: str, held: Held) -> bool:
        known = self._known.get(source)
        return known is not None and (known.owner, known.epoch) == (held.owner, held.epoch)

    def _latest(self, source: str, stored: Source) -> Source:
        """Returns the greater offset: steps may have moved it while the store was asked."""
        known = self._known.get(source)
        return stored if known is None or known.position < stored.position else known

    def _read(self, source: str, held: Held, allowed: Access) -> Source | None:
        stored = self._store.source(source)
        if stored is not None and stored.owner != held.owner:
            keeper = self._store.owner(stored.owner)
            if keeper is not None and keeper.state not in (CLOSED, RETIRED):
                # Where it runs is nothing that customers are told.
                who = "another worker" if allowed.prefix else f"owner {stored.owner} at {keeper.place}"
                asked = "" if allowed.prefix else f"; this worker is owner {held.owner}"
                detail = f"{who} keeps the offset of this import{asked}"
                raise ImportElsewhere(detail, field="source", value=source)
        return stored

    def _claim(self, source: str, held: Held, allowed: Access) -> Source:
        stored = self._read(source, held, allowed)
        if not self._store.claim_source(source, held, stored):
            raise ImportElsewhere("another owner has just taken this import", field="source", value=source)
        return Source(held.owner, stored.position, stored.tail) if stored else Source(held.owner, 0, "")

    @asynccontextmanager
    async def step(self, step: SourceStep) -> AsyncIterator[None]:
        """Keeps others from moving this source; raises ImportOutOfStep unless the step begins at the offset."""
        async with self._moving.setdefault(step.source, asyncio.Lock()):
            offset = await self.claimed(step.source)
            if step.start != offset.position or step.end < step.start:
                raise ImportOutOfStep(
                    f"the offset of the source is {offset.position}, but the chunk begins at byte {step.start}",
                    field="from",
                    value=offset.position,
                )
            yield
            self._known[step.source] = Source(offset.owner, step.end, step.tail, offset.epoch)
