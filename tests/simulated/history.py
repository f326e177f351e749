"""Random histories of a few machines over one simulated cluster, each decided by its seed.

What may happen: batches with and without ids, sent once, again, and to two machines at once; flushes whose n-th call
fails, ends the process or puts it to sleep; kills, power failures, processes that sleep and wake up later; journals
copied with both started, or put back from an earlier copy; owners closed, taken over, retired; links erased; rows
folded; nodes of the cluster down; days that pass; and readers in between, who ask any machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from clickcurve.buckets.errors import JournalSuperseded
from clickcurve.buckets.ladder import fold_day
from ingest.corrections import CORRECTIONS_SOURCE
from ingest.owner import ID_WINDOW_S
from tests.audit.journals import Copy, SentBatch
from tests.ingest.journal.faulty_disk import Fault as DiskFault
from tests.ingest.journal.faulty_disk import FaultyDisk
from tests.simulated.cluster import REPLICAS, Faults
from tests.simulated.connection import Fault
from tests.simulated.judgement import judge
from tests.simulated.machine import Machine, OpenStore, Process, copied
from tests.simulated.simulation import DAY_S, MakeCluster, Simulation

MACHINES_AT_MOST = 4
FAILING_STARTS = 0.3
FOLLOWS_WITHIN, BEGINS_WITHIN = 800, (60, 200)  # events
HITS = 3  # of which one says the referrer that is called, as a rule
RESTARTED = 0.2  # how likely a process that was fenced is restarted, at each step

# How often each action is drawn.
USUAL = {
    "post": 30.0, "to_two": 5.0, "again": 8.0, "read": 22.0, "flush": 22.0, "faulty_flush": 10.0, "fold": 1.5,
    "kill": 5.0, "start": 8.0, "pause": 3.0, "wake": 3.0, "copy": 0.7, "snapshot": 1.0, "put_back": 0.7,
    "close": 1.0, "new_machine": 0.8, "retire": 0.3, "lose_machine": 0.3, "disk_fault": 1.0, "erase": 1.5,
    "node_down": 1.0, "node_up": 2.0, "wait": 5.0, "disavow": 0.0, "undo": 0.0, "follow": 0.0, "cross": 0.0,
}  # fmt: skip


def usual_faults(rnd: Random) -> Faults:
    return Faults(
        lost=rnd.choice([0, 0.02, 0.1, 0.25]),
        late=rnd.choice([0, 0.05, 0.15, 0.3]),
        twice=rnd.choice([0, 0.05]),
        answer_lost=rnd.choice([0, 0.03, 0.15]),
        hasty=rnd.choice([0, 0, 0.02]),
        stalled=rnd.choice([0, 0.05, 0.15]),
        slow=rnd.choice([0, 0.1]),
        repair=rnd.random() < 0.6,
    )


@dataclass(frozen=True)
class Plot:
    """What histories are about. weights: where they differ from USUAL. waits_s: by how much time may pass at once."""

    steps: int = 120
    machines: tuple[int, int] = (2, 3)
    links: int = 3
    links_at_once: int = 3  # of a batch, at most
    ids: float = 0.5  # share of the batches
    turns: int = 40  # events between two steps, at most
    weights: dict[str, float] = field(default_factory=dict)
    faults: Callable[[Random], Faults] = usual_faults
    waits_s: tuple[float, ...] = (1, 15, 60, 3_600, DAY_S, 2.5 * DAY_S)
    sells: bool = False  # each click comes with a sale; of journals in the cluster


class History(Simulation):
    """One history. `tell` it once; raises Wrong, or whatever else the program must not raise."""

    def __init__(self, seed: int, plot: Plot, open_store: OpenStore, make_cluster: MakeCluster) -> None:
        super().__init__(Random(seed), open_store, make_cluster)
        self.plot = plot
        self.cluster.faults = plot.faults(self.rnd)
        self.links = [f"link {n}" for n in range(plot.links)]
        self.snapshots: list[tuple[Machine, FaultyDisk, Copy]] = []
        weights = {**USUAL, **plot.weights}
        self._actions = [getattr(self, name) for name in weights]
        self._weights = list(weights.values())

    def tell(self) -> None:
        with self.stage.running() as loop:
            loop.run_until_complete(self._tell())

    async def _tell(self) -> None:
        for _ in range(self.rnd.randint(*self.plot.machines)):
            self.add_machine()
        for _ in range(self.plot.steps):
            self.counted["steps"] += 1
            action = self.rnd.choices(self._actions, self._weights)[0]
            self.stage.note("---", action.__name__, self.now)
            await action()
            await self.stage.pass_turns(self.rnd.randint(0, self.plot.turns))
            for machine in list(self.machines):
                await self._tend(machine)
            self.check()
        await judge(self)
        self.check()

    async def _tend(self, machine: Machine) -> None:
        """Buries dead processes, and some time later restarts fenced ones."""
        process = machine.process
        if process is not None and not process.life.alive:
            await self.bury(machine)
        elif process is not None and process.fenced and self.rnd.random() < RESTARTED:
            if isinstance(process.fenced, JournalSuperseded):
                await self.quarantine(machine)
            else:
                await self.bury(machine)
            self.start_process(machine)

    # --- requests -------------------------------------------------------------------------------------------------
    def _any(self) -> Process | None:
        running = self.running()
        return self.rnd.choice(running) if running else None

    def _link(self) -> str:
        return self.rnd.choice(self.links)

    def _batch(self, id_: str | None) -> SentBatch:
        for n, link in enumerate(self.links):
            if not self.auditor.has_room(link):
                self.links[n] = f"link {self.number()}"
        at_most = min(self.plot.links_at_once, len(self.links))
        links = self.rnd.sample(self.links, self.rnd.randint(1, at_most))
        return self.auditor.batch(links, id_, self.now)

    def _late_s(self) -> int:
        return self.rnd.choice([0, 0, 0, 3_000, DAY_S, 40 * DAY_S, 500 * DAY_S])

    async def post(self) -> None:
        if process := self._any():
            id_ = f"id {self.number()}" if self.rnd.random() < self.plot.ids else None
            self.spawn(process, self.send_to, self._batch(id_), self._late_s())

    async def to_two(self) -> None:
        """A batch with an id, to two machines at once."""
        running = self.running()
        if running:
            sent = self._batch(f"id {self.number()}")
            for process in self.rnd.sample(running, min(2, len(running))):
                self.spawn(process, self.send_to, sent)

    async def again(self) -> None:
        """A client repeats what carried an id, at any machine, within the window."""
        recent = [sent for sent in self.auditor.sent[-30:] if sent.id and self.now - sent.at < ID_WINDOW_S - 3_600]
        process = self._any()
        if recent and process:
            self.spawn(process, self.send_to, self.rnd.choice(recent))

    async def read(self) -> None:
        if process := self._any():
            self.spawn(process, self.read_at, self._link())

    async def erase(self) -> None:
        if process := self._any():
            self.spawn(process, self.erase_at, self._link())

    # --- rules that call hits bots --------------------------------------------------------------------------------
    async def disavow(self) -> None:
        if process := self._any():
            self._may_fail(process)
            self.spawn(process, self.disavow_at, self._link())

    async def undo(self) -> None:
        if process := self._any():
            self._may_fail(process)
            self.spawn(process, self.undo_at, self._link())

    async def follow(self) -> None:
        if process := self._any():
            self._may_fail(process)
            self.spawn(process, self.follow_at)

    async def cross(self) -> None:
        """A link is deleted at one machine, and hit again there, while another carries its rule out or undoes it."""
        running = self.running()
        if len(running) > 1:
            link, one = self._link(), next(filter(self._carries_out, running), running[0])
            other = self.rnd.choice([each for each in running if each is not one])
            self._hit(one, link)
            work = self.disavow_at
            if self.rnd.random() < 0.6:
                followed = self.counted["followed"]
                self.spawn(one, work, link)
                await self._pass_until(lambda: self.counted["followed"] > followed, FOLLOWS_WITHIN)
                work = self.undo_at
            begun = one.corrections_begun
            self.spawn(one, work, link)
            await self._pass_until(lambda: one.corrections_begun > begun, self.rnd.randint(*BEGINS_WITHIN))
            await self.stage.pass_turns(self.rnd.randint(0, 60))
            self.spawn(other, self.erase_at, link)
            await self.stage.pass_turns(self.rnd.randint(0, 60))
            self._hit(other, link)
            self.spawn(other, self.flush_at)

    def _hit(self, process: Process, link: str) -> None:
        for _ in range(HITS):
            if self.auditor.has_room(link):
                self.spawn(process, self.send_to, self.auditor.batch([link], None, self.now))

    async def _pass_until(self, condition: Callable[[], bool], turns: int) -> None:
        for _ in range(turns // 10):
            if condition():
                return
            await self.stage.pass_turns(10)

    def _carries_out(self, process: Process) -> bool:
        source = self.cluster.everything("sources").get((CORRECTIONS_SOURCE,))
        return source is not None and source["owner"] == process.owner.number

    def _may_fail(self, process: Process) -> None:
        if self.rnd.random() < 0.2:
            self._let_fail(process)

    # --- flushes --------------------------------------------------------------------------------------------------
    async def flush(self) -> None:
        if process := self._any():
            self.spawn(process, self.flush_at)

    async def faulty_flush(self) -> None:
        """A flush in which one of the next calls to the cluster fails, ends the process, or puts it to sleep."""
        if process := self._any():
            self._let_fail(process)
            self.spawn(process, self.flush_at)

    def _let_fail(self, process: Process) -> None:
        fault = Fault(self.rnd.choice(["before", "half", "after"]), self.rnd.choice(["fail", "kill", "pause"]))
        process.connection.fault_at[process.connection.calls + self.rnd.randint(1, 16)] = fault

    async def fold(self) -> None:
        """The daily pass over rows that fell quiet."""
        if (process := self._any()) and not process.fenced:
            day = fold_day(int(process.machine.clock()))
            self.spawn(process, self.fold_at, day)

    # --- processes ------------------------------------------------------------------------------------------------
    async def kill(self) -> None:
        machines = [machine for machine in self.machines if machine.process is not None]
        if machines:
            await self.bury(self.rnd.choice(machines))

    async def start(self) -> None:
        machines = [machine for machine in self.machines if machine.process is None]
        if machines:
            machine = self.rnd.choice(machines)
            self.start_process(machine)
            if machine.process is not None and self.rnd.random() < FAILING_STARTS:
                self._let_fail(machine.process)

    async def pause(self) -> None:
        if process := self._any():
            process.life.paused = True

    async def wake(self) -> None:
        asleep = [machine.process for machine in self.machines if machine.process and machine.process.life.paused]
        if asleep:
            self.stage.resume(self.rnd.choice(asleep).life)

    async def close(self) -> None:
        if (process := self._any()) and not process.closing:
            self.spawn(process, self.close_at)

    async def disk_fault(self) -> None:
        """The n-th call of a disk fails, or ends the process."""
        if process := self._any():
            way = self.rnd.choice(["before", "half", "after", "stop", "stop after", "short"])
            process.machine.disk.fault = DiskFault(None, self.rnd.randint(1, 8), way)

    # --- machines and journals ------------------------------------------------------------------------------------
    async def new_machine(self) -> None:
        if len(self.machines) < MACHINES_AT_MOST:
            self.add_machine()

    async def lose_machine(self) -> None:
        """A machine is lost with its disk, and a person says so, or does not know yet."""
        if len(self.machines) > 1:
            machine = self.rnd.choice(self.machines)
            if self.rnd.random() < 0.5:
                await self.retire_machine(machine)
            await self.lose(machine)

    async def retire(self) -> None:
        """The owner of a machine that lives is said to be lost."""
        await self.retire_machine(self.rnd.choice(self.machines))

    async def copy(self) -> None:
        """A journal is copied to another machine, and both are started."""
        if len(self.machines) < MACHINES_AT_MOST:
            machine = self.rnd.choice(self.machines)
            copy = machine.copy.copied(f"copy {self.number()} of {machine.copy.name}")
            self.add_machine(copied(machine.disk, self.rnd.getrandbits(32)), copy)

    async def snapshot(self) -> None:
        machine = self.rnd.choice(self.machines)
        doubtful = machine.copy.doubtful
        copy = machine.copy.copied(f"snapshot {self.number()} of {machine.copy.name}")
        copy.given_up, machine.copy.doubtful = True, doubtful  # nothing comes of it until it is put back
        self.snapshots.append((machine, copied(machine.disk, self.rnd.getrandbits(32)), copy))

    async def put_back(self) -> None:
        """A machine's journal is restored from an earlier copy."""
        kept = [snapshot for snapshot in self.snapshots if snapshot[0] in self.machines]
        if kept:
            machine, disk, copy = snapshot = self.rnd.choice(kept)
            self.snapshots.remove(snapshot)
            if machine.process is not None:
                await self.bury(machine)
            self.give_up(machine)
            copy.given_up = False
            machine.disk, machine.copy = disk, copy
            self.start_process(machine)

    # --- the cluster and time -------------------------------------------------------------------------------------
    async def node_down(self) -> None:
        self.cluster.down.add(self.rnd.randrange(REPLICAS))

    async def node_up(self) -> None:
        if self.cluster.down:
            self.cluster.down.remove(self.rnd.choice(sorted(self.cluster.down)))

    async def wait(self) -> None:
        """Time passes; not much while an id is sent, which would outlast the time in which it counts once."""
        wait_s = self.rnd.choice(self.plot.waits_s)
        if wait_s <= 60 or not any(sent.under_way and sent.id for sent in self.auditor.sent):
            self.now += wait_s
