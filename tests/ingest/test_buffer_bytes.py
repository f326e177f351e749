"""What a buffer takes in memory is counted as it grows, and bounded."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from clickcurve.buckets.errors import JournalBehind, StoreUnavailable
from clickcurve.keys import group_key, link_key
from ingest.attributes.profile import Profile
from ingest.batch import Batch, BatchAttributes, GroupCounts, Identified, decode_batch, encode_batch
from ingest.buffer import Buffer
from ingest.deltas import DeltasByKey
from ingest.flush import Pace
from ingest.hit_sums import HitSums
from ingest.journal.disk_journal import DiskJournal
from ingest.owner import Owner
from storage.memory_store import MemoryStore
from tests.ingest.faulty_store import FaultyStore
from tests.ingest.owner_kit import read

NOW = 1_772_000_040
MINUTE = NOW // 60 * 60
HOUR = NOW // 3_600 * 3_600
MANY = 10_000


def new_keys(buffer: Buffer) -> None:
    for n in range(0, MANY, 500):
        buffer.add_singles(MINUTE, [f"link-{k:06d}" for k in range(n, n + 500)], n)


def unsummed_keys(buffer: Buffer) -> None:
    for n in range(20):
        keys = [f"link-{k:06d}" for k in range(MANY // 20)]
        buffer.add_batch(Batch(keys={MINUTE + 60 * n: keys, MINUTE - 90_000 - 60 * n: keys}), n, False)


def long_keys(buffer: Buffer) -> None:
    buffer.add_batch(Batch(people={MINUTE: {f"{n:0500d}": 1 for n in range(MANY)}}), 1, False)


def several_minutes(buffer: Buffer) -> None:
    for n in range(20):
        buffer.add_batch(Batch(bots={MINUTE + 60 * n: {f"link-{k:06d}": 1 for k in range(MANY // 20)}}), n, False)


def late_keys(buffer: Buffer) -> None:
    for n in range(0, MANY, 500):
        buffer.add_batch(Batch(people={MINUTE - 90_000: {f"link-{k:06d}": 1 for k in range(n, n + 500)}}), n, False)


def late_minutes(buffer: Buffer) -> None:
    history = {MINUTE - 90_000 - 60 * n: {f"link-{k:03d}": 1 for k in range(100)} for n in range(MANY // 100)}
    buffer.add_batch(Batch(people=history), 1, False)


def ids(buffer: Buffer) -> None:
    for n in range(MANY):
        buffer.add_batch(Batch(identified=[Identified(f"visit-{n:06d}", {MINUTE: {f"link-{n:06d}": 1}}, {})]), n, True)


def large_ids(buffer: Buffer) -> None:
    for n in range(MANY // 100):
        hits = {MINUTE: {f"link-{n:06d}-{k}": 1 for k in range(100)}}
        buffer.add_batch(Batch(identified=[Identified(f"batch-{n:06d}", hits, {})]), n, False)
    buffer.decide([])


def openings(buffer: Buffer) -> None:
    buffer.add_batch(Batch(openings={f"link-{n:06d}": n for n in range(MANY)}), 1, False)


def groups(buffer: Buffer) -> None:
    counts = GroupCounts({MINUTE: {group_key(f"group-{n:06d}"): n for n in range(1, MANY)}}, {})
    buffer.add_batch(Batch(attributes=BatchAttributes(groups=counts)), 1, False)


def words(buffer: Buffer) -> None:
    sums = HitSums()
    for n in range(MANY):
        profile = Profile(("ref", "country", "device", "source"), (f"host-{n % 3_000}.example", "DE", "phone", ""))
        sums.links.add_profile(HOUR, f"link-{n % 700:06d}", profile, 1)
    batch = decode_batch(encode_batch(sums.batch()))
    assert isinstance(batch, Batch)
    buffer.add_batch(batch, 1, False)


KINDS = [
    words,
    new_keys,
    unsummed_keys,
    long_keys,
    several_minutes,
    late_keys,
    late_minutes,
    ids,
    large_ids,
    openings,
    groups,
]


@pytest.mark.parametrize("fill", KINDS)
def test_the_bytes_counted_are_those_that_a_buffer_and_its_flush_take(fill: Callable[[Buffer], None]) -> None:
    gc.collect()
    tracemalloc.start()
    try:
        buffer = Buffer(MINUTE - 86_400)
        fill(buffer)
        turned = DeltasByKey.of(buffer, lambda: None)
        stored = turned.ranges((), lambda: None)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert any(stored) or turned.any_attributes()
    assert 0.8 * taken <= buffer.bytes_held() <= 2.0 * taken, f"{buffer.bytes_held():,} of {taken:,}"


def test_hits_of_known_keys_take_nothing_more() -> None:
    buffer = Buffer(MINUTE)
    keys = [f"link-{n}" for n in range(1_000)]
    buffer.add_singles(MINUTE, keys, 1)
    once = buffer.bytes_held()
    for n in range(10):
        buffer.add_singles(MINUTE, keys, n)
        buffer.add_batch(Batch(people={MINUTE: dict.fromkeys(keys, 7)}), n, False)
    assert buffer.bytes_held() == once
    assert sum(buffer.links.people.of("link-5").values()) == 81


def open_owner(folder: Path, store: FaultyStore, bytes_max: int) -> Owner:
    pace = Pace(lambda: 0.0, 15.0, lambda: False)
    clock = lambda: float(NOW)  # noqa: E731
    return Owner(DiskJournal(folder), store, clock, lambda: "token", pace, "here", alone=True, buffer_bytes=bytes_max)


async def fill(owner: Owner) -> int:
    """Sends new links until one is refused; returns how many were counted."""
    for n in range(0, 1_000_000, 100):
        try:
            await owner.accept(Batch(people={MINUTE: {f"link-{n + k}": 1 for k in range(100)}}))
        except JournalBehind as error:
            assert f"of {owner.status.buffer_bytes_max:,} bytes of memory" in error.detail
            assert (error.status, error.retry_after_s) == (429, 1)
            return n
    raise AssertionError("nothing was ever refused")


async def test_beyond_the_bound_hits_are_refused_until_a_flush_frees_it_and_none_is_lost(tmp_path: Path) -> None:
    store = FaultyStore(MemoryStore())
    owner = open_owner(tmp_path, store, 1 << 20)
    counted = await fill(owner)
    assert 1_000 < counted < 10_000
    status = owner.status
    assert status.buffer_full and status.buffer_bytes_max < status.buffer_bytes < 1.1 * status.buffer_bytes_max
    with pytest.raises(JournalBehind):
        owner.accept_one("link-0")  # a known link, too: its next minute would take more
    store.down = True
    with pytest.raises(StoreUnavailable):
        await owner.flush()
    with pytest.raises(JournalBehind):
        owner.accept_one("link-0")  # what a flush has taken and not stored counts, too
    await owner.release()
    owner = open_owner(tmp_path, store, 1 << 20)
    with pytest.raises(JournalBehind):
        owner.accept_one("link-0")  # as it does after a restart
    store.down = False
    await owner.flush()
    assert owner.status.buffer_bytes == 0 and not owner.status.buffer_full
    await owner.accept_one("link-0")
    await owner.flush()
    for n in (0, 1, counted - 1, counted):
        row = await read(store, [], link_key(f"link-{n}"), NOW)
        assert row.lifetime == (2 if n == 0 else n < counted)
    await owner.close()
