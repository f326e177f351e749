"""A flush of links whose hits say where they come from, next to one of counts alone, on one node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from bench.cassandra.node import make_keyspace
from bench.cassandra.spent import Spent, spending
from bench.micro.words import ALL, BATCH, DIMENSIONS, NOW, VISITORS, read
from bench.table import Line
from ingest.attributes.country import country_reader
from ingest.attributes.profile import NO_DIMENSIONS, ProfileReader
from ingest.batch import Batch
from storage.contract import Store
from storage.from_uri import open_store
from testing.cassandra.node import Node
from testing.owner_process import OwnerProcess, TrackedDisk

LINKS = 10_000  # with two hits each in a flush
DIVIDED = DIMENSIONS[:3]
COUNTS, WORDS = "counts", "words"
MEMORY = {"all in memory": "", "none in memory": "?row_cache_mib=0"}


def words(node: Node, folder: Path, rounds: int) -> list[Line]:
    """Flushes of both kinds in turn: first with their rows in memory, then without."""
    divided = ProfileReader(DIVIDED, country_of=country_reader("builtin"), own_hosts=frozenset())
    batches = {COUNTS: _batches(NO_DIMENSIONS), WORDS: _batches(divided)}
    lines = []
    for memory, query in MEMORY.items():
        stores = {kind: open_store(make_keyspace(node, f"{kind}_{len(query)}") + query) for kind in batches}
        try:
            runs = asyncio.run(_flushes(node, folder / memory, stores, batches, rounds))
        finally:
            for store in stores.values():
                store.close()
        lines.append(_line(f"flush of {LINKS:,} links with {len(DIVIDED)} dimensions, {memory}", runs))
    return lines


def _batches(reader: ProfileReader) -> list[Batch]:
    hits = VISITORS.hits(2 * LINKS, ALL, NOW)
    for number, hit in enumerate(hits):
        hit["key"] = f"link{number % LINKS:05d}"
    return [read(json.dumps(hits[at : at + BATCH]).encode(), reader) for at in range(0, len(hits), BATCH)]


async def _flushes(
    node: Node, folder: Path, stores: dict[str, Store], batches: dict[str, list[Batch]], rounds: int
) -> dict[str, list[Spent]]:
    """What each flush spends after the first of its kind, which makes the rows."""
    runs: dict[str, list[Spent]] = {kind: [] for kind in batches}
    owners = {
        kind: OwnerProcess(folder / kind, store, lambda: float(NOW), alone=False, disk=TrackedDisk()).owner
        for kind, store in stores.items()
    }
    for number in range(1 + rounds):
        for kind, owner in owners.items():
            for batch in batches[kind]:
                await owner.accept(batch)
            with spending([node], partial(_requests, stores[kind])) as spent:
                await owner.flush()
            if number:
                runs[kind].append(spent)
    for owner in owners.values():
        await owner.close()
    return runs


def _requests(store: Store) -> float:
    return store.measures()["store_requests_total"]


def _line(what: str, runs: dict[str, list[Spent]]) -> Line:
    counts, words = runs[COUNTS], runs[WORDS]

    def times(of: Sequence[float], beside: Sequence[float]) -> str:
        pairs = zip(of, beside, strict=True)
        return f"{median(one / other for one, other in pairs if other):.1f} times"

    compared = (
        f"{times([run.took_s for run in words], [run.took_s for run in counts])} counts alone; "
        f"requests {words[0].requests:,} beside {counts[0].requests:,}; processor "
        f"{times([run.process_s for run in words], [run.process_s for run in counts])}"
        f" ({median(run.process_s for run in words):.2f} s), of the node "
        f"{times([run.nodes_s for run in words], [run.nodes_s for run in counts])}"
        f" ({median(run.nodes_s for run in words):.2f} s)"
    )
    return Line(what, f"{median(run.took_s for run in words):.2f} s", compared)
