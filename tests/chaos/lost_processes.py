"""How long it takes until all that a lost process has acknowledged shows in another server's answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.audit.auditor import BASE, Hit
from tests.audit.several_nodes import Holder, NodesAuditor
from tests.chaos.owners import Owner
from tests.chaos.traffic import ask_total
from tests.crash.wire import Wire

LOOK_EVERY_S = 0.25
ANSWERED_WITHIN_S = 5.0
LAST_LOOKS = 8
SETTLED_S = 0.5  # until the clients have read every answer that came before the end


@dataclass(slots=True)
class LostProcess:
    """One process that was killed or stood still. shown_s: how long after it the last of its hits showed."""

    server: int
    how: str
    hits: int
    shown_s: float | None = None


class LostProcesses:
    """Follows each loss until all of it shows. Each is a task of the group."""

    def __init__(self, group: asyncio.TaskGroup, owners: Sequence[Owner], auditor: NodesAuditor) -> None:
        self.all: list[LostProcess] = []
        self._group = group
        self._owners = owners
        self._auditor = auditor
        self._ending = False
        self._followed: set[Holder] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def follow(self, lost: Owner, how: str) -> None:
        """The process of this server is lost now; one that was suspended before it was killed was lost then."""
        self._auditor.holders.look()
        holder = self._auditor.holders.current(lost.number)
        if holder is not None and holder not in self._followed:
            self._followed.add(holder)
            self._tasks.append(self._group.create_task(self._follow(lost, holder, how, time.monotonic())))

    async def end(self) -> None:
        """Looks for the last time: everything is flushed, so what does not show soon never does."""
        self._ending = True
        if self._tasks:
            await asyncio.wait(self._tasks)

    def never_shown(self) -> list[str]:
        """Returns a sentence for each loss of which something has not shown."""
        lost = [each for each in self.all if each.shown_s is None]
        return [
            f"of {each.hits} hits of server {each.server}, which was {each.how}, some never showed" for each in lost
        ]

    async def _follow(self, lost: Owner, holder: Holder, how: str, since: float) -> None:
        await asyncio.sleep(SETTLED_S)
        missing: Sequence[Hit] = [hit for sent in self._auditor.only_at(holder) for hit in sent.hits]
        if not missing:
            return
        loss = LostProcess(lost.number, how, len(missing))
        self.all.append(loss)
        looks = 0
        while missing := await self._missing(lost, missing):
            looks += self._ending
            if looks > LAST_LOOKS:
                return
            await asyncio.sleep(LOOK_EVERY_S)
        loss.shown_s = time.monotonic() - since

    async def _missing(self, lost: Owner, hits: Sequence[Hit]) -> Sequence[Hit]:
        """Returns the hits from the first one on that another server does not show, or cannot tell of."""
        others = [owner for owner in self._owners if owner is not lost and owner.up.is_set() and not owner.suspended]
        if not others:
            return hits
        wire, totals = Wire(others[0].server.port), dict[str, int | None]()
        try:
            for index, hit in enumerate(hits):
                if hit.key not in totals:
                    totals[hit.key] = await self._total(wire, hit.key)
                total = totals[hit.key]
                if total is None or not total // hit.count % BASE:
                    return hits[index:]
        finally:
            wire.close()
        return []

    async def _total(self, wire: Wire, key: str) -> int | None:
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                return await ask_total(wire, f"/v1/links/{key}/total")
        except TimeoutError:
            return None
