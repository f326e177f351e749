"""Histories in which siblings adopt: a process opens the journal of a dead one beside its own, empties and closes it.

The adopter is another owner of a process that lives on, and dies with it. It may be killed or put to sleep at any call,
and then the next one adopts, or a process starts with the journal.
"""

from __future__ import annotations

from contextlib import suppress

from clickcurve.buckets.errors import ClickcurveError, StoreUnavailable
from clickcurve.pending import Pending
from query.reader import Reader
from tests.audit.journals import Wrong
from tests.ingest.journal.faulty_disk import Stopped
from tests.simulated.history import FAILING_STARTS, History, Plot
from tests.simulated.machine import Machine, Process
from tests.simulated.mutants import ONLY, late
from tests.simulated.simulation import token_of

ADOPTIONS = Plot(
    faults=late, steps=160, machines=(3, 3), links=4,
    weights={
        **ONLY, "post": 40.0, "read": 8.0, "adopt": 25.0, "kill": 8.0, "start": 5.0, "flush": 12.0,
        "faulty_flush": 12.0, "pause": 2.0, "wake": 4.0,
    },
)  # fmt: skip


class AdoptingHistory(History):
    """A history with one action more: `adopt`."""

    def running(self) -> list[Process]:
        return [process for process in super().running() if not isinstance(process, Adopter)]

    async def bury(self, machine: Machine) -> None:
        if machine.process is not None:  # an adopter may have ended by itself
            await super().bury(machine)

    async def adopt(self) -> None:
        dead, siblings = [each for each in self.machines if each.process is None], self.running()
        if not dead or not siblings:
            return
        machine, sibling = self.rnd.choice(dead), self.rnd.choice(siblings)
        machine.copy.holds(self._sent_in([batch for batches in machine.content() for batch in batches]))
        self.note(sibling, "adopts", machine.copy.name, machine.identity())
        try:
            adopter = machine.process = Adopter(
                machine, sibling.life, sibling.connection, self.open_store, token_of(sibling.life, self.rnd)
            )
        except (StoreUnavailable, Stopped):
            machine.disk.kill()
            return
        adopter.show_at(sibling)
        if self.rnd.random() < FAILING_STARTS:
            self._let_fail(sibling)
        self.spawn(adopter, self.adopt_at)

    async def adopt_at(self, adopter: Process) -> None:
        """Flushes, and closes what the store has taken. If it is fenced, its whole process is started again later."""
        with suppress(ClickcurveError):
            await self.flush_now(adopter)
            await self.flush_now(adopter)
        if adopter.fenced:
            return
        machine, copy = adopter.machine, adopter.machine.copy
        held = [sent for sent, surely in copy.batches.items() if surely]
        try:
            await adopter.owner.close()
        except ClickcurveError:
            self.counted["failed adoptions"] += 1
        else:
            self.counted["adoptions"] += 1
            self.auditor.flushed(copy, held)
            if any(machine.content()):
                raise Wrong(f"{adopter.life.name} has adopted {copy.name}, and it is not empty")
        if machine.process is adopter:
            machine.process = None


class Adopter(Process):
    """An owner without requests, over the journal of a machine whose process is dead; its life is a sibling's."""

    def show_at(self, sibling: Process) -> None:
        """Lets the sibling's readers see what it holds, from the first flush that fails until it has ended."""
        before = sibling.reader

        def pending(key: str) -> list[Pending]:
            shows = self.machine.process is self and self.owner.status.failed_flushes and not self.fenced
            return [*before._pending(key), *(self.owner.pending(key) if shows else ())]

        sibling.reader = Reader(sibling.store.rows, pending, sibling.owner.revisit, sibling.store.ladder)
