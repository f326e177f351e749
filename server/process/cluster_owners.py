"""The owners whose journals lie in the cluster: a worker's own one, and those that nobody holds.

A worker that starts takes an owner that was closed, else one of a process that is gone, else it makes one. Beside its
own it adopts owners of processes that are gone: it empties and closes them. Once a day one worker of all takes each
closed owner as well, to fold its rows.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from functools import partial

from clickcurve.buckets.errors import JournalBroken, JournalDamaged, JournalHeld, OwnerFenced, StoreUnavailable
from clickcurve.buckets.ladder import DAY_S, fold_day
from ingest.journal.cluster_journal import ClusterJournal, make_journal, take_journal
from ingest.journal.taking import (
    DEAD_FOR_A_START,
    DEAD_FOR_ADOPTERS,
    ROUND_S,
    Choice,
    Make,
    Take,
    Wait,
    choose_identity,
    has_lost,
    taken_over,
    to_adopt,
)
from server import clock
from server.clock import TrustedClock
from server.logs import log
from server.metrics import Family, Sample
from server.process.journals import flushes_elsewhere
from server.process.presence import Presence
from storage.contract import CLOSED, OPEN, Store
from storage.journals import JournalRecord

WAIT_ROUNDS = 2 * DEAD_FOR_ADOPTERS  # for an owner that is being emptied; it may be damaged
FOLDS = "folds:"  # then an owner's number and a fold day: the note of the process that folds its rows on that day


FAMILIES = {
    "clickcurve_frames_total": Family(
        "Groups of hits sent to the cluster's journal: kept, or given up (their connections close).", ("outcome",)
    ),
    "clickcurve_rounds_total": Family(
        "Rounds of 2 s in which a worker shows the cluster that it lives: counted, missed.", ("outcome",)
    ),
    "clickcurve_dead_owners": Family("Owners in the cluster whose processes are gone, not emptied yet."),
    "clickcurve_adopted_owners_total": Family("Owners of processes that are gone, taken to be emptied."),
}


class ClusterOwners:
    """What the worker with this name knows and does of them."""

    def __init__(self, store: Store, presence: Presence, name: str, trusted: TrustedClock) -> None:
        self.store, self.presence = store, presence
        self.place = f"{socket.gethostname()}:{os.getpid()}/{name}"
        self.own: ClusterJournal | None = None
        self._tried: Choice | None = None  # to take or to make it had no answer
        self._lost: Callable[[OwnerFenced], object] | None = None
        self._is_lost: OwnerFenced | None = None
        self._clock = trusted
        self._adopted = 0
        self._to_fold: set[int] = set()
        self._seen_closed: dict[int, int] = {}  # closed owner -> the fold day on which it was seen
        self._set_aside: set[int] = set()  # owners whose journals this worker must not flush
        self._seen: list[int] = []
        presence.round_ended = self._look_at_own

    def token(self) -> str:
        """Makes the name of a claim; it begins with that of the process."""
        return f"{self.presence.process}.{secrets.token_hex(8)}"

    # --- the own one ------------------------------------------------------------------------------------------------
    async def take(self, check_stop: Callable[[], None]) -> ClusterJournal:
        """Takes an identity, however often that must be tried. check_stop: raises if the server is to stop.

        Raises SettingInvalid or StoreMismatch if journals must not lie in the store.
        """
        self.own = self._is_lost = None
        check_stop()
        await self.presence.begin()
        while not self.presence.counted:
            log.warning("no owner", extra={"reason": "the cluster does not answer", "then": "it is asked again"})
            await asyncio.sleep(ROUND_S)
            check_stop()
            await self.presence.begin()
        began = self.presence.counted
        while True:
            try:
                self.own = await self._try_to_take(self.presence.counted - began)
            except (StoreUnavailable, OwnerFenced) as error:
                log.warning("no owner", extra={"reason": error.detail, "then": "it is tried again"})
            if self.own is not None:
                return self.own
            await self.presence.next_round()
            check_stop()

    async def _try_to_take(self, rounds: int) -> ClusterJournal | None:
        """Takes an owner if one is free, or makes one if none is after so many rounds."""
        owners = [each.owner for each in await asyncio.to_thread(self.store.owners)]
        records = await asyncio.to_thread(lambda: self.store.journals().records())
        usable = [each for each in records if each.record.owner not in self._set_aside]
        dead = self.presence.rounds.dead(DEAD_FOR_A_START)
        choice = choose_identity(usable, owners, dead, self.presence.process, self._tried)
        if not isinstance(choice, Take):
            least = WAIT_ROUNDS if isinstance(choice, Wait) else DEAD_FOR_A_START
            if rounds <= least and any(each.record.state == OPEN for each in usable):
                return None  # the process of one may be gone
            return await self._make(choice.owner if isinstance(choice, Make) else max(owners) + 1)
        self._tried = choice
        self._learn(choice.before)
        journal = await self._take_own(choice.before)
        self._tried = None
        return journal

    def _learn(self, before: JournalRecord) -> None:
        """Tells the clock when the owner that is to be the own one flushed last, and the others."""
        if before.record.begun:
            self._clock.learn_flush(before.record.begun_at)
        self._clock.learn_others(flushes_elsewhere(each.record for each in self.presence.records))

    async def _take_own(self, before: JournalRecord) -> ClusterJournal | None:
        try:
            return await asyncio.to_thread(self._take, before, False)
        except JournalDamaged as error:
            where = self.quarantine(before.record.owner)
            log.error("journal damaged", extra={"journal": where, "reason": error.detail})
            return None

    def _take(self, before: JournalRecord, emptying: bool) -> ClusterJournal | None:
        times = self._clock.careful, clock.monotonic
        return take_journal(self.store, before, self.token(), self.place, *times, emptying)

    async def _make(self, least: int) -> ClusterJournal:
        """Makes an owner of the least number that no other process makes at the same time."""
        number = least
        while True:
            self._tried = Make(number)
            times = self._clock.careful, clock.monotonic
            make = partial(make_journal, self.store, number, self.token(), self.place, *times)
            if (made := await asyncio.to_thread(make)) is not None:
                self._tried = None
                return made
            number += 1

    def _look_at_own(self) -> None:
        """Looks whether another process has taken the own owner: a worker without hits would not hear of it."""
        own = self.own
        if own is not None and (own.is_fenced or has_lost(self.presence.records, own.held)):
            self.own, self._is_lost = None, taken_over(own.held.owner)
            if self._lost is not None:
                self._lost(self._is_lost)

    def when_lost(self, call: Callable[[OwnerFenced], object]) -> None:
        """Calls when another process has taken the own owner; at once if it has already."""
        self._lost = call
        if self._is_lost is not None:
            call(self._is_lost)

    # --- those that nobody holds ------------------------------------------------------------------------------------
    def orphaned(self) -> list[int]:
        """Lists the owners that this worker is to empty, or to fold."""
        return sorted(self._abandoned().union(self._to_fold) - self._set_aside)

    def _abandoned(self) -> set[int]:
        """Returns the owners whose processes are gone, and those that this one has taken and not closed yet."""
        if self.own is None:
            return set()
        dead = self.presence.rounds.dead(DEAD_FOR_ADOPTERS)
        free = to_adopt(self.presence.records, dead, self.presence.process, {self.own.held.owner})
        return {each.record.owner for each in free}

    def look(self) -> bool:
        """Returns whether there is anything to visit: owners to empty or to fold, or one that is no more."""
        before, self._seen = self._seen, self.orphaned()
        return self.presence.is_heard and bool(self._seen or before)

    async def find_to_fold(self) -> None:
        """Finds the closed owners that nobody has folded today. The first process that notes its name does it."""
        today, process = fold_day(int(self._clock.careful())), self.presence.process
        closed = {each.record.owner for each in self.presence.records if each.record.state == CLOSED}
        if self.own is not None:
            closed.discard(self.own.held.owner)  # it was closed in a round from before it was taken
        mine = {each.record.owner for each in self.presence.records if each.record.holder.startswith(f"{process}.")}
        self._to_fold &= closed | mine
        self._seen_closed = {owner: day for owner, day in self._seen_closed.items() if owner in closed | mine}
        for owner in closed:
            if self._seen_closed.get(owner) == today:
                continue
            folder = await asyncio.to_thread(self.store.note, f"{FOLDS}{owner}:{today}", process, 2 * DAY_S)
            self._seen_closed[owner] = today
            (self._to_fold.add if folder == process else self._to_fold.discard)(owner)

    async def take_orphan(self, number: int) -> ClusterJournal:
        """Takes an owner to empty it. Raises JournalHeld, JournalDamaged, StoreUnavailable."""
        before = await asyncio.to_thread(lambda: self.store.journals().record(number))
        try:
            free = before is not None and self._is_free(before)
            journal = await asyncio.to_thread(self._take, before, True) if before is not None and free else None
        except OwnerFenced as error:
            raise JournalHeld(error.detail) from error
        if journal is None:
            raise JournalHeld(f"another process has taken owner {number}")
        assert before is not None
        self._adopted += before.record.state == OPEN
        log.info("owner adopted", extra={"owner": number, "epoch": journal.held.epoch, "place": before.record.place})
        return journal

    def _is_free(self, before: JournalRecord) -> bool:
        """Returns whether nobody holds an owner, by its record as it is now."""
        if before.record.state == CLOSED:
            return before.record.owner in self._to_fold
        dead = self.presence.rounds.dead(DEAD_FOR_ADOPTERS)
        return bool(to_adopt([before], dead, self.presence.process, ()))

    def quarantine(self, number: int) -> str:
        """Leaves a journal as it is, which must not be flushed; returns where it lies."""
        self._set_aside.add(number)
        return f"frames of owner {number}"

    def close(self) -> None:
        """Adopts nothing more."""
        self.own = None
        self._to_fold.clear()

    def check_heard(self) -> None:
        """Raises JournalBroken while the cluster does not answer: hits would be refused."""
        if not self.presence.is_heard:
            missed = self.presence.missed_in_a_row
            raise JournalBroken(f"the cluster has not answered in {missed} rounds of {ROUND_S:.0f} s")

    @property
    def quarantined(self) -> int:
        """How many journals are left as they are."""
        return len(self._set_aside)

    # --- what it tells ----------------------------------------------------------------------------------------------
    def samples(self) -> Iterator[Sample]:
        """Yields what there is to say on /metrics."""
        presence = self.presence
        yield Sample("clickcurve_adopted_owners_total", self._adopted)
        yield Sample("clickcurve_dead_owners", len(self._abandoned()))
        yield Sample("clickcurve_rounds_total", presence.counted, ("counted",))
        yield Sample("clickcurve_rounds_total", presence.missed, ("missed",))
        if self.own is not None:
            yield Sample("clickcurve_frames_total", self.own.kept, ("kept",))
            yield Sample("clickcurve_frames_total", self.own.given_up, ("given_up",))
