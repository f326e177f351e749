"""Shares in the notes of each kind of store, where several nodes have it in common."""

from __future__ import annotations

import asyncio

from server.http.shares import Shares
from storage.contract import Store

NOW = 1_793_000_000


def shown(node: Shares, signed: str) -> tuple[str, str] | None:
    share = asyncio.run(node.shared(signed, NOW))
    return None if share is None else (share.kind, share.name)


def test_every_node_of_a_store_knows_what_is_shared_and_what_is_revoked(store: Store) -> None:
    """Nodes have the store in common, and nothing else."""
    here, there = Shares(store), Shares(store)
    first, second = here.add("link", "launch", 1, NOW), there.add("link", "launch", 1, NOW)
    found = [shown(node, text) for node in (here, there) for text in (first, second)]
    assert found == [("link", "launch")] * 4
    assert there.remove(first.partition(".")[0])
    assert shown(here, first) is None
    assert shown(here, second) == ("link", "launch")
    assert not here.remove("ffff")
