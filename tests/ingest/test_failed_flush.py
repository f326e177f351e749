"""A flush that fails with an error that nobody foresaw is a failed flush like any other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess
from tests.ingest.claim_kit import hit, lifetime, start
from tests.ingest.faulty_store import FaultyStore


@pytest.mark.parametrize("when", ["before", "after"])
def test_whatever_a_flush_fails_with_it_is_counted_and_tried_again(tmp_path: Path, when: str) -> None:
    async def story() -> None:
        store = FaultyStore(MemoryStore())
        node = start(tmp_path, store)
        await node.owner.flush()
        await hit(node, 3)
        node.owner.revisit(["quiet"])
        for failed in range(1, 5):
            store.fail_at = {store.calls + failed: (when, ZeroDivisionError)}
            await fails(node, failed)
        await node.owner.flush()
        assert node.owner.status.failed_flushes == 4
        assert await lifetime(store) == 3
        await node.owner.close()

    async def fails(node: OwnerProcess, failed: int) -> None:
        with pytest.raises(ZeroDivisionError):
            await node.owner.flush()
        assert node.owner.status.failed_flushes == failed
        assert node.owner._rewrite and (node.owner._revisit == {"quiet"}), "all of it is done again"
        assert node.owner.status.buffered_hits == 3

    asyncio.run(story())
