"""A journal beside a store that its own was copied into, whatever numbers are taken there."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from clickcurve.buckets.errors import (
    JournalSuperseded,
    OwnerFenced,
    StoreUnavailable,
)
from clickcurve.buckets.ladder import CLICKS
from storage.contract import OPEN, OwnerRecord, Store
from storage.memory_store import MemoryStore
from storage.tools.copy import copy
from testing.owner_process import OwnerProcess
from tests.ingest.claim_kit import NOW, die, hit, lifetime, retire, start
from tests.ingest.faulty_store import FaultyStore

# What stands under the journal's number in the target before the copy: nothing, or the owner of another journal, whose
# epochs are behind those of the journal or ahead of them.
STRANGERS = ("none", "behind", "ahead")


@pytest.fixture(params=STRANGERS)
def target(request: pytest.FixtureRequest) -> MemoryStore:
    store = MemoryStore()
    if request.param != "none":
        epoch = 1 if request.param == "behind" else 9
        store.create_owner(OwnerRecord(1, epoch, "stranger", "stranger's", "/elsewhere", OPEN, 0, int(NOW)))
    return store


async def copied(source: Store, target: Store) -> None:
    await copy(source, target, CLICKS, 0, 1, [])


async def restarted(node: OwnerProcess, times: int) -> None:
    """Counts 1 and starts again, so that its epoch rises; what it counts is in the store."""
    await hit(node, 1)
    for _ in range(times):
        await node.owner.flush()
        die(node)
        node.start()
    await node.owner.flush()


def moved(node: OwnerProcess, store: Store) -> None:
    """The journal's folder, started beside another store."""
    node.store = store
    node.start()


async def test_a_stopped_servers_journal_goes_on_beside_the_copy(tmp_path: Path, target: MemoryStore) -> None:
    source = MemoryStore()
    node = start(tmp_path / "journal", source)
    await restarted(node, 2)
    await node.owner.close()
    await copied(source, target)
    moved(node, target)
    await hit(node, 2)
    await node.owner.close()
    assert await lifetime(target) == 3
    assert len([record for record in target.owners() if record.journal == node.journal.name]) == 1


async def test_a_lost_machine_that_comes_back_beside_the_copy_counts_what_it_holds_once(
    tmp_path: Path, target: MemoryStore
) -> None:
    source = MemoryStore()
    node = start(tmp_path / "journal", source)
    await restarted(node, 2)
    await hit(node, 2)
    die(node)
    retire(source, 1)
    await copied(source, target)
    moved(node, target)
    await node.owner.flush()
    assert await lifetime(target) == 3
    await node.owner.close()


async def test_one_that_was_in_the_middle_of_a_flush_is_superseded_beside_the_copy(
    tmp_path: Path, target: MemoryStore
) -> None:
    source = MemoryStore()
    faulty = FaultyStore(source)
    node = start(tmp_path / "journal", faulty)
    await restarted(node, 2)
    await hit(node, 2)
    faulty.fail_at[faulty.calls + 6] = ("before", StoreUnavailable)  # the link's row is saved, that of all is not
    with pytest.raises(StoreUnavailable):
        await node.owner.flush()
    die(node)
    assert await lifetime(source) == 3
    retire(source, 1)
    await copied(source, target)
    moved(node, target)
    with pytest.raises(JournalSuperseded):
        await node.owner.flush()
    assert await lifetime(target) == 3
    await node.owner.close()


async def test_a_snapshot_of_the_journal_is_superseded_beside_the_copy(tmp_path: Path, target: MemoryStore) -> None:
    source = MemoryStore()
    node = start(tmp_path / "journal", source)
    await restarted(node, 2)
    await hit(node, 2)
    shutil.copytree(tmp_path / "journal", tmp_path / "snapshot")
    await node.owner.close()
    await copied(source, target)
    old = start(tmp_path / "snapshot", target)
    with pytest.raises(JournalSuperseded):
        await old.owner.flush()
    assert await lifetime(target) == 3
    await old.owner.close()


async def test_a_snapshot_is_judged_by_the_newest_owner_that_its_journal_had(
    tmp_path: Path, target: MemoryStore
) -> None:
    source = MemoryStore()
    node = start(tmp_path / "journal", source)
    await restarted(node, 2)
    retire(source, 1)
    await hit(node, 2)
    with pytest.raises(OwnerFenced):
        await node.owner.flush()
    die(node)
    node.start()
    await node.owner.flush()
    assert node.owner.status.owner == 2
    await hit(node, 4)
    shutil.copytree(tmp_path / "journal", tmp_path / "snapshot")
    await node.owner.close()
    target.create_owner(OwnerRecord(2, 1, "stranger", "stranger's", "/elsewhere", OPEN, 0, int(NOW)))
    await copied(source, target)
    old = start(tmp_path / "snapshot", target)
    with pytest.raises(JournalSuperseded):
        await old.owner.flush()
    assert await lifetime(target) == 7
    await old.owner.close()


async def test_a_journal_that_went_on_beside_the_source_brings_what_it_holds(
    tmp_path: Path, target: MemoryStore
) -> None:
    """Unless its number is a stranger's whose epochs look like its own successors': then it is quarantined."""
    ahead = any(record.epoch == 9 for record in target.owners())
    source = MemoryStore()
    node = start(tmp_path / "journal", source)
    await restarted(node, 2)
    await node.owner.close()
    await copied(source, target)
    node.start()  # beside the source, by mistake
    await node.owner.flush()
    await hit(node, 2)
    die(node)
    moved(node, target)
    with pytest.raises(JournalSuperseded) if ahead else nullcontext():
        await node.owner.flush()
    assert await lifetime(target) == (1 if ahead else 3)
    await node.owner.close()


async def test_a_new_journal_goes_on_with_the_copied_rows(tmp_path: Path) -> None:
    source, target = MemoryStore(), MemoryStore()
    node = start(tmp_path / "journal", source)
    await restarted(node, 2)
    await node.owner.close()
    await copied(source, target)
    new = start(tmp_path / "new", target)
    await hit(new, 2)
    await new.owner.close()
    assert new.owner.status.owner == 1
    assert await lifetime(target) == 3
    assert len((await target.rows("a")).rows) == 1
