"""What docs/operations.md says of a wrong clock: a server whose clock was a day ahead, and was set right."""

from __future__ import annotations

from pathlib import Path

from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from ingest.batch import Batch
from storage.memory_store import MemoryStore
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.claim_kit import NOW
from tests.ingest.owner_kit import counts, minute_of, read


async def test_a_clock_that_was_a_day_ahead_changes_no_total(tmp_path: Path) -> None:
    now, store = NOW, MemoryStore()
    node = OwnerProcess(tmp_path, store, lambda: now, alone=True, disk=TrackedDisk())

    async def hit() -> None:
        await node.owner.accept(Batch(people=counts(minute_of(now), {"a": 1})))
        await node.owner.flush()

    await hit()
    now = NOW + DAY_S
    await hit()
    ahead = await read(store, [], "a", int(now))
    now = NOW + 60
    await hit()
    found = await read(store, [], "a", int(now))
    assert found.lifetime == 3
    assert found.fold_day == ahead.fold_day == fold_day(int(NOW) + DAY_S), "what was folded stays folded"
    assert found.last == minute_of(NOW + DAY_S), "the hit of tomorrow stays where the clock put it"
    assert verify(store, CLICKS).broken == []
