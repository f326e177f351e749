"""An import whose owner is lost in the middle of a flush, and goes on at another."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickcurve.buckets.errors import StoreUnavailable
from ingest.batch import Batch, SourceStep
from storage.memory_store import MemoryStore
from tests.ingest.claim_kit import NOW, die, hit, lifetime, retire, start
from tests.ingest.faulty_store import FaultyStore
from tests.ingest.owner_kit import counts, minute_of


async def test_what_a_lost_owner_wrote_of_an_unfinished_flush_counts_again_where_its_import_goes_on(
    tmp_path: Path,
) -> None:
    store = FaultyStore(MemoryStore())
    lost, other = start(tmp_path / "lost", store), start(tmp_path / "other", store)
    await lost.owner.flush()
    step = SourceStep("log", (await lost.owner.source("log")).position, 10, "tail")
    chunk = Batch(people=counts(minute_of(NOW), {"a": 2}), source=step)
    await lost.owner.accept(chunk)
    store.fail_at[store.calls + 6] = ("before", StoreUnavailable)  # the link's row is saved, the offset is not
    with pytest.raises(StoreUnavailable):
        await lost.owner.flush()
    die(lost)
    assert await lifetime(store) == 2
    retire(store, lost.owner.status.owner)
    await hit(other, 1)
    await other.owner.flush()
    assert (await other.owner.source("log")).position == 0
    await other.owner.accept(chunk)
    await other.owner.close()
    assert await lifetime(store) == 2 + 2 + 1
