"""Journals that are there twice, copied or restored from a snapshot: what both hold counts once."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.errors import (
    JournalSuperseded,
    OwnerFenced,
    StoreUnavailable,
)
from clickcurve.keys import ALL_LINKS, link_key
from storage.contract import RETIRED, OwnRow
from storage.memory_store import MemoryStore
from tests.ingest.claim_kit import die, hit, lifetime, retire, start


class Meddled(MemoryStore):
    """Before its n-th call from now on, something else happens."""

    def __init__(self) -> None:
        super().__init__()
        self.calls_left = 0
        self.meddle: Callable[[], object] = lambda: None

    def __getattribute__(self, name: str) -> Any:
        if name in ("owner", "owners", "create_owner", "claim", "begin", "close_owner"):
            self.calls_left -= 1
            if self.calls_left == 0:
                self.meddle()
        return super().__getattribute__(name)


class Halting(MemoryStore):
    """Does not get beyond one step of a flush: "begin", or the row of all links, which comes last."""

    halt_at = "nowhere"

    def begin(self, *args: Any) -> bool:
        if self.halt_at == "begin":
            raise StoreUnavailable("begin")
        return super().begin(*args)

    def load_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        if self.halt_at in keys:
            raise StoreUnavailable("all links")
        return super().load_own(owner, keys)


def test_a_copied_journal_takes_over_and_the_original_is_fenced(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        original = start(tmp_path / "original", store)
        await hit(original, 1)
        await original.owner.flush()
        await hit(original, 2)
        shutil.copytree(tmp_path / "original", tmp_path / "copy")
        copy = start(tmp_path / "copy", store)
        await copy.owner.flush()
        with pytest.raises(OwnerFenced, match="taken owner 1 over"):
            await original.owner.flush()
        with pytest.raises(OwnerFenced):
            await hit(original, 4)
        assert original.owner.pending(link_key("a")) == []
        assert await lifetime(store) == 3
        await copy.owner.close()
        await original.owner.close()
        assert await lifetime(store) == 3

    asyncio.run(story())


@pytest.mark.parametrize("claimed_before", [True, False])
def test_a_journal_restored_from_a_snapshot_is_superseded(claimed_before: bool, tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        node = start(tmp_path / "journal", store)
        if claimed_before:
            await node.owner.flush()
        await hit(node, 1)
        shutil.copytree(tmp_path / "journal", tmp_path / "snapshot")
        await node.owner.flush()
        await hit(node, 2)
        await node.owner.flush()
        die(node)
        old = start(tmp_path / "snapshot", store)
        with pytest.raises(JournalSuperseded, match="may be counted already"):
            await old.owner.flush()
        with pytest.raises(JournalSuperseded):
            await hit(old, 4)
        assert await lifetime(store) == 3
        await old.owner.close()

    asyncio.run(story())


@pytest.mark.parametrize("gave_back_before", [0, 1, 2])
@pytest.mark.parametrize("others", [1, 3])
def test_a_snapshot_is_superseded_though_other_journals_took_its_number(
    gave_back_before: int, others: int, tmp_path: Path
) -> None:
    """The original stopped cleanly after it flushed the hits of the snapshot: any journal may take its number then."""

    async def story() -> None:
        store = MemoryStore()
        for _ in range(gave_back_before):  # then the snapshot knows the number, else the journal never had one
            node = start(tmp_path / "journal", store)
            await node.owner.flush()
            await node.owner.close()
        node = start(tmp_path / "journal", store)
        await hit(node, 1)
        shutil.copytree(tmp_path / "journal", tmp_path / "snapshot")
        await node.owner.flush()
        await node.owner.close()
        for n in range(others):
            other = start(tmp_path / f"other-{n}", store)
            await other.owner.flush()
            assert other.owner.status.owner == node.owner.status.owner
            await other.owner.close()
        old = start(tmp_path / "snapshot", store)
        with pytest.raises(JournalSuperseded, match="may be counted already"):
            await old.owner.flush()
        assert await lifetime(store) == 1
        await old.owner.close()
        again = start(tmp_path / "journal", store)  # the original is no snapshot: what it accepts from now on is new
        await hit(again, 2)
        await again.owner.flush()
        await again.owner.close()
        assert await lifetime(store) == 3

    asyncio.run(story())


def test_an_empty_journal_that_is_superseded_takes_a_new_owner(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        node = start(tmp_path / "journal", store)
        await hit(node, 1)
        await node.owner.flush()
        shutil.copytree(tmp_path / "journal", tmp_path / "snapshot")
        await hit(node, 2)
        await node.owner.flush()
        die(node)
        old = start(tmp_path / "snapshot", store)
        await old.owner.flush()
        await hit(old, 4)
        await old.owner.flush()
        assert old.owner.status.owner != node.owner.status.owner
        assert await lifetime(store) == 7
        await old.owner.close()

    asyncio.run(story())


@pytest.mark.parametrize("number_becomes_free", [False, True])
def test_two_copies_of_a_new_journal_count_once_whenever_the_other_starts(
    number_becomes_free: bool, tmp_path: Path
) -> None:
    async def story(folder: Path, n: int) -> bool:
        store = Meddled()
        third = start(folder / "third", store)
        await third.owner.flush()
        one = start(folder / "one", store)
        await hit(one, 1)
        shutil.copytree(folder / "one", folder / "two")

        async def start_other() -> None:
            if number_becomes_free:
                await third.owner.close()
            other = start(folder / "two", store)
            await other.owner.flush()

        store.calls_left, store.meddle = n, lambda: asyncio.run(start_other())
        with suppress(JournalSuperseded, OwnerFenced):
            await one.owner.flush()
        assert await lifetime(store) == 1
        return store.calls_left <= 0

    n = 1
    while asyncio.run(story(tmp_path / str(n), n)):
        n += 1
    assert n > 4


def test_a_copy_that_claimed_a_number_and_was_retired_is_in_nobodys_way(tmp_path: Path) -> None:
    """What the journal holds is in no row of that number, and nobody may claim it again."""

    async def story() -> None:
        store = MemoryStore()
        one = start(tmp_path / "one", store)
        await hit(one, 1)
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        other = start(tmp_path / "two", store)
        await other.owner.claim()
        die(other)
        retire(store, other.owner.status.owner)
        await one.owner.flush()
        assert await lifetime(store) == 1
        await one.owner.close()

    asyncio.run(story())


def test_the_copy_of_a_new_journal_knows_that_the_other_has_begun_a_flush(tmp_path: Path) -> None:
    async def story() -> None:
        store = Halting()
        original = start(tmp_path / "original", store)
        await hit(original, 1)
        original.disk.kill()
        shutil.copytree(tmp_path / "original", tmp_path / "copy")
        copy = start(tmp_path / "copy", store)
        store.halt_at = ALL_LINKS
        with pytest.raises(StoreUnavailable, match="all links"):
            await copy.owner.flush()
        assert await lifetime(store) == 1
        copy.disk.kill()
        copy.start()
        store.halt_at = "begin"
        with pytest.raises(StoreUnavailable, match="begin"):
            await copy.owner.flush()
        copy.disk.kill()
        store.halt_at = "nowhere"
        original.start()
        with pytest.raises(JournalSuperseded):
            await original.owner.flush()
        copy.start()
        await copy.owner.flush()
        assert await lifetime(store) == 1

    asyncio.run(story())


def test_two_copies_of_a_retired_owners_journal_count_once(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        one = start(tmp_path / "one", store)
        await one.owner.flush()
        await hit(one, 1)
        one.disk.kill()
        record = store.owner(1)
        assert record is not None and store.claim(record, replace(record, state=RETIRED))
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        one.start()
        await one.owner.flush()
        assert one.owner.status.owner == 2
        two = start(tmp_path / "two", store)
        with pytest.raises(JournalSuperseded, match="owner 2 went on"):
            await two.owner.flush()
        assert await lifetime(store) == 1

    asyncio.run(story())
