"""Duties: jobs that one process does for all that share a store, such as judging alerts.

The note of a duty names the process that has it, and the number of that process's last look. Every process looks every
few seconds. The holder raises its number. Another one takes the duty if the note is free, or stood still in GONE_LOOKS
looks in a row. A look counts only if the store answered. So neither an outage of the store nor clocks that differ make
a holder look gone.

Each change of the note says what it replaces (`Store.change_note`), so of several takers one wins. A holder that was
suspended for longer finds at its next look that another one has the duty. What it was doing meanwhile must do no harm:
what a duty does must be noted first, by changes that say what they replace.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b

import msgspec

from clickcurve.buckets.errors import StoreUnavailable
from server.job import Job
from server.logs import log
from server.metrics import Family, Sample
from storage.contract import Store
from storage.notes import NoteSpace, leave

DUTY = "duty:"  # then a job: which process of all that share the store does it
DUTY_NOTES = NoteSpace("duties", (DUTY,), leave)
GONE_LOOKS = 3
DUTIES_S = 5
_FREE = ""


FAMILIES = {
    "clickcurve_duty_held": Family("1 if this worker does the job for all servers of the store.", ("duty",)),
}


class DutyNote(msgspec.Struct, array_like=True, frozen=True):
    """Who has a duty. process: its random name. place: where it runs, for people. work: what it does, as a digest."""

    process: str
    place: str
    look: int
    work: str


class Duty:
    """A duty, as one process knows it. work: what its settings say is to be done. lost: ends what it was doing.

    is_held: whether it had the duty at its last look that the store answered.
    """

    def __init__(
        self, store: Store, name: str, work: Iterable[str], lost: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.name = name
        self.is_held = False
        self._store, self._note, self._lost = store, DUTY + name, lost
        self._work = blake2b("\n".join(sorted(work)).encode(), digest_size=8).hexdigest()
        self._process, self._place = secrets.token_hex(8), f"{socket.gethostname()}:{os.getpid()}"
        self._number = 0
        self._own: str | None = None  # what is noted while it has the duty; None: unknown
        self._seen: str | None = None
        self._stood_still = 0
        self._told_of = ""  # the process whose other settings were logged
        self._looking = asyncio.Lock()

    async def look(self) -> bool:
        """Goes on with the duty, or takes it if nobody has it; returns `is_held`. Raises StoreUnavailable."""
        async with self._looking:
            was_held, self.is_held = self.is_held, await asyncio.to_thread(self._look)
            if self.is_held and not was_held:
                log.info("duty taken", extra={"duty": self.name, "held_by": self._place})
            if was_held and not self.is_held:
                log.warning("duty lost", extra={"duty": self.name, "then": "another process does it"})
                if self._lost is not None:
                    await self._lost()
            return self.is_held

    def _look(self) -> bool:
        found, self._own = self._own, None  # after an error nobody knows what is noted
        if found is None:
            found = self._store.noted(self._note)
        self._number += 1
        own = msgspec.json.encode(DutyNote(self._process, self._place, self._number, self._work)).decode()
        if found is None:
            found = self._store.note(self._note, own)
        elif self._is_free(found):
            found = self._store.change_note(self._note, found, own)
        if found == own:
            self._own, self._seen = own, None
        return found == own

    def _is_free(self, found: str) -> bool:
        """Returns whether this process may replace what is noted. Call it once for each look."""
        if found == _FREE:
            return True
        holder = msgspec.json.decode(found, type=DutyNote)
        if holder.process == self._process:
            return True
        if holder.work != self._work and holder.process != self._told_of:
            self._told_of = holder.process
            then = "what only this server's settings name is not done"
            log.warning("other settings", extra={"duty": self.name, "held_by": holder.place, "then": then})
        self._stood_still = self._stood_still + 1 if found == self._seen else 0
        self._seen = found
        return self._stood_still >= GONE_LOOKS

    async def give_back(self) -> None:
        """Lets another process take the duty at its next look; this one looks no more. Raises StoreUnavailable."""
        own, self._own, self.is_held = self._own, None, False
        if own is not None:
            await asyncio.to_thread(self._store.change_note, self._note, own, _FREE)


class Duties:
    """The duties among the jobs of a process."""

    def __init__(self, store: Store, jobs: Iterable[Job], begin: Callable[[str], None]) -> None:
        """Makes them. begin: begins the job of this name now."""
        self._begin = begin
        self._jobs = [*jobs]
        self._duties = {
            job.name: Duty(store, job.name, job.duty.work, job.duty.lost) for job in self._jobs if job.duty is not None
        }

    def jobs(self) -> Iterator[Job]:
        """Yields the jobs, those of duties only for their holder, and the one that looks after the duties."""
        for job in self._jobs:
            duty = self._duties.get(job.name)
            yield job if duty is None else replace(job, function=partial(self._visit, duty, job.function))
        if self._duties:
            yield Job("duties", self._look, DUTIES_S)

    async def _visit(self, duty: Duty, visit: Callable[[], Awaitable[None]]) -> None:
        """Calls `visit` if this process has the duty, as the store says now."""
        if duty.is_held and await duty.look():
            await visit()

    async def _look(self) -> None:
        """Looks after all duties, and begins the jobs of those that this process has just taken."""
        for name, duty in self._duties.items():
            was_held = duty.is_held
            with suppress(StoreUnavailable):  # the next look is soon
                if await duty.look() and not was_held:
                    self._begin(name)

    def samples(self) -> Iterator[Sample]:
        """Yields what there is to say on /metrics."""
        for name, duty in self._duties.items():
            yield Sample("clickcurve_duty_held", duty.is_held, (name,))

    async def give_back(self) -> None:
        """Lets other processes take the duties at once. Raises StoreUnavailable: they take them after some looks."""
        for duty in self._duties.values():
            await duty.give_back()
