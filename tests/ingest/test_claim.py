"""Which number a journal flushes under: beside its own database, another, a restored one, one without a list."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from clickcurve.buckets.errors import (
    JournalHeld,
    JournalSuperseded,
    StoreUnavailable,
)
from clickcurve.buckets.ladder import CLICKS
from ingest.batch import Batch, Identified, SourceStep
from storage.contract import OwnerRecord
from storage.memory_store import MemoryStore
from storage.sqlite.backup import backup
from storage.sqlite.store import SqliteStore
from tests.ingest.claim_kit import NOW, die, hit, lifetime, start
from tests.ingest.owner_kit import counts, minute_of


def copied(store: MemoryStore) -> MemoryStore:
    """The store as a backup of this moment."""
    copy = MemoryStore()
    for name, value in vars(store).items():
        if name not in ("_lock", "_journals"):
            setattr(copy, name, deepcopy(value))
    return copy


async def test_a_new_journal_beside_an_old_database_takes_a_new_owner(tmp_path: Path) -> None:
    store = MemoryStore()
    first = start(tmp_path / "first", store)
    await hit(first, 1)
    await first.owner.flush()
    die(first)  # and its disk is lost
    second = start(tmp_path / "second", store)
    await hit(second, 2)
    await second.owner.flush()
    assert second.owner.status.owner != first.owner.status.owner
    assert await lifetime(store) == 3
    await second.owner.close()


async def test_an_old_journal_beside_a_new_database_counts_what_it_still_holds(tmp_path: Path) -> None:
    node = start(tmp_path / "journal", MemoryStore())
    await hit(node, 1)
    await node.owner.flush()
    await hit(node, 2)
    die(node)
    node.store = new = MemoryStore()
    node.start()
    await node.owner.flush()
    assert await lifetime(new) == 2
    await node.owner.close()


async def test_a_database_restored_from_before_the_last_flush_gets_what_the_journal_still_holds(tmp_path: Path) -> None:
    store = MemoryStore()
    node = start(tmp_path / "journal", store)
    await hit(node, 1)
    await node.owner.flush()
    backup = copied(store)
    await hit(node, 2)
    await node.owner.flush()  # in the store, but not in the backup
    await hit(node, 4)
    die(node)
    node.store = backup
    node.start()
    await node.owner.flush()
    assert await lifetime(backup) == 5
    await node.owner.close()


@pytest.mark.parametrize("imported", [False, True])
async def test_a_journal_beside_a_backup_counts_what_it_holds_unless_that_is_an_import(
    tmp_path: Path, imported: bool
) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    store = SqliteStore(folder / "clickcurve.db", CLICKS)
    node = start(tmp_path / "journal", store)
    await hit(node, 1)
    await node.owner.flush()
    backup(folder / "clickcurve.db", folder / "backup.db")
    step = SourceStep("log", (await node.owner.source("log")).position, 10, "tail") if imported else None
    await node.owner.accept(Batch(people=counts(minute_of(NOW), {"a": 2}), source=step))
    die(node)
    store.close()
    copy = SqliteStore(folder / "backup.db", CLICKS)
    node.store = copy
    node.start()
    if imported:
        with pytest.raises(JournalSuperseded):
            await node.owner.flush()
    else:
        await node.owner.flush()
    assert await lifetime(copy) == (1 if imported else 3)
    await node.owner.close()
    copy.close()


async def test_a_moved_journal_goes_on_as_the_same_owner(tmp_path: Path) -> None:
    store = MemoryStore()
    node = start(tmp_path / "here", store)
    await hit(node, 1)
    await node.owner.flush()
    await hit(node, 2)
    die(node)
    (tmp_path / "here").rename(tmp_path / "there")
    moved = start(tmp_path / "there", store)
    await moved.owner.flush()
    assert moved.owner.status.owner == node.owner.status.owner
    assert await lifetime(store) == 3
    await moved.owner.close()


async def test_a_journal_that_comes_to_a_store_where_its_number_is_a_strangers_takes_another(tmp_path: Path) -> None:
    elsewhere, here = MemoryStore(), MemoryStore()
    node = start(tmp_path / "moved", elsewhere)
    for _ in range(3):  # its epochs are ahead of those here
        await hit(node, 1)
        await node.owner.flush()
        die(node)
        node.start()
    stranger = start(tmp_path / "stranger", here)
    await hit(stranger, 10)
    await stranger.owner.flush()
    await hit(node, 100)
    die(node)
    node.store = here
    node.start()
    await node.owner.flush()
    assert node.owner.status.owner != stranger.owner.status.owner
    await hit(stranger, 1_000)
    await stranger.owner.flush()
    assert await lifetime(here) == 1_110
    await node.owner.close()
    await stranger.owner.close()


async def test_a_journal_with_ids_that_the_store_may_have_forgotten_is_superseded(tmp_path: Path) -> None:
    store = MemoryStore()
    store.replay_us = 5 * 86_400_000_000
    node = start(tmp_path / "journal", store)
    await node.owner.accept(Batch(identified=[Identified("id", counts(minute_of(NOW), {"a": 1}), {})]))
    node.clock = lambda: NOW + 5 * 86_400 - 60
    die(node)
    node.start()
    await node.owner.flush()
    assert await lifetime(store) == 1
    await node.owner.accept(Batch(identified=[Identified("other", counts(minute_of(NOW), {"a": 2}), {})]))
    node.clock = lambda: NOW + 10 * 86_400 + 60
    die(node)
    node.start()
    with pytest.raises(JournalSuperseded, match="more than 5 days ago"):
        await node.owner.flush()
    assert await lifetime(store) == 1


async def test_one_journal_is_held_by_one_process(tmp_path: Path) -> None:
    node = start(tmp_path / "journal", MemoryStore())
    with pytest.raises(JournalHeld, match="journal"):
        start(tmp_path / "journal", MemoryStore())
    await node.owner.close()


async def test_flush_numbers_go_on_in_a_new_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.claim.FLUSHES_PER_EPOCH", 4)
    store = MemoryStore()
    node = start(tmp_path / "journal", store)
    for n in range(12):
        await hit(node, 1 << n)
        await node.owner.flush()
    assert node.owner.status.epoch == 4
    assert await lifetime(store) == (1 << 12) - 1
    await node.owner.close()


class Unlisted(MemoryStore):
    listed = True

    def owners(self) -> list[OwnerRecord]:
        if not self.listed:
            raise StoreUnavailable("a node does not answer")
        return super().owners()


async def test_a_journal_that_was_not_closed_goes_on_as_the_owner_that_it_was(tmp_path: Path) -> None:
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
