"""A simulated cluster, the machines that use it, and the auditor of what they were sent: what can be done with them.

Everything that a process does is a task of its life. Whatever it raises that the program must not raise ends the
history.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, Breakdown, merge_breakdowns
from clickcurve.buckets.errors import ClickcurveError, JournalSuperseded, JournalUnknown, OwnerFenced, StoreUnavailable
from clickcurve.buckets.ladder import END_OF_TIME
from clickcurve.keys import link_key
from clickcurve.waiting import in_thread
from ingest.batch import Batch
from retention.run import run_pass
from server.corrections.rules import DisavowRule
from storage.contract import FINAL, RETIRED, Held, OwnerRecord, StoredLink
from storage.owners import is_open
from tests.audit.attributes import NOTHING_ERASED, batch_of, judge_words, values_of
from tests.audit.auditor import Outcome, digit_of
from tests.audit.journals import Copy, JournalsAuditor, SentBatch, Wrong
from tests.ingest.journal.faulty_disk import FaultyDisk, Stopped
from tests.ingest.owner_kit import minute_of
from tests.simulated.cluster import Cluster
from tests.simulated.connection import Connection
from tests.simulated.machine import Machine, OpenStore, Process
from tests.simulated.stage import Life, Stage

START = 1_772_000_000  # 2026-02-25
DAY_S = 86_400
CLOCKS_APART_S = 300.0  # of each machine, from the right time

MakeCluster = Callable[[Stage, Callable[[], float]], Cluster]


CALLED = "r1.example"  # the referrer of half of the hits that say anything


def rule_of(link: str) -> DisavowRule:
    """The rule of a link."""
    return DisavowRule(link_key(link), "ref", CALLED, 0, END_OF_TIME, 0)


def token_of(life: Life, rnd: Random) -> Callable[[], str]:
    """Gives another token each time, which nobody else gives."""
    return lambda: f"{life.name}, {rnd.getrandbits(64):x}"


class Simulation:
    process_class: ClassVar[type[Process]] = Process
    erased: ClassVar[Mapping[str, str]] = NOTHING_ERASED  # by dimension the value that was erased

    def __init__(self, rnd: Random, open_store: OpenStore, make_cluster: MakeCluster) -> None:
        self.rnd = rnd
        self.now = float(START + rnd.randrange(DAY_S))
        self.stage = Stage(rnd, rnd.choice([0.005, 0.02, 0.1]))
        self.cluster = make_cluster(self.stage, lambda: self.now)
        self.auditor = JournalsAuditor()
        self.machines: list[Machine] = []
        self.wrong: list[BaseException] = []
        self.counted: Counter[str] = Counter()
        self.partly_erased: set[str] = set()  # links whose deletion had no answer: one replica may know of it
        self.open_store = open_store
        self._numbers = 0

    async def end(self) -> None:
        """What is left to be done when the cluster is healed and everybody has flushed."""

    def judge_rows(self) -> None:
        """Raises what is wrong with rows at the end, when all that was late has come."""

    def judge_breakdown(self, what: str, counts: StoredLink, total: int, rows: Sequence[Breakdown]) -> None:
        """Raises what is wrong with a link's breakdowns, beside its rows of counts and their total."""
        if wrong := judge_words(what, total, values_of(merge_breakdowns(rows, 0, BREAKDOWN), self.erased)):
            raise Wrong(*wrong)

    def check(self) -> None:
        """Raises what has gone wrong until now."""
        for error in (*self.cluster.refused, *self.wrong, *self.stage.broken):
            raise error

    def note(self, who: Machine | Process, *what: object) -> None:
        name = who.life.name if isinstance(who, Process) else who.name
        self.stage.note(name, *what)

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    # --- machines and processes -----------------------------------------------------------------------------------
    def add_machine(self, disk: FaultyDisk | None = None, copy: Copy | None = None) -> Machine:
        name = f"machine {self.number()}"
        skew_s = self.rnd.choice([0.0, self.rnd.uniform(-CLOCKS_APART_S, CLOCKS_APART_S)])
        disk = disk or FaultyDisk(self.rnd.getrandbits(32))
        machine = Machine(name, disk, copy or Copy(name), lambda: self.now, skew_s)
        self.machines.append(machine)
        self.start_process(machine)
        return machine

    def start_process(self, machine: Machine) -> None:
        """A process that begins, as the program does, with a flush."""
        assert machine.process is None
        unfinished, waiting = machine.content()
        machine.copy.holds(self._sent_in([*unfinished, *waiting]))
        life = self.stage.life(f"{machine.name}, run {self.number()}")
        connection = Connection(self.cluster, life, self.rnd.choice([1, 3, 64]))
        self.note(machine, "starts", life.name, machine.copy.name, machine.identity())
        token = token_of(life, self.rnd)
        try:
            process = machine.process = self.process_class(machine, life, connection, self.open_store, token)
        except (StoreUnavailable, Stopped):
            machine.disk.kill()
            return
        if self.rnd.random() < 0.3:
            process.journal.in_memory = False  # its writes go to a thread
        self.spawn(process, self.flush_at)

    async def bury(self, machine: Machine) -> None:
        """The process is killed, if it is not dead yet."""
        assert machine.process is not None
        process, machine.process = machine.process, None
        self.note(process, "is buried")
        await self.stage.bury(process.life)
        machine.power_off(self.rnd)

    async def lose(self, machine: Machine) -> None:
        """The machine is lost, with its disk."""
        if machine.process is not None:
            await self.bury(machine)
        self.give_up(machine)
        self.machines.remove(machine)

    async def quarantine(self, machine: Machine) -> None:
        """As the program does with a journal that is superseded: it goes on with an empty one."""
        await self.bury(machine)
        self.give_up(machine)
        machine.disk = FaultyDisk(self.rnd.getrandbits(32))
        machine.copy = Copy(f"{machine.name}, new journal {self.number()}")

    def give_up(self, machine: Machine) -> None:
        self.note(machine, "gives its journal up", machine.copy.name)
        unfinished, waiting = (self._sent_in(batches) for batches in machine.content())
        self.auditor.give_up(machine.copy, unfinished, waiting)

    def _sent_in(self, batches: Iterable[Batch]) -> set[SentBatch]:
        """The auditor's batches, known by their weights."""
        return {
            self.auditor.by_key[link][digit_of(weight)]
            for batch in batches
            for people in (batch.people, *(identified.people for identified in batch.identified))
            for by_link in people.values()
            for link, weight in by_link.items()
        }

    def running(self) -> list[Process]:
        """Those that answer requests."""
        processes = [machine.process for machine in self.machines if machine.process is not None]
        return [process for process in processes if process.life.alive and not process.life.paused]

    def spawn(self, process: Process, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Something that this process does."""

        async def watched() -> None:
            try:
                await work(process, *args)
            except (Stopped, asyncio.CancelledError):
                raise
            except BaseException as error:
                self.wrong.append(error)

        self.stage.spawn(process.life, watched())

    # --- what a process is asked to do ----------------------------------------------------------------------------
    async def send_to(self, process: Process, sent: SentBatch, late_s: int = 0) -> None:
        """A batch, with or without an id."""
        batch = batch_of(sent, minute_of(self.now - late_s), sent.id)
        owner, copy = process.owner, process.machine.copy
        one = self.auditor.sending(sent, process.clock_us())
        self.note(process, "is sent", sent, sent.counts)
        try:
            duplicates = await owner.accept(batch)
        except (JournalUnknown, Stopped, asyncio.CancelledError) as error:
            self.auditor.end(one, Outcome.unknown)
            sent.lies_in(copy, surely=False)
            sent.stamps_us.append(max(owner._stamps.newest, process.clock_us()))
            if not isinstance(error, JournalUnknown):
                raise
        except ClickcurveError:
            self.auditor.end(one, Outcome.refused)
            self.note(process, "refuses", sent)
        else:
            self.note(process, "has taken", sent, "before" if duplicates else "")
            self.auditor.end(one, Outcome.acknowledged)
            sent.stamps_us.append(owner._stamps.newest)
            if not duplicates or sent.id in owner._buffers.filling.undecided:
                sent.lies_in(copy, surely=True)
            self.counted["acknowledged"] += 1

    async def flush_at(self, process: Process) -> None:
        """A flush by the clock: one that fails is tried again later."""
        with suppress(ClickcurveError):
            await self.flush_now(process)

    async def flush_now(self, process: Process) -> None:
        copy = process.machine.copy
        held = [sent for sent, surely in copy.batches.items() if surely]
        self.note(process, "flushes", held)
        try:
            await process.owner.flush()
        except (OwnerFenced, JournalSuperseded) as error:
            self._fenced(process, error)
            raise
        except ClickcurveError:
            self.counted["failed flushes"] += 1
            raise
        self.counted["flushes"] += 1
        self.note(process, "has flushed", held)
        self.auditor.flushed(copy, held)

    async def fold_at(self, process: Process, day: int) -> None:
        """The pass over rows that fell quiet; its flushes are noted like any other."""

        async def in_thread(call: Callable[..., Any], *args: Any) -> Any:
            return await self.stage.in_thread(process.life, lambda: call(*args))

        await run_pass(Folding(self, process), day, self.rnd.choice([1, 2, 1_000]), in_thread)

    def _fenced(self, process: Process, error: ClickcurveError) -> None:
        self.counted["fenced"] += 1
        self.note(process, "is fenced", error.detail)
        process.fenced = error
        if not process.machine.copy.doubtful and "days ago" not in error.detail:
            raise Wrong(f"{process.life.name}: its journal has no like, but was refused: {error.detail}")

    async def close_at(self, process: Process) -> None:
        """A clean stop. What could not be flushed stays in the journal."""
        copy = process.machine.copy
        held = [sent for sent, surely in copy.batches.items() if surely]
        process.closing = True
        self.note(process, "closes")
        try:
            await process.owner.close()
        except (OwnerFenced, JournalSuperseded) as error:
            self._fenced(process, error)
        except ClickcurveError:
            self.counted["failed flushes"] += 1
        else:
            if process.owner.status.state == "closed":
                self.counted["closed"] += 1
                self.auditor.flushed(copy, held)
                if any(process.machine.content()):
                    raise Wrong(f"{process.life.name} was closed, and its journal is not empty")
        self.note(process, "has ended")
        process.life.alive = False

    async def erase_at(self, process: Process, link: str) -> None:
        before = self.auditor.erasing(link)
        earliest_us = max(process.owner._stamps.newest + 1, process.clock_us())
        self.note(process, "erases", link, earliest_us)
        try:
            await process.corrections.erase_with(
                [link_key(link)], lambda keys, last: process.owner.erase(*keys, last=last)
            )
        except (ClickcurveError, Stopped, asyncio.CancelledError) as error:
            self.partly_erased.add(link)
            self.auditor.erasure_unknown(link, max(process.owner._stamps.newest, process.clock_us()))
            if not isinstance(error, ClickcurveError):
                raise
        else:
            self.partly_erased.discard(link)
            self.counted["erased"] += 1
            self.note(process, "has erased", link)
            self.auditor.erasure_done(link, (earliest_us, process.owner._stamps.newest), before)

    async def disavow_at(self, process: Process, link: str) -> None:
        """A rule that calls hits of one referrer of a link bots is sent."""
        self.note(process, "disavows", link)
        with suppress(ClickcurveError):
            await in_thread("writing a rule", process.corrections.book.add, rule_of(link))
        await self.follow_at(process)

    async def undo_at(self, process: Process, link: str) -> None:
        self.note(process, "undoes the rule of", link)
        with suppress(ClickcurveError):
            await in_thread("undoing a rule", process.corrections.book.undo, rule_of(link).id)
        await self.follow_at(process)

    async def follow_at(self, process: Process) -> None:
        """What a server does every two seconds: it knows the rules, and one of all carries them out."""
        await process.corrections.refresh()
        self.counted["followed"] += 1

    async def read_at(self, process: Process, link: str) -> None:
        """Reads at this machine: no less than it took itself and others had flushed, no more than was sent."""
        copy = process.machine.copy
        must = self.auditor.stored(link)
        own = {sent for sent, surely in copy.batches.items() if surely and sent.id is None and link in sent.counts}
        trusted = self._is_holder(process)
        self.note(process, "reads", link)
        try:
            row = await process.reader.row(link_key(link), int(process.machine.clock()))
        except StoreUnavailable:
            return
        self.counted["reads"] += 1
        holder = trusted and self._is_holder(process)
        self.note(process, "has read", link, f"{row.lifetime:#x}", "" if holder else "doubtful")
        if holder and not (process.fenced or process.closing or copy.given_up):
            must |= own
        self.auditor.check_batches(link, row.lifetime, must, f"a read at {process.life.name}", once=holder)

    def _is_holder(self, process: Process) -> bool:
        """Does it hold its owner? One that was taken over, or retired while a copy of its journal counts under another
        number, may not know yet: it adds what the other has flushed, and leaves out what it takes to be flushed."""
        if not process.machine.copy.doubtful:
            return True
        if process.owner.status.state == "unclaimed":
            return False
        identity = process.journal.state.identity
        stored = self.record(identity.owner)
        return is_open(stored, Held(identity.owner, identity.epoch, identity.holder))

    def record(self, owner: int) -> OwnerRecord | None:
        """What the cluster knows of an owner at this moment."""
        stored = self.cluster.everything("owners").get((owner,))
        return OwnerRecord(owner, **stored) if stored is not None else None  # type: ignore[arg-type]

    def records(self) -> list[OwnerRecord]:
        found = [self.record(key[0]) for key in self.cluster.everything("owners")]  # type: ignore[arg-type]
        return [record for record in found if record is not None]

    async def retire_machine(self, machine: Machine) -> None:
        """A person says that the machine of this owner is lost, which may be a mistake."""
        owner = machine.identity().owner
        record = self.record(owner)
        for other in self.machines:
            if other.identity().owner == owner or (record is not None and other.has_claimed(record)):
                other.copy.doubtful = True
        if record is not None and record.state not in FINAL:
            store = self.open_store(Connection(self.cluster, self.stage.nobody, 1), lambda: self.now)
            with suppress(StoreUnavailable):
                await self.stage.in_thread(
                    self.stage.nobody, lambda: store.claim(record, replace(record, state=RETIRED))
                )
                self.counted["retired"] += 1


class Folding:
    """The owner as the pass over quiet rows sees it."""

    def __init__(self, simulation: Simulation, process: Process) -> None:
        self._simulation, self._process = simulation, process
        self.revisit = process.owner.revisit
        self.due = process.owner.due
        self.visited = process.owner.visited

    async def flush(self) -> None:
        await self._simulation.flush_now(self._process)
