"""Hits and erasures on one machine, in their order, whatever its clock does."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import link_key
from ingest.batch import Batch
from ingest.stamps import Stamps
from storage.contract import Store
from storage.memory_store import MemoryStore
from storage.sqlite.store import SqliteStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.owner_kit import counts, minute_of, read
from tests.power import at

START = 1_772_000_000.0


class OneMachine:
    """Workers on one store, with the memory that they share for their stamps."""

    def __init__(self, folder: Path, workers: int, store: Store) -> None:
        self.now = START
        self.store = store
        self.slots = [0] * workers
        self.expected: Counter[str] = Counter()
        self.workers = [
            OwnerProcess(
                folder / f"journal-{n + 1}",
                store,
                lambda: self.now,
                alone=workers == 1,
                disk=TrackedDisk(),
                stamps=lambda n=n: Stamps(lambda: self.now, self.slots, n),  # type: ignore[misc]
            )
            for n in range(workers)
        ]

    async def hit(self, worker: OwnerProcess, key: str) -> None:
        await worker.owner.accept_one(key)
        self.expected[key] += 1

    async def send(self, worker: OwnerProcess, keys: list[str], back_s: float) -> None:
        await worker.owner.accept(Batch(people=counts(minute_of(self.now - back_s), dict.fromkeys(keys, 2))))
        self.expected.update(dict.fromkeys(keys, 2))

    async def erase(self, worker: OwnerProcess, key: str) -> None:
        try:
            await worker.owner.erase(key)
        except StoreUnavailable:
            assert 0 in self.slots  # a worker is still starting
        else:
            self.expected[key] = 0

    async def start(self, worker: OwnerProcess) -> None:
        worker.start()
        await worker.owner.claim()

    async def restart_set_back(self, worker: OwnerProcess) -> None:
        """The clock is set back by 17 minutes, and the only worker restarts."""
        self.now -= 1_020
        await worker.owner.close()
        self.slots[:] = [0]
        await self.start(worker)

    async def replace(self, worker: OwnerProcess, *, killed: bool) -> None:
        """One worker ends and another one takes its place; the others go on."""
        await self.end(worker, killed=killed)
        await self.start(worker)

    async def end(self, worker: OwnerProcess, *, killed: bool) -> None:
        if killed:
            worker.disk.kill()
        else:
            await worker.owner.close()

    async def check(self) -> None:
        for worker in self.workers:
            await worker.owner.flush()
        for worker in self.workers:
            await worker.owner.flush()
        for key, expected in self.expected.items():
            row = await read(self.store, self.workers, link_key(key), int(max(self.now, START)))
            assert row.lifetime == expected, key


async def test_a_hit_after_a_deletion_and_a_restart_counts_though_the_clock_was_set_back(tmp_path: Path) -> None:
    machine = OneMachine(tmp_path, 1, MemoryStore())
    (worker,) = machine.workers
    await machine.hit(worker, "a")
    await machine.erase(worker, "a")
    await machine.restart_set_back(worker)
    await machine.hit(worker, "a")
    await machine.check()
    assert machine.expected == {"a": 1}


async def test_a_second_deletion_takes_all_hits_though_the_clock_was_set_back(tmp_path: Path) -> None:
    machine = OneMachine(tmp_path, 1, MemoryStore())
    (worker,) = machine.workers
    await machine.erase(worker, "a")
    await machine.restart_set_back(worker)
    await machine.hit(worker, "a")
    await worker.owner.flush()
    await machine.erase(worker, "a")
    await machine.check()
    assert machine.expected == {"a": 0}


async def test_a_deletion_takes_the_hits_of_other_workers_though_the_clock_was_set_back(tmp_path: Path) -> None:
    machine = OneMachine(tmp_path, 3, MemoryStore())
    one, two, three = machine.workers
    await machine.hit(one, "a")
    await machine.hit(two, "a")
    machine.now -= 1_020
    await machine.erase(three, "a")
    await machine.hit(two, "a")
    await machine.check()
    assert machine.expected == {"a": 1}


async def test_no_worker_deletes_before_all_have_read_their_journals(tmp_path: Path) -> None:
    machine = OneMachine(tmp_path, 2, MemoryStore())
    one, two = machine.workers
    await machine.hit(two, "a")
    for worker in machine.workers:
        await machine.end(worker, killed=True)
    machine.slots[:] = [0, 0]
    machine.now -= 1_020
    await machine.start(one)
    with pytest.raises(StoreUnavailable, match="still reading its journal"):
        await one.owner.erase("a")
    await machine.start(two)
    await machine.erase(one, "a")
    await machine.check()
    assert machine.expected == {"a": 0}


async def anything(machine: OneMachine, rnd: random.Random) -> None:
    worker, key = rnd.choice(machine.workers), rnd.choice("ab")
    match rnd.choices(
        ["hit", "send", "erase", "clock", "flush", "replace", "restart", "check"], [8, 6, 5, 6, 4, 2, 1, 1]
    )[0]:
        case "hit":
            await machine.hit(worker, key)
        case "send":
            await machine.send(worker, ["a", "b"], rnd.choice([0, 90_000]))
        case "erase":
            await machine.erase(worker, key)
        case "clock":
            machine.now += rnd.choice([0.000_001, 1, 60, 86_400, -0.000_001, -1, -30, -1_020, -86_400, -3 * 86_400])
        case "flush":
            await worker.owner.flush()
        case "replace":
            await machine.replace(worker, killed=rnd.random() < 0.6)
        case "restart":
            for each in machine.workers:
                await machine.end(each, killed=rnd.random() < 0.6)
            machine.slots[:] = [0] * len(machine.slots)
            started: list[OwnerProcess] = []
            for each in rnd.sample(machine.workers, len(machine.workers)):
                await machine.start(each)
                started.append(each)
                await machine.hit(rnd.choice(started), key)
                await machine.erase(rnd.choice(started), rnd.choice("ab"))
        case "check":
            await machine.check()


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_hits_after_a_deletion_count_and_none_before_it_whatever_the_clock_does(
    workers: int, kind: str, tmp_path: Path
) -> None:
    async def history(seed: int) -> None:
        folder = tmp_path / str(seed)
        folder.mkdir()
        store = MemoryStore() if kind == "memory" else SqliteStore(folder / "clickcurve.db", CLICKS)
        machine = OneMachine(folder, workers, store)
        rnd = random.Random(seed)
        for _ in range(60):
            await anything(machine, rnd)
        await machine.check()
        for worker in machine.workers:
            await worker.owner.close()
        store.close()

    for seed in range(at(quick=8, full=25) if kind == "memory" else 2):
        asyncio.run(history(seed))
