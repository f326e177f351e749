"""What an owner tells other workers: the least number that its next flush can get, and nothing of what they erased."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import link_key
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.owner_kit import read

NOW = 1_772_407_680
KEY = link_key("k")


def play(tmp_path: Path, steps: Callable[[MemoryStore, OwnerProcess, OwnerProcess], Awaitable[None]]) -> None:
    """Plays with two owners of a store that is in use, and releases both."""

    async def main() -> None:
        store, ticks = MemoryStore(CLICKS), count()

        def clock() -> float:
            return NOW + next(ticks) / 1000

        first, second = (OwnerProcess(tmp_path / name, store, clock, False, TrackedDisk()) for name in "ab")
        try:
            await steps(store, first, second)
        finally:
            await first.owner.release()
            await second.owner.release()

    asyncio.run(main())


def test_the_least_number_of_the_next_flush_is_above_all_marks_and_not_above_its_own(tmp_path: Path) -> None:
    async def steps(store: MemoryStore, first: OwnerProcess, second: OwnerProcess) -> None:
        owner = first.owner
        with pytest.raises(StoreUnavailable):
            _ = owner.next_flush
        await owner.claim()
        for _ in range(3):
            told = owner.next_flush
            await owner.accept_one("k")
            await owner.flush()
            mark = first.journal.state.last_flush
            assert told <= mark < owner.next_flush

    play(tmp_path, steps)


def test_what_another_owner_erased_is_hidden_at_once_and_flushed_by_the_stores_stamp(tmp_path: Path) -> None:
    async def steps(store: MemoryStore, first: OwnerProcess, second: OwnerProcess) -> None:
        nodes = [first, second]

        async def lifetime() -> int:
            return (await read(store, nodes, KEY, NOW)).lifetime

        for node in nodes:
            await node.owner.claim()
        for _ in range(3):
            await second.owner.accept_one("k")
        assert await lifetime() == 3
        await first.owner.erase("k")
        assert await lifetime() == 3, "only the second owner knows of its hits"
        await second.owner.hide_erased("k")
        assert await lifetime() == 0
        await second.owner.accept_one("k")
        assert await lifetime() == 1
        for node in nodes:
            await node.owner.flush()
        assert await lifetime() == 1

    play(tmp_path, steps)


def test_a_link_that_was_not_hit_here_leaves_nothing_when_it_is_erased_elsewhere(tmp_path: Path) -> None:
    async def steps(store: MemoryStore, first: OwnerProcess, second: OwnerProcess) -> None:
        await second.owner.claim()
        await second.owner.hide_erased("k")
        assert not any(second.owner.buffered_links())

    play(tmp_path, steps)
