"""A flush that fails with an error that nobody foresaw, or where nobody hears it, is a failed flush like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from threading import Event

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.keys import link_key
from ingest.journal.contract import FlushRecord
from ingest.journal.disk_journal import DiskJournal
from storage.contract import Held, SavedRow, Source
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess
from tests.ingest.claim_kit import hit, lifetime, start
from tests.ingest.faulty_store import FaultyStore


@pytest.mark.parametrize("when", ["before", "after"])
def test_whatever_a_flush_fails_with_it_is_counted_and_tried_again(tmp_path: Path, when: str) -> None:
    async def story() -> None:
        store = FaultyStore(MemoryStore())
        node = start(tmp_path, store)
        await node.owner.flush()
        await hit(node, 3)
        node.owner.revisit(["quiet"])
        for failed in range(1, 5):
            store.fail_at = {store.calls + failed: (when, ZeroDivisionError)}
            await fails(node, failed)
        await node.owner.flush()
        assert node.owner.status.failed_flushes == 4
        assert await lifetime(store) == 3
        await node.owner.close()

    async def fails(node: OwnerProcess, failed: int) -> None:
        with pytest.raises(ZeroDivisionError):
            await node.owner.flush()
        assert node.owner.status.failed_flushes == failed
        assert node.owner._rewrite and (node.owner._revisit == {"quiet"}), "all of it is done again"
        assert node.owner.status.buffered_hits == 3

    asyncio.run(story())


class Hanging(MemoryStore):
    """Hangs in its first save until it is `told`, and fails then: that save may have reached a replica, or all."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs, self.told = Event(), Event()
        self.saves: list[list[str]] = []

    def save_own(self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source]) -> None:
        self.saves.append([*rows])
        super().save_own(held, flush, rows, sources)
        if not self.hangs.is_set():
            self.hangs.set()
            self.told.wait()
            raise StoreUnavailable("no quorum has answered")


def test_a_stop_while_a_flush_is_being_recorded_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the last flush records one with the same number, and the stop ends in a traceback."""

    async def story() -> None:
        store, recording, told = MemoryStore(), Event(), Event()
        node = start(tmp_path, store)
        record_flush = DiskJournal.record_flush

        def hangs(self: DiskJournal, number: int, fold_day: int) -> FlushRecord:
            recording.set()
            told.wait()
            return record_flush(self, number, fold_day)

        monkeypatch.setattr(DiskJournal, "record_flush", hangs)
        await hit(node, 3)
        flushing = asyncio.create_task(node.owner.flush())
        await asyncio.to_thread(recording.wait)
        flushing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flushing
        told.set()
        await node.owner.close()
        assert await lifetime(store) == 3

    asyncio.run(story())


def test_all_of_a_flush_is_done_again_that_was_cancelled_and_failed_in_its_thread(tmp_path: Path) -> None:
    """As at a stop for which the flush takes too long: the last one follows it."""

    async def story() -> None:
        store = Hanging()
        node = start(tmp_path, store)
        await node.owner.flush()
        node.owner._rewrite = False  # as after any flush
        await hit(node, 3)
        flushing = asyncio.create_task(node.owner.flush())
        await asyncio.to_thread(store.hangs.wait)
        flushing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flushing
        store.told.set()
        await node.owner.close()
        assert [keys for keys in store.saves if link_key("a") in keys] == [["a"], ["a"]]
        assert await lifetime(store) == 3

    asyncio.run(story())
