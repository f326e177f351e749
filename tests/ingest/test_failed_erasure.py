"""An erasure that fails while a flush is under way erases nothing: not in the counts, and not in what hits said."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from threading import Event

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import link_key
from storage.contract import OwnRow
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.audit.auditor import Auditor, Sent
from tests.audit.words import batch_of, judge_words
from tests.ingest.owner_kit import minute_of, read_words

NOW = 1_772_407_680


class ErasingStore(MemoryStore):
    """A store that reads a flush's rows when an erasure is asked for, and fails that when they are saved."""

    def __init__(self) -> None:
        super().__init__(CLICKS)
        self.asked, self.flushed = Event(), Event()

    def load_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        if link_key("k") in keys:
            self.asked.wait()
        return super().load_own(owner, keys)

    def erase(self, key: str, at_us: int) -> None:
        self.asked.set()
        self.flushed.wait()
        raise StoreUnavailable("it went away")


def test_hits_that_were_flushed_while_an_erasure_failed_still_count(tmp_path: Path) -> None:
    async def main() -> None:
        ticks = count()

        def clock() -> float:
            return NOW + next(ticks) / 1000

        store = ErasingStore()
        auditor: Auditor[Sent] = Auditor()
        node = OwnerProcess(tmp_path / "a", store, clock, False, TrackedDisk())
        await node.owner.claim()
        sent = [auditor.enter(Sent(auditor.next_hits(["k"]))) for _ in range(3)]
        for each in sent:
            await node.owner.accept(batch_of(each, minute_of(NOW), None))
        flush = asyncio.create_task(node.owner.flush())
        erasure = asyncio.create_task(node.owner.erase("k"))
        await flush
        store.flushed.set()
        with pytest.raises(StoreUnavailable, match="went away"):
            await erasure
        total, words = await read_words(store, [node], "k", NOW)
        assert total == sum(each.weight for each in sent)
        assert not judge_words("k", total, words)
        await node.owner.release()

    asyncio.run(main())
