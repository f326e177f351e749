"""Ids that another owner or flush has claimed, links that are erased, and hits beside them, in any order."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ingest.batch import Batch, Identified, encode_batch
from ingest.buffer import Buffer, replay
from ingest.deduplication import Deduplication
from ingest.journal.segment_format import Frame
from ingest.owner import ID_WINDOW_S
from storage.memory_store import MemoryStore

KEYS = ("a", "b")
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
