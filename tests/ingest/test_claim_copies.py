"""Journals that are there twice, and numbers that pass from one journal to another: what both hold counts once."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.errors import JournalBroken, JournalSuperseded, OwnerFenced, StoreUnavailable
from clickcurve.keys import ALL_LINKS, link_key
from ingest.batch import Batch
from storage.contract import OPEN, RETIRED, OwnRow, Store
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.faulty_store import FaultyStore
from tests.ingest.owner_kit import counts, minute_of, read

NOW = 1_772_000_000.0


def start(folder: Path, store: Store) -> OwnerProcess:
    return OwnerProcess(folder, store, lambda: NOW, alone=False, disk=TrackedDisk())


async def hit(node: OwnerProcess, count: int) -> None:
    await node.owner.accept(Batch(people=counts(minute_of(NOW), {"a": count})))


async def lifetime(store: Store) -> int:
    return (await read(store, [], link_key("a"), int(NOW))).lifetime


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


def test_a_journal_whose_number_was_taken_after_a_clean_stop_takes_another(tmp_path: Path) -> None:
    async def story() -> None:
        store = FaultyStore(MemoryStore())
        first = start(tmp_path / "first", store)
        await hit(first, 1)
        await first.owner.close()
        second = start(tmp_path / "second", store)
        await hit(second, 2)
        await second.owner.flush()
        assert second.owner.status.owner == 1
        first.start()
        store.down = True
        await hit(first, 4)  # before it could ask the store who it is
        with pytest.raises(StoreUnavailable):
            await first.owner.flush()
        store.down = False
        await first.owner.flush()
        assert first.owner.status.owner == 2
        assert await lifetime(store) == 7

    asyncio.run(story())


def test_a_journal_that_was_closed_goes_on_under_its_number(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        node = start(tmp_path / "journal", store)
        for n in range(3):
            await hit(node, 1 << n)
            await node.owner.close()
            node.start()
        await node.owner.flush()
        assert (node.owner.status.owner, node.owner.status.epoch) == (1, 4)
        assert len(store.owners()) == 1
        assert await lifetime(store) == 7

    asyncio.run(story())


def test_no_flush_comes_after_the_number_was_given_back(tmp_path: Path) -> None:
    """As the pass over quiet rows would ask for, had it not ended when the owner is closed."""

    async def story() -> None:
        store = MemoryStore()
        node = start(tmp_path / "journal", store)
        await hit(node, 1)
        await node.owner.flush()
        node.owner.revisit([link_key("a")])
        closing = asyncio.ensure_future(node.owner.close())
        while store.owners()[0].state == OPEN:
            node.owner.revisit([link_key("a")])
            flushing = asyncio.ensure_future(node.owner.flush())
            await asyncio.wait({flushing, closing}, return_when=asyncio.FIRST_COMPLETED)
        await closing
        with suppress(JournalBroken):
            await flushing
        node.start()
        assert node.journal.state.flush is None
        await node.owner.close()

    asyncio.run(story())
