"""A campaign: three owners over a ring of three real nodes, clients that never stop, faults of every kind, one verdict.

Every node of the ring has a proxy in front of it, and that is all that drivers see. One node and one owner have clocks
that are five minutes ahead. What happens when comes from a seed; what it meets is up to the machine.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from storage.cassandra.uri import parse
from testing.cassandra.question import ask
from testing.cassandra.tables import make_tables
from tests.audit.hit_source import HitSource
from tests.audit.several_nodes import NodesAuditor
from tests.cassandra.front import Front, fronted
from tests.chaos.faults import Done, OwnerFaults, Rates, RingFaults
from tests.chaos.holders import HoldersInCluster, HoldersOnDisks
from tests.chaos.lost_processes import LostProcesses
from tests.chaos.owners import Owner, most_at_once
from tests.chaos.traffic import Readers, Writers
from tests.chaos.verdict import Verdict, judge, judge_owners, until_adopted, verify
from tests.crash.load import Mix, Requests

OWNERS = 3
AHEAD_S = 300
NODE_AHEAD, OWNER_AHEAD = 1, 2  # whose clocks are wrong
PATIENCE_S = 900.0  # for everything before and after the faults
# Few rows with one hit only, and ids in measure: each is a conditional update of its own.
MIX = Mix(by_path=1, one=6, one_with_id=4, batch=4, batch_with_id=4, batch_of_ids=1, batch_hits=(3, 30), ids_in_batch=8)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a campaign lasts and how hard it is. With the journal in the cluster each start has a new folder."""

    seconds: float
    journal: str = "disk"  # or cluster
    rates: Rates = field(default_factory=Rates)
    flush_s: float = 1.0
    timeout_s: float = 4.0  # of a request to the ring, with its repeats
    writers: int = 3  # at each node
    write_pace_s: float = 0.05
    read_pace_s: float = 0.02
    open_keys: int = 60
    # A campaign goes on until these are reached, and each kind of fault has come.
    least_dropped: int = 0
    least_dropped_conditional: int = 0
    least_reads: int = 0
    least_certain: int = 0  # hits that reads had to show

    def settings(self) -> dict[str, str]:
        """The settings of the owners, as environment variables."""
        return {
            "CLICKCURVE_FLUSH_S": f"{self.flush_s:g}",
            "CLICKCURVE_JOURNAL": self.journal,
            "CLICKCURVE_BREAKDOWN_DIMENSIONS": "ref,source",
        }


def long_plan(journal: str, seconds: float) -> Plan:
    """The campaign of `make chaos`, with journals on disks or in the cluster."""
    least = Plan(seconds, least_dropped=int(2.5 * seconds), least_dropped_conditional=int(0.25 * seconds))
    if journal == "disk":
        return least
    # Away for so long that a start and the servers that go on want the owner at the same time, or longer.
    rates = Rates(
        owner_kill_every_s=30.0,
        owner_away_s=(0.0, 24.0, 40.0),
        owner_pause_every_s=15.0,
        owner_paused_s=(3.0, 66.0),
    )
    return replace(least, journal=journal, rates=rates, flush_s=3.0)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Everything that a report tells. Times without success are the longest: at one node, at all of them together."""

    seed: int
    seconds: float
    faults: Done
    auditor: NodesAuditor
    writers: Writers
    readers: Readers
    writes_down_s: tuple[float, float]
    reads_down_s: tuple[float, float]
    recovered_s: float  # from the last fault until everything was up and flushed
    flushes: Sequence[int]  # of each owner
    verdict: Verdict
    lost: LostProcesses
    most_at_once: int  # processes
    troubles: Sequence[str]  # what owners said or did that they never may

    def wrong(self) -> list[str]:
        """Every sentence that must not be."""
        return [*self.troubles, *self.lost.never_shown(), *self.readers.wrong, *self.verdict.wrong]


@dataclass(frozen=True, slots=True)
class Stage:
    """The ring behind its proxies, and the owners on it; the ring is up, the owners are not. No front: no faults of a
    ring."""

    front: Front | None
    owners: Sequence[Owner]
    store: str

    def owner_states(self) -> dict[int, str]:
        """The state of each owner in the store, as a quorum of the nodes has it."""
        address = parse(self.store)
        rows = ask(address.hosts[0], address.port, f"SELECT owner, state FROM {address.keyspace}.owners", "QUORUM")
        return {int.from_bytes(owner or b""): (state or b"").decode() for owner, state in rows}


@contextmanager
def stage(folder: Path, plan: Plan, chance: random.Random) -> Iterator[Stage]:
    """Everything that a campaign needs; nothing of it runs any more when the block ends."""
    with ring(folder) as front, stage_on(front, folder, plan, chance) as on:
        yield on


def ring(folder: Path) -> AbstractContextManager[Front]:
    """Three nodes behind proxies, one of which has a wrong clock."""
    return fronted(folder / "ring", {NODE_AHEAD: AHEAD_S})


@contextmanager
def stage_on(front: Front, folder: Path, plan: Plan, chance: random.Random) -> Iterator[Stage]:
    """Owners on a ring, in a keyspace of the plan's journal."""
    keyspace = f"chaos_{plan.journal}"
    store = f"cassandra://{','.join(front.addresses)}:{front.port}/{keyspace}?timeout_s={plan.timeout_s:g}"
    make_tables(store, replication=3)
    owners = [
        Owner(
            number,
            folder / f"owner{number}" / "data",
            store,
            random.Random(chance.random()),
            plan.settings(),
            ahead_s=AHEAD_S if number == OWNER_AHEAD else 0,
            keeps_folder=plan.journal == "disk",
        )
        for number in range(OWNERS)
    ]
    with ended(owners):
        yield Stage(front, owners, store)


