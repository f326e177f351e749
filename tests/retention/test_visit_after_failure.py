"""A visit of all breakdowns beside a flush that fails: also rows that the flush had written already are made anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clickcurve.buckets.breakdowns.breakdown import BREAKDOWN, BoundedLadder
from clickcurve.buckets.breakdowns.kept_time import KeptTime
from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.buckets.errors import StoreUnavailable
from clickcurve.buckets.ladder import DAY_S, fold_day
from clickcurve.keys import breakdown_of
from ingest.attributes.country import country_reader
from ingest.attributes.profile import ProfileReader
from ingest.attributes.referrer import ReferrerReader
from ingest.hit import Moment
from ingest.reading.body import Media
from ingest.reading.request_sums import RequestSums
from storage.memory_store import MemoryStore
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.faulty_store import FaultyStore
from tests.ingest.http_kit import summed

NOW = 1_770_000_000
READER = ProfileReader(("ref",), country_reader("off"), ReferrerReader())
KEPT = BoundedLadder(BREAKDOWN.ladder, BREAKDOWN.caps, (KeptTime("ref", 30),))


async def hit(node: OwnerProcess, ref: str, ago_s: int) -> None:
    body = json.dumps({"key": "k", "ref": ref, "ts": NOW - ago_s}).encode()
    batch = summed(body, Media.json, RequestSums(Moment(NOW, fold_day(NOW) * DAY_S, NOW + 300), reader=READER)).batch()
    assert batch is not None
    await node.owner.accept(batch)


async def values(store: MemoryStore) -> set[str]:
    (row,) = (await store.rows(breakdown_of("k"))).rows
    tiers = decode_parts(separate_parts(row.data)).dimensions["ref"]
    return {value for tier in tiers for counts in tier.values() for value in counts.values}


@pytest.mark.parametrize("call", range(1, 8))
async def test_a_visit_renews_rows_that_a_failed_flush_had_written(tmp_path: Path, call: int) -> None:
    memory = MemoryStore()
    store = FaultyStore(memory)
    node = OwnerProcess(tmp_path, store, lambda: float(NOW), alone=False, disk=TrackedDisk())
    await hit(node, "old.example", 200 * DAY_S)
    await node.owner.flush()
    node.disk.kill()
    node.bounded = KEPT
    node.start()
    await node.owner.flush()
    assert await values(memory) == {"old.example"}
    await hit(node, "new.example", 0)
    store.fail_at[store.calls + call] = "before", StoreUnavailable
    try:
        await node.owner.flush()
    except StoreUnavailable:
        pass
    else:
        assert call > 5, "a flush makes some calls"
    node.owner.revisit([breakdown_of("k")])
    await node.owner.flush()
    assert await values(memory) == {"new.example"}
    await node.owner.release()
