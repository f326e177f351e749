"""Starting again while the store can answer for each owner, but cannot list all of them: a cluster's list reads every
node's part, and there is no way around one that has just died."""

from __future__ import annotations

import asyncio
from pathlib import Path

from clickcurve.buckets.errors import StoreUnavailable
from storage.contract import OwnerRecord
from storage.memory_store import MemoryStore
from tests.ingest.test_claim import die, hit, lifetime, start


class Unlisted(MemoryStore):
    listed = True

    def owners(self) -> list[OwnerRecord]:
        if not self.listed:
            raise StoreUnavailable("a node does not answer")
        return super().owners()


def test_a_journal_that_was_not_closed_goes_on_as_the_owner_that_it_was(tmp_path: Path) -> None:
    async def story() -> None:
        store = Unlisted()
        node = start(tmp_path / "journal", store)
        await hit(node, 1)
        await node.owner.flush()
        owner = node.owner.status.owner
        await hit(node, 2)
        die(node)
        store.listed = False
        node.start()
        await node.owner.flush()
        assert (node.owner.status.owner, await lifetime(store)) == (owner, 3)
        store.listed = True
        await node.owner.close()

    asyncio.run(story())
