"""Shares in the notes of each kind of store, where several nodes have it in common."""

from __future__ import annotations

import asyncio

from server.http.shares import Shares
from storage.contract import Store

NOW = 1_793_000_000


def test_every_node_of_a_store_knows_what_is_shared_and_what_is_revoked(store: Store) -> None:
    """Nodes have the store in common, and nothing else."""
    here, there = Shares(store), Shares(store)
    first, second = here.add("link", "launch", 1, NOW), there.add("link", "launch", 1, NOW)
    found = [asyncio.run(node.shared(text, NOW)) for node in (here, there) for text in (first, second)]
    assert [share.name for share in found if share is not None] == ["launch"] * 4
    assert there.remove(first.partition(".")[0])
    assert asyncio.run(here.shared(first, NOW)) is None
    assert asyncio.run(here.shared(second, NOW)) is not None
    assert not here.remove("ffff")
