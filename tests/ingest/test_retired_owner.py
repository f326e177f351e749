"""A machine that was declared lost and comes back: its owner is fenced, and what its journal holds counts once."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickcurve.buckets.codec import decode_header
from clickcurve.buckets.errors import (
    ImportElsewhere,
    JournalSuperseded,
    OwnerFenced,
    StoreUnavailable,
)
from clickcurve.keys import link_key
from storage.memory_store import MemoryStore
from tests.ingest.claim_kit import die, hit, lifetime, retire, start
from tests.ingest.faulty_store import FaultyStore


async def test_a_retired_owner_is_fenced_and_its_journal_counts_what_it_holds_under_another_number(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    node = start(tmp_path / "journal", store)
    await hit(node, 1)
    await node.owner.flush()
    number = node.owner.status.owner
    retire(store, number)
    await hit(node, 2)
    with pytest.raises(OwnerFenced):
        await node.owner.flush()
    die(node)
    node.start()
    await node.owner.flush()
    assert node.owner.status.owner != number
    assert await lifetime(store) == 3
    await node.owner.close()


async def test_hits_count_once_where_their_owner_gets_its_number_while_they_are_read(tmp_path: Path) -> None:
    """A read looks up pending hits, then the rows; in between the first claim may end, be it that of a new number."""
    store = MemoryStore()
    node = start(tmp_path / "journal", store)

    async def marks() -> dict[int, int]:
        return {row.owner: decode_header(row.data).mark for row in (await store.rows(link_key("a"))).rows}

    for life in range(2):
        await hit(node, 1)
        (pending,) = node.owner.pending(link_key("a"))
        before = await marks()
        await node.owner.flush()
        after = await marks()
        assert (len(before), len(after)) == (life, life + 1)
        assert pending.is_missing(before)
        assert not pending.is_missing(after)
        retire(store, node.owner.status.owner)
        die(node)
        node.start()
    await node.owner.close()


async def test_a_retired_owner_whose_last_flush_began_is_superseded(tmp_path: Path) -> None:
    store = FaultyStore(MemoryStore())
    node = start(tmp_path / "journal", store)
    await hit(node, 1)
    await node.owner.flush()
    await hit(node, 2)
    store.fail_at[store.calls + 2] = ("before", StoreUnavailable)  # the flush begins, and goes no further
    with pytest.raises(StoreUnavailable):
        await node.owner.flush()
    die(node)
    retire(store, node.owner.status.owner)
    node.start()
    with pytest.raises(JournalSuperseded, match="retired"):
        await node.owner.flush()
    assert await lifetime(store) == 1


async def test_the_import_of_a_retired_owner_may_be_taken_over(tmp_path: Path) -> None:
    store = MemoryStore()
    lost, other = start(tmp_path / "lost", store), start(tmp_path / "other", store)
    for node in (lost, other):
        await hit(node, 1)
        await node.owner.flush()
    await lost.owner.source("log")
    with pytest.raises(ImportElsewhere):
        await other.owner.source("log")
    retire(store, lost.owner.status.owner)
    assert (await other.owner.source("log")).owner == other.owner.status.owner
    await other.owner.close()
