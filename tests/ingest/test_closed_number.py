"""The number of an owner that was stopped cleanly: it may pass to another journal."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from clickcurve.buckets.errors import (
    JournalBroken,
    StoreUnavailable,
)
from clickcurve.keys import link_key
from storage.contract import OPEN
from storage.memory_store import MemoryStore
from tests.ingest.claim_kit import hit, lifetime, start
from tests.ingest.faulty_store import FaultyStore


async def test_a_new_journal_may_take_the_number_of_an_owner_that_was_closed(tmp_path: Path) -> None:
    store = MemoryStore()
    first = start(tmp_path / "first", store)
    await hit(first, 1)
    await first.owner.close()
    second = start(tmp_path / "second", store)
    await hit(second, 2)
    await second.owner.flush()
    assert second.owner.status.owner == first.owner.status.owner
    assert second.owner.status.epoch > first.owner.status.epoch
    assert await lifetime(store) == 3
    await second.owner.close()


async def test_a_journal_whose_number_was_taken_after_a_clean_stop_takes_another(tmp_path: Path) -> None:
    store = FaultyStore(MemoryStore())
    first = start(tmp_path / "first", store)
    await hit(first, 1)
    await first.owner.close()
    second = start(tmp_path / "second", store)
    await hit(second, 2)
    await second.owner.flush()
    assert second.owner.status.owner == 1
    first.start()
    store.down = True
    await hit(first, 4)  # before it could ask the store who it is
    with pytest.raises(StoreUnavailable):
        await first.owner.flush()
    store.down = False
    await first.owner.flush()
    assert first.owner.status.owner == 2
    assert await lifetime(store) == 7


async def test_a_journal_that_was_closed_goes_on_under_its_number(tmp_path: Path) -> None:
    store = MemoryStore()
    node = start(tmp_path / "journal", store)
    for n in range(3):
        await hit(node, 1 << n)
        await node.owner.close()
        node.start()
    await node.owner.flush()
    assert (node.owner.status.owner, node.owner.status.epoch) == (1, 4)
    assert len(store.owners()) == 1
    assert await lifetime(store) == 7


async def test_no_flush_comes_after_the_number_was_given_back(tmp_path: Path) -> None:
    """As the pass over quiet rows would ask for, had it not ended when the owner is closed."""
    store = MemoryStore()
    node = start(tmp_path / "journal", store)
    await hit(node, 1)
    await node.owner.flush()
    node.owner.revisit([link_key("a")])
    closing = asyncio.ensure_future(node.owner.close())
    while store.owners()[0].state == OPEN:
        node.owner.revisit([link_key("a")])
        flushing = asyncio.ensure_future(node.owner.flush())
        await asyncio.wait({flushing, closing}, return_when=asyncio.FIRST_COMPLETED)
    await closing
    with suppress(JournalBroken):
        await flushing
    node.start()
    assert node.journal.state.flush is None
    await node.owner.close()
