"""A clean stop: what was accepted is in the store, and the journal is empty, whatever was under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from clickcurve.buckets.errors import JournalBroken
from clickcurve.keys import link_key
from ingest.batch import Batch, Identified
from storage.contract import CLOSED
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.owner_kit import counts, minute_of, read

NOW = 1_772_000_000.0


class Asked(MemoryStore):
    """Answers nobody who asks for ids until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def claimed(self, ids: Sequence[str], since_us: int) -> set[str]:
        self.asked.set()
        await self.may_answer.wait()
        return await super().claimed(ids, since_us)


def start(folder: Path, store: MemoryStore) -> OwnerProcess:
    return OwnerProcess(folder, store, lambda: NOW, alone=False, disk=TrackedDisk())


def is_empty(node: OwnerProcess) -> bool:
    node.start()
    try:
        return next(node.journal.frames(), None) is None
    finally:
        node.disk.kill()


async def test_a_batch_that_waits_for_the_store_is_refused_when_the_owner_closes(tmp_path: Path) -> None:
    store = Asked()
    node = start(tmp_path / "journal", store)
    await node.owner.flush()
    batch = Batch(identified=[Identified("id", counts(minute_of(NOW), {"a": 1}), {})])
    accepting = asyncio.ensure_future(node.owner.accept(batch))
    await store.asked.wait()
    await node.owner.close()
    store.may_answer.set()
    with pytest.raises(JournalBroken, match="shutting down"):
        await accepting
    assert store.owners()[0].state == CLOSED
    assert is_empty(node)


async def test_a_batch_that_a_slow_disk_is_writing_is_in_the_last_flush(tmp_path: Path) -> None:
    store = MemoryStore()
    node = start(tmp_path / "journal", store)
    await node.owner.flush()
    node.journal.in_memory = False  # so it is written by a thread
    accepting = asyncio.ensure_future(node.owner.accept(Batch(people=counts(minute_of(NOW), {"a": 1}))))
    while not node.owner._commit._busy:
        await asyncio.sleep(0)
    await node.owner.close()
    await accepting
    row = await read(store, [], link_key("a"), int(NOW))
    assert row.lifetime == 1
    assert is_empty(node)
