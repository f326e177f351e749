"""An erasure that fails: counts, and what hits said, are of one mind about it."""

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
from tests.audit.attributes import batch_of, judge_words
from tests.audit.auditor import Auditor, Sent
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

    def erase(self, keys: Sequence[str], at_us: int, last: Sequence[str] = ()) -> None:
        self.asked.set()
        self.flushed.wait()
        raise StoreUnavailable("it went away")


async def test_hits_that_were_flushed_while_an_erasure_failed_still_count(tmp_path: Path) -> None:
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


class FlickeringStore(MemoryStore):
    """A store of replicas, one of which has an erasure that failed: while `hidden`, the others answer a flush."""

    hidden = False

    def load_own(self, owner: int, keys: Sequence[str]) -> dict[str, OwnRow]:
        rows = super().load_own(owner, keys)
        if not self.hidden:
            return rows
        return {key: OwnRow(row.data, 0) for key, row in rows.items() if row.data is not None}


async def test_an_erasure_that_one_flush_has_seen_and_the_next_has_not_holds_in_both_rows_of_a_link(
    tmp_path: Path,
) -> None:
    now = [float(NOW)]
    store = FlickeringStore(CLICKS)
    auditor: Auditor[Sent] = Auditor()
    node = OwnerProcess(tmp_path / "a", store, lambda: now[0], False, TrackedDisk())
    before, after = (auditor.enter(Sent(auditor.next_hits(["k"]))) for _ in range(2))
    await node.owner.accept(batch_of(before, minute_of(NOW), None))
    store.erase([link_key("k")], (NOW + 5) * 1_000_000)
    await node.owner.flush()
    now[0] += 10
    store.hidden = True
    await node.owner.accept(batch_of(after, minute_of(NOW), None))
    await node.owner.flush()
    total, words = await read_words(store, [node], "k", NOW + 10)
    assert total == after.weight
    assert not judge_words("k", total, words)
    await node.owner.release()
