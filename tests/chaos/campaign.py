"""A campaign: three owners over a ring of three real nodes, clients that never stop, faults of every kind, one verdict.

Every node of the ring has a proxy in front of it, and that is all that drivers see. One node and one owner have clocks
that are five minutes ahead. What happens when comes from a seed; what it meets is up to the machine.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from server.settings import LADDER
from storage.cassandra_schema import apply
from storage.cassandra_session import connect
from storage.cassandra_uri import parse
from tests.cassandra.proxy import Proxy
from tests.cassandra.ring import Ring, place_three, running
from tests.chaos.audit import Verdict, audit, verify
from tests.chaos.book import Book
from tests.chaos.faults import Done, Faults, Rates
from tests.chaos.owners import Owner, flushes_of
from tests.chaos.traffic import Readers, Writers
from tests.crash.ledger import Ledger, Outcome
from tests.crash.load import Mix, Requests
from tests.crash.wire import Wire
from tests.running import PROGRAM

PROXIES = ("127.0.1.1", "127.0.1.2", "127.0.1.3")
AHEAD_S = 300
NODE_AHEAD, OWNER_AHEAD = 1, 2  # whose clocks are wrong
CALM_WITHIN_S = 120.0
LOOK_EVERY_S = 0.2
KEYSPACE = "chaos"
# Few rows with one hit only, and ids in measure: each is a conditional update of its own.
MIX = Mix(by_path=1, one=6, one_with_id=4, batch=4, batch_with_id=4, batch_of_ids=1, batch_hits=(3, 30), ids_in_batch=8)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a campaign lasts and how hard it is."""

    seconds: float
    rates: Rates = Rates()
    flush_s: float = 1.0
    timeout_s: float = 2.0  # of a request to the ring, with its repeats
    writers: int = 3  # at each node
    write_pace_s: float = 0.05
    read_pace_s: float = 0.02
    open_keys: int = 60


@dataclass(slots=True)
class Outcomes:
    """Everything that a report tells."""

    seed: int
    seconds: float
    faults: Done
    hits: dict[Outcome, int]
    tries: dict[Outcome, int]
    operations: int
    to_two_nodes: int
    repeats: int
    reads: int
    all_links_reads: int
    certain: int
    unanswered_reads: int
    wrong_reads: list[str]
    writes_down_s: tuple[float, float]  # longest: at one node, at all of them
    reads_down_s: tuple[float, float]
    recovered_s: float  # from the end of the faults until everything was flushed
    flushes: list[int]
    verdict: Verdict
    troubles: list[str] = field(default_factory=list)

    def wrong(self) -> list[str]:
        """Every sentence that must not be."""
        return [*self.troubles, *self.wrong_reads, *self.verdict.wrong]


@dataclass(frozen=True, slots=True)
class Stage:
    """The ring, its proxies, and the owners on it, none of them started."""

    ring: Ring
    proxies: Sequence[Proxy]
    owners: Sequence[Owner]
    store: str


@contextmanager
def stage(folder: Path, plan: Plan, chance: random.Random, module: str = PROGRAM) -> Iterator[Stage]:
    """Everything that a campaign needs; nothing of it runs any more when the block ends."""
    with ExitStack() as ends:
        places = place_three(folder / "ring", announced=PROXIES, clock_skew_s={NODE_AHEAD: AHEAD_S})
        ring = ends.enter_context(running(places))
        prepared: dict[bytes, str] = {}
        proxies = [
            ends.enter_context(Proxy((node.address, node.port), (address, node.port), prepared))
            for node, address in zip(ring.nodes, PROXIES, strict=True)
        ]
        store = f"cassandra://{','.join(PROXIES)}:{ring.port}/{KEYSPACE}?timeout_s={plan.timeout_s:g}"
        make_tables(store)
        owners = []
        for number in range(len(PROXIES)):
            ahead_s = AHEAD_S if number == OWNER_AHEAD else 0
            settings = {"CLICKCURVE_FLUSH_S": f"{plan.flush_s:g}"}
            data = folder / f"owner{number}" / "data"
            owners.append(Owner(number, data, store, random.Random(chance.random()), settings, ahead_s, module))
            ends.callback(owners[-1].server.kill)
        yield Stage(ring, proxies, owners, store)


def make_tables(store: str) -> None:
    """What `clickcurve schema apply` does."""
    session = connect(parse(store))
    try:
        apply(session, LADDER)
    finally:
        session.close()


async def play(stage: Stage, plan: Plan, seed: int, chance: random.Random) -> Outcomes:
    """The campaign itself, on a stage that is up. All owners are stopped when this returns."""
    owners = stage.owners
    supervisors = [asyncio.create_task(owner.supervise()) for owner in owners]
    ledger = Ledger(f"{seed:x}-", random.Random(chance.random()), plan.open_keys)
    book = Book(ledger, lambda: flushes_of(owners))
    for owner in owners:
        await owner.up.wait()
    requests = Requests(ledger, random.Random(chance.random()), MIX)
    begun = time.monotonic()
    writers = Writers(owners, book, requests, random.Random(chance.random()), plan.writers, plan.write_pace_s)
    readers = Readers(owners, book, random.Random(chance.random()), plan.read_pace_s)
    faults = Faults(stage.ring, stage.proxies, owners, plan.rates, random.Random(chance.random()))
    faults.begin()
    clients = [*writers.tasks, *readers.tasks]
    while time.monotonic() - begun < plan.seconds:
        faults.check()
        done, _ = await asyncio.wait([*clients, *supervisors], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    lasted_s = time.monotonic() - begun
    writes_down_s, reads_down_s = writers.available.end(), readers.available.end()
    await faults.end()
    healed = time.monotonic()
    await writers.stop()
    await calm(owners)
    recovered_s = time.monotonic() - healed
    await readers.stop()
    verdict = await audit(owners, ledger)
    flushes = flushes_of(owners)
    for owner in owners:
        await owner.stop()
    await asyncio.gather(*supervisors)
    verdict.verified, broken = await asyncio.to_thread(verify, stage.store)
    verdict.wrong += broken
    return Outcomes(
        seed=seed,
        seconds=lasted_s,
        faults=faults.done,
        hits=ledger.sums(),
        tries={outcome: writers.outcomes[outcome] for outcome in Outcome},
        operations=len(book.operations),
        to_two_nodes=writers.sent_to_two,
        repeats=writers.repeats,
        reads=readers.reads,
        all_links_reads=readers.all_links_reads,
        certain=readers.certain,
        unanswered_reads=readers.unanswered,
        wrong_reads=[sentence for sentence, _ in readers.wrong],
        writes_down_s=writes_down_s,
        reads_down_s=reads_down_s,
        recovered_s=recovered_s,
        flushes=flushes,
        verdict=verdict,
        troubles=[trouble for owner in owners for trouble in (*owner.fell, *owner.troubles())],
    )


async def calm(owners: Sequence[Owner]) -> None:
    """Wait until every owner has flushed all it accepted."""
    until = time.monotonic() + CALM_WITHIN_S
    for owner in owners:
        wire = Wire(owner.server.port)
        while not await owner.is_empty(wire):
            assert time.monotonic() < until, f"owner {owner.number} never flushes:\n{owner.server.output()[-4000:]}"
            await asyncio.sleep(LOOK_EVERY_S)
        wire.close()
