"""Adopts orphaned journals: what they hold shows in answers, and goes into the store.

`unheld_journals.py` says which these are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from clickcurve.buckets.errors import JournalDamaged, JournalHeld, JournalSuperseded, StoreUnavailable
from ingest.owner import Owner
from server.logs import log


class OrphanedJournals:
    """Empties orphaned journals and folds their rows, once a day.

    numbers: lists them. open_owner: returns an owner for journal n, or raises JournalHeld or JournalDamaged.
    quarantine: puts journal n where nothing flushes it, and returns where. fold: folds an owner's rows.

    A journal that cannot be emptied does not hold up the others; one that is damaged is logged, once a day. While the
    store does not answer their owners stay open, so that answers have what they hold. What is adopted while requests
    are answered shows when its first flush has succeeded or failed: the flush learns which links were erased since.
    """

    def __init__(
        self,
        numbers: Callable[[], list[int]],
        open_owner: Callable[[int], Awaitable[Owner]],
        quarantine: Callable[[int], object],
        fold: Callable[[Owner], Awaitable[None]],
        fold_day: Callable[[], int],
    ) -> None:
        self._numbers = numbers
        self._open_owner = open_owner
        self._quarantine = quarantine
        self._fold = fold
        self._fold_day = fold_day
        self._done: dict[int, int] = {}  # journal -> fold day of its last visit
        self._owners: dict[int, Owner] = {}
        self._shown: set[int] = set()
        self._visiting = asyncio.Lock()
        self._flushes_closed = 0

    @property
    def owners(self) -> Collection[Owner]:
        """The owners of journals that were adopted and are not emptied yet."""
        return [*self._owners.values()]

    @property
    def shown(self) -> Collection[Owner]:
        """Those of them whose hits answers have."""
        return [self._owners[number] for number in self._shown]

    @property
    def flushes(self) -> int:
        """How many flushes are complete, those of closed owners too."""
        return self._flushes_closed + sum(owner.status.flushes for owner in self.owners)

    async def take_up(self) -> None:
        """Opens all that are there at a start, so that their hits show before they are in the store."""
        for number in self._numbers():
            if await self._owner(number) is not None:
                self._shown.add(number)

    async def _owner(self, number: int) -> Owner | None:
        """Returns the open owner of a journal; None if another worker holds it or it is damaged."""
        if number not in self._owners:
            try:
                self._owners[number] = await self._open_owner(number)
            except JournalHeld:
                return None
            except JournalDamaged as error:
                log.error("orphaned journal damaged", extra={"journal": number, "reason": error.detail})
                self._done[number] = self._fold_day()
                return None
        return self._owners[number]

    async def visit(self) -> None:
        """Empties those that were not emptied today. Raises what kept the first one from it: the next visit goes on."""
        async with self._visiting:
            await self._visit()

    async def _visit(self) -> None:
        today, numbers = self._fold_day(), sorted({*self._numbers(), *self._owners})
        self._done = {number: day for number, day in self._done.items() if number in numbers}
        failed: Exception | None = None
        for number in numbers:
            if self._done.get(number) == today:
                continue
            try:
                if (owner := await self._owner(number)) is not None:
                    await self._empty(number, owner, today)
            except StoreUnavailable:
                raise  # of the others' rows too
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    async def _empty(self, number: int, owner: Owner, today: int) -> None:
        try:
            await owner.flush()
            await self._fold(owner)
        except StoreUnavailable:
            self._shown.add(number)
            raise
        except JournalSuperseded as error:
            log_quarantined(error, owner.status.buffered_hits, self._quarantine(number))
            await self._close(number, owner)
            return
        except Exception:
            await self._close(number, owner)
            raise
        await self._close(number, owner)
        self._done[number] = today
        log.info("orphaned journal emptied", extra={"journal": number, "owner": owner.status.owner})

    async def _close(self, number: int, owner: Owner) -> None:
        try:
            await owner.close()
        finally:
            self._flushes_closed += owner.status.flushes
            del self._owners[number]
            self._shown.discard(number)

    async def release(self) -> None:
        """Releases the journals without a flush: the next start takes them up."""
        for owner in self.owners:  # a visit that is cut off may close one meanwhile
            await owner.release()


def log_quarantined(error: JournalSuperseded, hits: int, moved_to: object) -> None:
    """Logs that a journal was quarantined, with how many hits that it showed."""
    log.error("journal quarantined", extra={"reason": error.detail, "hits": hits, "moved_to": str(moved_to)})