@contextmanager
def ended(owners: Sequence[Owner]) -> Iterator[None]:
    """None of the owners runs any more when the block ends."""
    try:
        yield
    finally:
        for owner in owners:
            owner.server.kill()


class Campaign:
    """One campaign on a stage. `play` it once."""

    def __init__(self, stage: Stage, plan: Plan, seed: int, chance: random.Random) -> None:
        self._stage = stage
        self._plan = plan
        self._seed = seed
        self._chance = chance
        self._source = HitSource(f"{seed:x}-", self._fork(), plan.open_keys)
        self._auditor = NodesAuditor((HoldersOnDisks if plan.journal == "disk" else HoldersInCluster)(stage.owners))
        self._ring_faults = RingFaults(stage.front, plan.rates, self._fork()) if stage.front else None

    def _fork(self) -> random.Random:
        """Chance of its own for one part, so that the others' draws do not change it."""
        return random.Random(self._chance.random())

    async def play(self) -> Outcomes:
        """All of it. The owners are stopped when this returns. ExceptionGroup if any part of it fails."""
        async with asyncio.timeout(self._plan.seconds + 2 * PATIENCE_S), asyncio.TaskGroup() as group:
            for owner in self._stage.owners:
                group.create_task(owner.supervise())
            for owner in self._stage.owners:
                await owner.up.wait()
            return await self._played(group)

    async def _played(self, group: asyncio.TaskGroup) -> Outcomes:
        plan, owners = self._plan, self._stage.owners
        requests = Requests(self._source, self._fork(), MIX)
        writers = Writers(group, owners, self._auditor, requests, self._fork(), plan.writers, plan.write_pace_s)
        readers = Readers(group, owners, self._auditor, self._fork(), plan.read_pace_s)
        lost = LostProcesses(group, owners, self._auditor)
        owner_faults = OwnerFaults(owners, plan.rates, self._fork(), lost.follow)
        begun = time.monotonic()
        for faults in filter(None, (owner_faults, self._ring_faults)):
            faults.begin(group)
        await self._suffer(readers)
        seconds = time.monotonic() - begun
        down = writers.available.end(), readers.available.end()
        recovered_s = await self._recover(owner_faults, writers)
        await readers.stop()
        await lost.end()
        verdict = await judge(owners, self._auditor)
        most = most_at_once(owners)
        if plan.journal == "cluster":
            judge_owners(len(self._stage.owner_states()), most, verdict)
        await asyncio.gather(*(owner.stop() for owner in owners))
        await asyncio.to_thread(verify, self._stage.store, verdict)
        return Outcomes(
            self._seed,
            seconds,
            self._done(),
            self._auditor,
            writers,
            readers,
            *down,
            recovered_s,
            [owner.flushes for owner in owners],
            verdict,
            lost,
            most,
            [*self._too_few_dropped(), *(trouble for owner in owners for trouble in owner.troubles())],
        )

    async def _suffer(self, readers: Readers) -> None:
        """Let the faults go on for as long as planned, and until each has come and enough was dropped and read."""
        await asyncio.sleep(self._plan.seconds)
        late = time.monotonic() + PATIENCE_S
        while self._too_few_dropped() or self._too_few_read(readers) or not self._each_came():
            if time.monotonic() > late:
                break
            await asyncio.sleep(1.0)

    def _each_came(self) -> bool:
        done = self._done()
        if self._ring_faults is None:
            return done.owners_killed > 0
        of_nodes = (done.nodes_killed, done.nodes_suspended, done.connections_reset, done.stalls)
        return min(done.owners_killed, done.owners_paused, *of_nodes) > 0

    def _too_few_read(self, readers: Readers) -> bool:
        return readers.reads < self._plan.least_reads or readers.certain < self._plan.least_certain

    def _too_few_dropped(self) -> list[str]:
        """A sentence for each number that a ring's faults must reach and have not."""
        plan, done = self._plan, self._done()
        if self._ring_faults is None:
            return []
        least = {
            "answers": (done.answers_dropped, plan.least_dropped),
            "answers of conditional updates": (done.conditional_answers_dropped, plan.least_dropped_conditional),
        }
        return [f"only {n} {what} were dropped, not {wanted}" for what, (n, wanted) in least.items() if n < wanted]

    async def _recover(self, owner_faults: OwnerFaults, writers: Writers) -> float:
        """No further faults; how long it took until everything was up and flushed, in seconds."""
        begun = time.monotonic()
        if self._ring_faults is not None:
            await self._ring_faults.end()
        await owner_faults.end()
        await writers.stop()
        if self._plan.journal == "cluster":
            await until_adopted(self._stage.owners, self._stage.owner_states)
        for owner in self._stage.owners:
            await owner.calm()
        return time.monotonic() - begun

    def _done(self) -> Done:
        owners = self._stage.owners
        done = Done() if self._ring_faults is None else self._ring_faults.done()
        done.owners_killed = sum(owner.kills for owner in owners)
        done.owners_paused = sum(owner.pauses for owner in owners)
        return done
