"""The trusted clock of a process, and what of it is kept for the next one: in the data folder, by the first worker.

Each worker has a clock of its own. All read the same two clocks, so they say the same. What an operator accepts reaches
the other workers by a file whose time of writing they look at each second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from clickcurve.buckets.ladder import HOUR_S
from server import clock, data_folder
from server.clock import AHEAD_S, ClockStatus, KnownTime, TrustedClock
from server.job import Job
from server.logs import log
from server.metrics import Family, Sample
from server.process.journals import flushes_elsewhere
from server.settings.table import Settings
from storage.contract import OPEN, OwnerRecord, Store

CLOCK_S = 1
OTHER_CLOCKS_S = 60


FAMILIES = {
    "clickcurve_clock_offset_seconds": Family("The system's clock less the one that the server goes by."),
    "clickcurve_clock_steps_total": Family("Jumps of the system's clock by more than ten seconds."),
    "clickcurve_folding_held": Family("1 while what cannot be undone waits, since the clock jumped ahead."),
}


def open_clock(settings: Settings) -> TrustedClock:
    """Makes the trusted clock of a process from what is kept in the data folder. The command `serve` keeps it."""
    known: KnownTime | None = None
    with suppress(OSError, msgspec.DecodeError):  # a first start, or a file that a crash left empty
        known = msgspec.json.decode(data_folder.known_time(settings.data).read_bytes(), type=KnownTime)
    return TrustedClock(clock.now, clock.running, settings.clock_settle_s, clock.boot(), known)


def keep(data: Path, trusted: TrustedClock) -> None:
    """Writes what the next process needs. Raises OSError."""
    data_folder.replace_private(data_folder.known_time(data), msgspec.json.encode(trusted.known()).decode())


class KeptClock:
    """Looks at the clock each second, tells what it does, and keeps it. is_first: whether this worker keeps it."""

    def __init__(self, settings: Settings, trusted: TrustedClock, *, is_first: bool) -> None:
        self.clock = trusted
        self._data, self._is_first = settings.data, is_first
        self._logged = self._kept = (0, 0, False)
        self._kept_at, self._flushes = -clock.NEVER, 0
        self._failed = False
        self._ahead: set[int] = set()  # owners of whose clocks the log has
        self._accepted = data_folder.accepted_at(settings.data)

    async def visit(self, flushes: int = 0) -> ClockStatus:
        """Looks once. flushes: how many there were, since each renews what is kept."""
        accepted = data_folder.accepted_at(self._data)
        if accepted != self._accepted:
            self._accepted = accepted
            self.clock.accept()
        status = self.clock.status()
        self._tell(status)
        if self._is_first:
            await self._keep(flushes, status)
        return status

    async def compare(self, owners: Sequence[OwnerRecord]) -> None:
        """Compares the clock with when other machines have flushed last; tells of each that is far ahead, once."""
        careful = self.clock.careful()
        if self.clock.learn_others(flushes_elsewhere(owners)):
            log.info("clock confirmed", extra={"by": "the flushes of other machines"})
        ahead = {each.owner: each for each in owners if each.state == OPEN and each.begun_at > careful + AHEAD_S}
        for owner in ahead.keys() - self._ahead:
            off_s = round(ahead[owner].begun_at - careful)
            log.warning("other clock ahead", extra={"owner": owner, "place": ahead[owner].place, "off_s": off_s})
        self._ahead = {*ahead}

    async def accept(self) -> float:
        """Takes the wall clock's time at once, here and in the other workers; returns by how much the time moved."""
        moved_s = self.clock.accept()
        log.info("clock accepted", extra={"moved_s": round(moved_s, 3)})
        await asyncio.to_thread(data_folder.note_accepted, self._data)
        self._accepted = data_folder.accepted_at(self._data)
        await self.visit()
        return moved_s

    def _tell(self, status: ClockStatus) -> None:
        """Logs each change once."""
        steps, settled, held = self._logged
        if self.clock.steps != steps:
            then = "hits are stamped as if it had not, until it has held" if status.state != "ok" else "it is followed"
            log.warning("clock stepped", extra={"clock": status.state, "off_s": round(status.off_s, 3), "then": then})
        if self.clock.settled != settled:
            log.info("clock settled", extra={"followed": self.clock.followed})
        if status.folding_held and not held:
            then = "it goes on after 24 h of this time, or with `clickcurve clock accept`"
            log.warning(
                "folding held", extra={"reason": "the clock is ahead by a jump of more than an hour", "then": then}
            )
        self._logged = self.clock.steps, self.clock.settled, status.folding_held

    async def _keep(self, flushes: int, status: ClockStatus) -> None:
        is_due = clock.running() - self._kept_at >= HOUR_S
        if not is_due and flushes == self._flushes and self._kept == self._logged:
            return
        try:
            await asyncio.to_thread(keep, self._data, self.clock)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("clock not kept", extra={"reason": str(error), "then": "it is tried again"})
            self._failed = True
            return
        self._kept_at, self._flushes, self._kept = clock.running(), flushes, self._logged

    def jobs(self, flushes: Callable[[], int], store: Store) -> Iterator[Job]:
        """Yields what looks at the clock, and what compares it with those of others of the store. flushes: how many."""

        async def visit() -> None:
            await self.visit(flushes())

        async def compare() -> None:
            await self.compare(await asyncio.to_thread(store.owners))

        yield Job("clock", visit, CLOCK_S)
        if store.shared:
            yield Job("other_clocks", compare, OTHER_CLOCKS_S)

    def samples(self) -> Iterator[Sample]:
        """Yields what there is to say on /metrics."""
        status = self.clock.status()
        yield Sample("clickcurve_clock_offset_seconds", status.off_s)
        yield Sample("clickcurve_clock_steps_total", self.clock.steps)
        yield Sample("clickcurve_folding_held", status.folding_held)
