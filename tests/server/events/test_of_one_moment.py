"""Clicks and events of one moment, at one of several workers, whatever is flushed meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.measures import rows_with_events
from clickcurve.keys import ALL_LINKS, group_key, link_key
from ingest.attributes.country import OFF, country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.hit import JsonHit, Moment, RawHits
from ingest.reading.request_sums import RequestSums
from query.reader import Reader
from server.workers.peers import Peers
from server.workers.pending import PendingHits
from storage.contract import StoredLink
from storage.memory_store import MemoryStore
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.faulty_store import FaultyStore

NOW = 1_790_000_040
MOMENT = Moment(NOW, fold_day(NOW) * DAY_S, NOW + 300)
READER = ProfileReader(("ref",), country_reader(OFF), ReferrerReader(), events=("sale",))
ROWS = [link_key("k"), group_key("g"), ALL_LINKS]
KEYS = ["k", *(f"other{n}" for n in range(20))]
QUESTIONS = 150


class OneWorker:
    """A worker with its owner and its peers. Each request of it counts as many sales as clicks of each row."""

    def __init__(self, folder: Path, number: int, store: FaultyStore, rows: Callable[[str], Any]) -> None:
        journal = folder / f"journal-{number}"
        disk = TrackedDisk()
        self.owner = OwnerProcess(journal, store, lambda: float(NOW), alone=False, disk=disk).owner
        self.peers = Peers(folder, number, 2)
        self.reader = Reader(rows, self.owner.pending, self.owner.revisit, store.ladder, self.peers.pending)

    async def listen(self) -> None:
        await self.peers.listen(PendingHits(self.owner, []))

    async def count(self, keys: list[str], many: int) -> None:
        sums = RequestSums(MOMENT, reader=READER)
        hits = [JsonHit(key, NOW, many, groups=["g"]) for key in keys]
        sales = [JsonHit(key, NOW, many, groups=["g"], event="sale", value=10, ref="a.example") for key in keys]
        sums.add(RawHits(json=[*hits, *sales]), lambda agent: False)
        batch = sums.batch()
        assert batch is not None
        await self.owner.accept(batch)


class Workers:
    """Two workers of one store, whose flushes stop anywhere, and go on: also between two rows of a question."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rnd, self.memory = random.Random(seed), MemoryStore()
        self.store = FaultyStore(self.memory)
        self.all = [OneWorker(folder, number, self.store, self.rows) for number in (1, 2)]

    async def rows(self, key: str) -> StoredLink:
        """Reads rows; before that something may happen."""
        if self.rnd.random() < 0.4:
            await self.step()
        return await self.memory.rows(key)

    async def step(self) -> None:
        worker = self.rnd.choice(self.all)
        if self.rnd.random() < 0.4:
            await worker.count(self.rnd.sample(KEYS, self.rnd.randint(1, 8)), self.rnd.randint(1, 5))
            return
        if self.rnd.random() < 0.7:
            self.store.fail_at = {self.store.calls + self.rnd.randint(1, 12): ("after", StoreUnavailable)}
        with suppress(StoreUnavailable):
            await worker.owner.flush()
        self.store.fail_at = {}


@pytest.mark.parametrize("seed", range(3))
async def test_a_rate_is_of_one_moment_wherever_a_flush_is_in_between(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryStore, "links_per_load", 2)
    monkeypatch.setattr("ingest.flush.ROWS_PER_SAVE", 6)
    monkeypatch.setattr("query.reader.MOMENT_TRIES", 3)
    monkeypatch.setattr("query.reader.MOMENT_WAIT_S", 0)
    workers = Workers(tmp_path, seed)
    for each in workers.all:
        await each.owner.flush()
        await each.peers.listen(PendingHits(each.owner, []))
    settled = 0
    for _ in range(QUESTIONS):
        await workers.step()
        clicks, sales, values = rows_with_events(workers.rnd.choice(ROWS), ("sale",))
        asked = await workers.rnd.choice(workers.all).reader.of_one_moment([clicks, sales, values], NOW)
        counted, sold, amount = (row.lifetime for row in asked.rows)
        if asked.is_settled:
            settled += 1
            assert counted == sold and amount == 10 * sold
    for each in workers.all:
        await each.owner.flush()
        await each.owner.close()
        await each.peers.close()
    assert verify(workers.memory, CLICKS).broken == []
    assert QUESTIONS // 2 < settled < QUESTIONS, "otherwise it says little"
