"""Ids that another owner or flush has claimed, links that are erased, and hits beside them, in any order."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.buckets.errors import JournalBehind
from clickcurve.keys import link_key
from ingest.batch import Batch, Identified, encode_batch
from ingest.buffer import Buffer, replay
from ingest.deduplication import Deduplication
from ingest.flush import Pace
from ingest.journal.contract import Frame
from ingest.journal.disk_journal import DiskJournal
from ingest.owner import ID_WINDOW_S, Owner
from storage.memory_store import MemoryStore
from tests.ingest.owner_kit import read

KEYS = ("a", "b")
NOW = 1_772_000_040
MINUTE, LATE_BEFORE = 120, 60
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("hit"), st.sampled_from(KEYS), st.sampled_from([0, MINUTE]), st.integers(1, 5)),
        st.tuples(st.sampled_from(["seen", "unseen"]), st.sampled_from(KEYS), st.booleans(), st.integers(1, 5)),
        st.tuples(st.sampled_from(["erase", "fail to erase"]), st.sampled_from(KEYS)),
    ),
    max_size=12,
)


@given(STEPS, STEPS)
def test_what_is_left_is_what_was_neither_refused_nor_erased(
    before: list[tuple[object, ...]], after: list[tuple[object, ...]]
) -> None:
    """`after` comes once the ids are decided. What the buffer then adds equals what its journal's frames make."""
    buffer, frames, erasures = Buffer(LATE_BEFORE), list[Frame](), dict[str, int]()
    left: Counter[str] = Counter()
    refused = {f"id {at}" for at, step in enumerate(before) if step[0] in ("seen", "unseen") and step[2]}
    for at, step in enumerate(before):
        _take(step, at, buffer, frames, erasures, left, refused)
    buffer.decide(refused)
    for at, step in enumerate(after, len(before)):
        if step[0] in ("erase", "fail to erase"):
            _take(step, at, buffer, frames, erasures, left, refused)
    again = replay(frames, erasures, LATE_BEFORE)
    again.decide(refused)
    for key in KEYS:
        for found in (buffer.delta(key), again.delta(key)):
            assert min([*found.people.values(), found.erased, found.opening], default=0) >= 0
            assert sum(found.people.values()) == left[key]
        assert buffer.delta(key).erased == again.delta(key).erased
    assert all(count > 0 for count in buffer.all_links().people.values())
    assert buffer.all_links() == again.all_links()


def _take(
    step: tuple[object, ...],
    at: int,
    buffer: Buffer,
    frames: list[Frame],
    erasures: dict[str, int],
    left: Counter[str],
    refused: set[str],
) -> None:
    kind, key, stamp = step[0], str(step[1]), at + 1
    if kind in ("erase", "fail to erase"):
        gone = buffer.erase(key, stamp)
        if kind == "erase":
            erasures[key], left[key] = stamp, 0
        else:
            buffer.restore(key, gone)
        return
    count = int(str(step[3]))
    if kind == "hit":
        batch = Batch(people={int(str(step[2])): {key: count}})
        left[key] += count
    else:
        batch = Batch(identified=[Identified(f"id {at}", {MINUTE: {key: count}}, {})])
        left[key] += 0 if f"id {at}" in refused else count
    frames.append(Frame(stamp, encode_batch(batch)))
    buffer.add_batch(batch, stamp, visible=kind == "seen")


def test_no_id_is_known_before_it_came_though_a_clock_has_begun_in_1970() -> None:
    """Two days before it the clock would stand below 0, where every stamp is newer, that of no stamp too."""

    async def story() -> frozenset[str]:
        ids = Deduplication(MemoryStore(), lambda id_: None, True, ID_WINDOW_S * 1_000_000, lambda: 5_000_000)
        async with ids.under_way(["x"]) as judged:
            return judged.duplicates

    assert asyncio.run(story()) == frozenset()


@pytest.mark.parametrize("visible", [True, False])
@pytest.mark.parametrize("is_refused", [True, False])
def test_an_id_that_is_used_again_once_it_is_forgotten_counts_both_times(visible: bool, is_refused: bool) -> None:
    """Both may wait for the same flush; another owner can have claimed the second use alone."""
    batches = [Batch(identified=[Identified("x", {MINUTE: {key: 1}}, {})]) for key in KEYS]
    buffer = Buffer(LATE_BEFORE)
    for at, batch in enumerate(batches, 1):
        buffer.add_batch(batch, at, visible)
    again = replay([Frame(at, encode_batch(batch)) for at, batch in enumerate(batches, 1)], {}, LATE_BEFORE)
    for found in (buffer, again):
        for _ in range(2):  # as a flush that is tried again does
            found.decide({"x"} if is_refused else set())
            assert [sum(found.delta(key).people.values()) for key in KEYS] == [1, 0 if is_refused else 1]


def test_an_id_that_another_owner_has_claimed_counts_no_third_time_two_days_later(tmp_path: Path) -> None:
    """The first owner's flushes fail for two days: its claim must be that of the first use, not of the second."""
    now, store = [NOW], MemoryStore()

    def opened(name: str) -> Owner:
        journal, pace = DiskJournal(tmp_path / name), Pace(lambda: 0.0, 15.0, lambda: False)
        return Owner(journal, store, lambda: float(now[0]), lambda: name, pace, name, alone=False)

    async def story() -> None:
        first, second = opened("first"), opened("second")

        async def accept(owner: Owner, hours: int) -> None:
            now[0] = NOW + hours * 3_600
            await owner.accept(Batch(identified=[Identified("x", {now[0] // 60 * 60: {"a": 1}}, {})]))

        async def stored() -> int:
            return (await read(store, [], link_key("a"), now[0])).lifetime

        await accept(first, 0)
        await accept(second, 1)
        await second.flush()
        with pytest.raises(JournalBehind, match="'x'"):
            await accept(first, 50)
        await first.flush()
        assert await stored() == 1
        await accept(first, 51)
        await first.flush()
        assert await stored() == 2
        for owner in (first, second):
            await owner.close()

    asyncio.run(story())


@pytest.mark.parametrize("is_killed", [True, False])
def test_no_hit_is_lost_whose_id_is_used_again_two_days_later_before_a_flush(tmp_path: Path, is_killed: bool) -> None:
    now, store = [NOW], MemoryStore()

    def opened() -> Owner:
        pace = Pace(lambda: 0.0, 15.0, lambda: False)
        return Owner(DiskJournal(tmp_path), store, lambda: float(now[0]), lambda: "token", pace, "here", alone=True)

    async def story() -> None:
        owner = opened()
        counted = 0
        for key, hours in (("a", 0), ("b", 50), ("b", 51)):
            now[0] = NOW + hours * 3_600
            named = Identified("x", {now[0] // 60 * 60: {key: 1}}, {})
            counted += not await owner.accept(Batch(identified=[named]))
        assert counted == 2, "the third is a repeat of the second"
        if is_killed:
            await owner.release()
            owner = opened()
        await owner.flush()
        for key in KEYS:
            assert (await read(store, [], link_key(key), now[0])).lifetime == 1
        named = Identified("x", {now[0] // 60 * 60: {"a": 1}}, {})
        assert await owner.accept(Batch(identified=[named])) == {"x"}
        await owner.close()

    asyncio.run(story())
