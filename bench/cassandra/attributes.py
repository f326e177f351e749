"""A flush of links whose hits have attributes, next to one of counts alone, on one node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.cassandra.node import make_keyspace
from bench.cassandra.spent import Spent, middle, spending, times
from bench.measure import Line
from bench.micro.attributes import ALL, DIMENSIONS, NOW, link_batches, reader_of
from bench.visitors import Visitors
from ingest.attributes.profile import NO_DIMENSIONS
from ingest.batch import Batch
from storage.contract import Store
from storage.from_uri import open_store
from testing.cassandra.node import Node
from testing.owner_process import OwnerProcess, TrackedDisk

LINKS = 10_000  # with two hits each in a flush
MEMORY = {"all in memory": "", "none in memory": "?row_cache_mib=0"}
COUNTS, ATTRIBUTES = "counts", "attributes"


def attributes(node: Node, folder: Path, rounds: int, links: int = LINKS) -> list[Line]:
    """Flushes of both kinds in turn: first with their rows in memory, then without."""
    kinds, visitors = {COUNTS: NO_DIMENSIONS, ATTRIBUTES: reader_of(*DIMENSIONS[:3])}, Visitors()
    batches = {kind: link_batches(visitors, links, ALL, reader) for kind, reader in kinds.items()}
    lines = []
    for number, (memory, query) in enumerate(MEMORY.items()):
        with ExitStack() as closing:
            stores = {kind: open_store(make_keyspace(node, f"{kind}_{number}") + query) for kind in kinds}
            for store in stores.values():
                closing.callback(store.close)
            runs = asyncio.run(_flushes(node, folder / memory, stores, batches, rounds))
        more, spent = times(runs[ATTRIBUTES], runs[COUNTS]), middle(runs[ATTRIBUTES])
        requests = f"requests {spent.requests:,.0f} beside {middle(runs[COUNTS]).requests:,.0f}"
        process = f"processor {more.process_s:.1f} times ({spent.process_s:.2f} s)"
        of_node = f"of the node {more.nodes_s:.1f} times ({spent.nodes_s:.2f} s)"
        compared = f"{more.took_s:.1f} times counts alone; {requests}; {process}, {of_node}"
        lines.append(Line(f"flush of {links:,} links with 3 dimensions, {memory}", f"{spent.took_s:.2f} s", compared))
    return lines


async def _flushes(
    node: Node, folder: Path, stores: Mapping[str, Store], batches: Mapping[str, Sequence[Batch]], rounds: int
) -> dict[str, list[Spent]]:
    """What each flush spends after the first of its kind, which makes the rows."""
    runs: dict[str, list[Spent]] = {kind: [] for kind in stores}
    owners = {
        kind: OwnerProcess(folder / kind, store, lambda: float(NOW), alone=False, disk=TrackedDisk()).owner
        for kind, store in stores.items()
    }
    for _ in range(1 + rounds):
        for kind, owner in owners.items():
            for batch in batches[kind]:
                await owner.accept(batch)
            with spending([node], lambda kind=kind: requests_of(stores[kind]), runs[kind]):  # type: ignore[misc]
                await owner.flush()
    for owner in owners.values():
        await owner.close()
    return {kind: spent[1:] for kind, spent in runs.items()}


def requests_of(store: Store) -> float:
    """How many requests the store has sent."""
    return store.measures()["store_requests_total"]
