"""What a worker does for values that must be forgotten: it erases them in the rows of its own owner, and confirms that.

The first worker of a machine also claims owners that are not open, one erasure after the other, to rewrite their rows.
When every owner is confirmed, it forgets the bytes of the store, and the erasure is done. An owner that does not run,
and whose journal nobody has taken up, holds an erasure up, by number, until it runs again, is closed or is retired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from clickcurve.buckets.breakdowns.breakdown import BoundedLadder
from clickcurve.buckets.breakdowns.erased import ERASED, ErasedWords
from clickcurve.buckets.errors import ClickcurveError, OwnerFenced
from ingest.owner import Owner
from server.corrections.rules import DisavowBook
from server.events.known_events import noted_names
from server.job import Job
from server.logs import log
from server.tokens.audit import AuditLog
from storage.contract import OPEN, RETIRED, Held, Store
from storage.erased_words import Confirmed, Erasure, ErasureBook
from storage.erasing import Eraser, RowsOfOwner
from storage.joined_rows import finish_joins

FOLLOW_S = 2
LOOK_S, LONGEST_WAIT_S = 2.0, 60.0  # between two looks whether others have confirmed: longer each time
RETRY_S = 600  # after a refusal: each try reads all breakdowns
REWRITER_S = 3_600  # so long another process may rewrite rows of an owner before it counts as dead

Write = Callable[[Callable[[Held], None]], Awaitable[None]]


@dataclass
class Erasing:
    """Carries out erasures. `refresh` follows the store.

    clock: the time that erasures are forgotten by. running: seconds that nobody can set; None: `clock`. is_first:
    whether this worker also erases in rows of owners that are not open. set_aside: lists the journals that were set
    aside on this machine. rules_known: reads the rules of `disavow` again.
    """

    owner: Owner
    store: Store
    bounded: BoundedLadder
    audit: AuditLog
    clock: Callable[[], float]
    is_first: bool
    set_aside: Callable[[], list[Path]]
    rules_known: Callable[[], Awaitable[None]]
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    running: Callable[[], float] | None = None
    book: ErasureBook = field(init=False)

    def __post_init__(self) -> None:
        self.book, self._running = ErasureBook(self.store), self.running or self.clock
        self._version = self.book.followed()
        self._is_running = False
        self._next_look, self._wait_s = 0.0, LOOK_S
        self._old_at: int | None = None  # when the next erasure may be forgotten
        self._tried: dict[tuple[str, int], float] = {}  # erasures and owners that were refused, and when
        self._unsure: dict[int, set[str]] = {}
        self._failed: str | None = None
        self._refreshing = asyncio.Lock()

    def jobs(self) -> Iterator[Job]:
        yield Job("erase", self.refresh, FOLLOW_S, at_start=False)

    async def refresh(self) -> None:
        """Follows the store, and erases what this worker can that is not confirmed yet."""
        async with self._refreshing:
            try:
                await self._refresh()
                self._failed = None
            except ClickcurveError as error:
                if error.detail != self._failed:  # once, not every two seconds
                    log.warning("erasures not checked", extra={"reason": error.detail, "then": "it is tried again"})
                self._failed = error.detail

    async def _refresh(self) -> None:
        is_changed, now = await asyncio.to_thread(self._version.is_changed), self._running()
        is_old = self._old_at is not None and self.clock() >= self._old_at
        is_due = self._is_running and now >= self._next_look
        if not (is_changed or is_due or is_old):
            return
        self._wait_s = LOOK_S if is_changed else min(2 * self._wait_s, LONGEST_WAIT_S)
        self._next_look = now + self._wait_s
        if is_old:
            await asyncio.to_thread(self.book.forget_old, int(self.clock()))
        erasures = await asyncio.to_thread(self.book.all)
        self._version.note_read()
        self._is_running = any(erasure.done_at is None for erasure in erasures)
        self._old_at = min((at for erasure in erasures if (at := erasure.kept_until) is not None), default=None)
        for erasure in erasures:
            if erasure.done_at is None:
                await self._erase(erasure)

    async def _erase(self, erasure: Erasure) -> None:
        words = await asyncio.to_thread(self.book.words_of, erasure)
        writers = await self._own_writer(erasure)
        if self.is_first:
            writers |= await self._claimed_writers(erasure)
        if writers:
            # Before a row: a rule that is carried out later must not call the hits again, by the name that goes.
            await asyncio.to_thread(DisavowBook(self.store).rename, words.is_erased, ERASED + erasure.id)
            await self.rules_known()
            events = await asyncio.to_thread(noted_names, self.store)
            eraser = Eraser(self.store, words, self.bounded, events)
            for owner, found in (await self._rewrite(eraser, writers)).items():
                if reason := found.refusal():
                    await self._refuse(erasure, owner, reason)
                else:
                    await asyncio.to_thread(self.book.confirm, erasure, owner, Confirmed(found.rows, found.hits))
        if self.is_first:
            await self._finish(erasure.id, words)

    async def _own_writer(self, erasure: Erasure) -> dict[int, Write]:
        """Returns how rows of the own owner are written, if it has not confirmed; nothing lands with the value then."""
        own = self.owner.status.owner
        if own is not None and (own in erasure.confirmed or not self._may_try(erasure, own)):
            return {}
        await self.owner.flush()
        own = self.owner.status.owner
        assert own is not None, "a flush claims an owner"
        if self.is_first and (folders := await asyncio.to_thread(self.set_aside)):
            reason = f"journals that were set aside may hold it, empty or remove them: {', '.join(map(str, folders))}"
            await self._refuse(erasure, own, reason)
            return {}
        return {own: self.owner.between_flushes}

    async def _claimed_writers(self, erasure: Erasure) -> dict[int, Write]:
        """Claims owners that are not open, unless another process does that now; returns how their rows are written."""
        writers: dict[int, Write] = {}
        own_name = f"owner {self.owner.status.owner}"  # the same after a restart, and nobody else's
        for record in await asyncio.to_thread(self.store.owners):
            if record.state == OPEN or record.owner in erasure.confirmed or not self._may_try(erasure, record.owner):
                continue
            name, _, at = record.rewriter.rpartition("@")
            now = int(self.clock())
            if name != own_name and at.isdigit() and 0 <= now - int(at) < REWRITER_S:
                continue
            after = record.rewritten_by(f"{own_name}@{now}")
            if await asyncio.to_thread(self.store.claim, record, after, rewrites=True):
                held = Held(after.owner, after.epoch, after.holder, rewrites=True)
                await asyncio.to_thread(finish_joins, self.store, held, self.bounded)
                writers[record.owner] = _writer(held)
        return writers

    async def _lost(self, owners: Collection[int]) -> set[int]:
        """Returns the owners of these whose last flush may have reached single replicas of a cluster only.

        All of their rows are written again: of those the rewriter's stamps win, whatever a replica brings up later.
        """
        records = await asyncio.to_thread(self.store.owners) if self.store.shared else []
        return {record.owner for record in records if record.owner in owners and record.state == RETIRED}

    def _may_try(self, erasure: Erasure, owner: int) -> bool:
        tried = self._tried.get((erasure.id, owner))
        return tried is None or self._running() - tried >= RETRY_S

    async def _refuse(self, erasure: Erasure, owner: int, reason: str) -> None:
        self._tried[erasure.id, owner] = self._running()
        await asyncio.to_thread(self.book.refuse, erasure, owner, reason)
        log.warning("value not erased", extra={"erasure": erasure.id, "owner": owner, "reason": reason})

    async def _rewrite(self, eraser: Eraser, writers: dict[int, Write]) -> dict[int, RowsOfOwner]:
        """Rewrites the rows of these owners that have the value; returns what of each whose rows are written."""
        found = {owner: RowsOfOwner(unsure=self._unsure.setdefault(owner, set())) for owner in writers}
        lost = await self._lost(writers)

        async def write(owner: int, keys: list[str]) -> None:
            if owner in found:
                found[owner].unsure.update(keys if owner in lost else ())
                try:
                    await writers[owner](lambda held: eraser.rewrite(held, keys, found[owner]))
                except OwnerFenced:
                    if owner == self.owner.status.owner:
                        raise
                    del found[owner]  # it runs again, and confirms itself

        if (keys := eraser.keys()) is not None:
            for owner in writers:
                await write(owner, keys)
        else:
            await self._walk(eraser, writers, lost, write)
        for owner in writers:
            if unsure := sorted(self._unsure[owner]):
                await write(owner, unsure)
        return found

    async def _walk(
        self,
        eraser: Eraser,
        owners: Collection[int],
        anew: Collection[int],
        write: Callable[[int, list[str]], Awaitable[None]],
    ) -> None:
        """Looks at all rows of these owners, half of the time, and has those written that have the value.

        anew: owners of which all rows are.
        """
        after: str | None = None
        while True:
            began = self._running()
            page = await asyncio.to_thread(eraser.page, after, owners, anew)
            for owner in owners:
                if keys := [key for key, of_owner in page.rows if of_owner == owner]:
                    await write(owner, keys)
            if page.last is None:
                return
            after = page.last
            await self.pause(min(1.0, max(0.0, self._running() - began)))

    async def _finish(self, erasure_id: str, words: ErasedWords) -> None:
        """Forgets the bytes, and notes that the erasure is done, if all owners have confirmed it."""
        erasure = next(each for each in await asyncio.to_thread(self.book.all) if each.id == erasure_id)
        if await asyncio.to_thread(self.book.waiting, erasure):
            return
        await asyncio.to_thread(self.audit.forget_value, words.is_named)
        await asyncio.to_thread(self.store.forget_bytes)
        await asyncio.to_thread(self.book.finish, erasure, int(self.clock()))
        log.info("value erased", extra={"erasure": erasure_id})


def _writer(held: Held) -> Write:
    async def write(rows: Callable[[Held], None]) -> None:
        await asyncio.to_thread(rows, held)

    return write
