"""Imports into real owners: killed at any moment, with a store that fails, through several workers of one store."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from clickcurve.buckets.errors import ClickcurveError, JournalBehind, JournalUnknown, OwnerFenced, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.keys import ALL_LINKS, link_key
from ingest.batch import Batch, SourceStep
from ingest.hit import Moment
from ingest.imports.chunk import Chunk, DatedHit
from ingest.imports.target import ImportRefused, KeptOffset, OwnerTarget, Taken
from storage.contract import Source
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.faulty_store import FaultyStore, Killed
from tests.ingest.imports.import_kit import NOW, Died, importer, log_lines
from tests.ingest.owner_kit import read

LINES = 200


def moment() -> Moment:
    return Moment(NOW, fold_day(NOW) * DAY_S, NOW + 300)


class Workers:
    """A target over several owners of one store, like workers behind one port, killed and flushed at random."""

    def __init__(self, seed: int, folder: Path, workers: int) -> None:
        self.rnd = random.Random(seed)
        self.store = FaultyStore(MemoryStore())
        self.nodes = [
            OwnerProcess(folder / f"node-{n}", self.store, lambda: float(NOW), alone=workers == 1, disk=TrackedDisk())
            for n in range(workers)
        ]
        self.node = self.nodes[0]

    async def offset(self, source: str) -> KeptOffset:
        await self.trouble()
        return await self.target().offset(source)

    async def send(self, chunk: Chunk) -> Taken:
        await self.trouble()
        taken = await self.target().send(chunk)
        if self.rnd.random() < 0.1:
            raise Died  # the client, before it reads the answer
        return taken

    async def reconnect(self) -> None:
        self.node = self.rnd.choice(self.nodes)

    async def close(self) -> None:
        pass

    def target(self) -> OwnerTarget:
        return OwnerTarget(self.node.owner, CLICKS, moment)

    async def trouble(self) -> None:
        chance = self.rnd.random()
        if chance < 0.15:
            self.restart(self.rnd.choice(self.nodes))
        if chance < 0.5:
            node = self.rnd.choice(self.nodes)
            if self.rnd.random() < 0.5:
                when, error = self.rnd.choice(["before", "after"]), self.rnd.choice([StoreUnavailable, Killed])
                self.store.fail_at[self.store.calls + self.rnd.randint(1, 8)] = when, error
            await self.flush(node)
            self.store.fail_at.clear()

    async def flush(self, node: OwnerProcess) -> None:
        try:
            await node.owner.flush()
        except StoreUnavailable:
            pass
        except Killed:
            self.restart(node)

    def restart(self, node: OwnerProcess) -> None:
        node.disk.kill()
        node.start()

    async def totals(self) -> Counter[str]:
        for node in self.nodes:
            for _ in range(2):
                await node.owner.flush()
        rows = {key: await read(self.store, [], link_key(key), NOW) for key in (f"k{n}" for n in range(5))}
        everything = await read(self.store, [], ALL_LINKS, NOW)
        assert everything.lifetime == sum(row.lifetime for row in rows.values())
        return Counter({key: row.lifetime for key, row in rows.items()})


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_an_import_is_exact_whoever_dies(seed: int, workers: int, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(log_lines(LINES))

    async def story() -> Counter[str]:
        fleet = Workers(seed, tmp_path / "data", workers)
        while True:
            try:
                await importer(fleet, tries=None).run(path)
                break
            except Died:
                fleet.node = fleet.rnd.choice(fleet.nodes)
        totals = await fleet.totals()
        for node in fleet.nodes:
            await node.owner.close()
        return totals

    assert asyncio.run(story()) == Counter({f"k{n}": LINES // 5 for n in range(5)})


async def test_history_and_bots_reach_the_rows(tmp_path: Path) -> None:
    log, history = tmp_path / "access.log", tmp_path / "history"
    log.write_bytes(log_lines(10) + log_lines(5, 10, agent="bot"))
    history.write_bytes(b'{"key": "k0", "total": 100, "bots": 0, "buckets": [[1431820800, 1431907200, 60, 0]]}\n')
    fleet = Workers(1, tmp_path / "data", 1)
    owner = fleet.node.owner
    await owner.flush()
    for path in (log, history, log, history):
        await importer(OwnerTarget(owner, CLICKS, moment)).run(path)
    await owner.flush()
    row = await read(fleet.store, [], link_key("k0"), NOW)
    assert (row.lifetime, row.opening, row.bots) == (102, 40, 1)
    await OwnerTarget(owner, CLICKS, moment).close()


class FullOwner:
    """An owner whose buffer is full until it flushes."""

    def __init__(self, error: ClickcurveError) -> None:
        self.error: ClickcurveError | None = error
        self.flushes = 0

    async def accept(self, batch: Batch) -> frozenset[str]:
        if self.error is not None:
            raise self.error
        return frozenset()

    async def flush(self) -> None:
        self.flushes += 1
        self.error = None

    async def kept_offset(self, source: str) -> Source:
        return Source(1, 0, "")

    async def close(self) -> None:
        pass


def send_to(owner: FullOwner) -> Taken:
    chunk = Chunk(SourceStep("s", 0, 1, ""), [DatedHit("a", NOW // 60 * 60)])
    return asyncio.run(OwnerTarget(owner, CLICKS, moment).send(chunk))


def test_a_full_buffer_is_flushed_by_the_import_itself() -> None:
    owner = FullOwner(JournalBehind("full"))
    assert send_to(owner).counted == 1
    assert owner.flushes == 1


def test_an_unknown_outcome_in_this_process_ends_it_with_a_sentence() -> None:
    with pytest.raises(ImportRefused, match="goes on where it was"):
        send_to(FullOwner(JournalUnknown("the disk failed")))


def test_a_fenced_owner_is_not_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(log_lines(3))
    target = OwnerTarget(FullOwner(OwnerFenced("taken over")), CLICKS, moment)
    with pytest.raises(OwnerFenced):
        asyncio.run(importer(target).run(path))
