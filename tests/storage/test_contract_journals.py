"""Every store that keeps journals: frames, fences, records that name frames, beats. SQLite says that it has none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from clickcurve.buckets.errors import SettingInvalid, StoreUnavailable
from storage.cassandra.tables import journals as journals_table
from storage.contract import CLOSED, Held, Store
from storage.journals import IN_STORE, FramePlace, JournalRecord, Journals
from tests.storage.stores import OUTAGES, STORES, Outage, StoreFactory, record

KEEPING = [name for name in STORES if name != "sqlite"]
OWNER, AFTER = 7, 1 << 20
MINE = Held(OWNER, 1, "h1")


@pytest.fixture(params=KEEPING)
def factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreFactory]:
    made = STORES[request.param](tmp_path, request.getfixturevalue)
    yield made
    made.close()


@pytest.fixture
def store(factory: StoreFactory) -> Store:
    return factory()


@pytest.fixture
def journals(store: Store) -> Journals:
    return store.journals()


def append(journals: Journals, number: int, frame: bytes, after: int = AFTER, piece: int = 0) -> None:
    asyncio.run(journals.append(FramePlace(OWNER, after, piece, number), frame))


def created(store: Store, owner: int = OWNER) -> JournalRecord:
    made = replace(record(owner), journal=IN_STORE)
    assert store.create_owner(made)
    return JournalRecord(made)


def test_sqlite_says_that_it_keeps_no_journals(tmp_path: Path) -> None:
    factory = STORES["sqlite"](tmp_path, lambda name: None)
    with pytest.raises(SettingInvalid, match="a SQLite store keeps no journals"):
        factory().journals()
    factory.close()


def test_frames_come_back_by_number_and_only_those_behind_the_flush(factory: StoreFactory) -> None:
    journals, other = factory().journals(), factory().journals()
    append(journals, 2, b"two")
    append(journals, 0, b"zero")
    append(journals, 0, b"zero")  # repeated, because the answer was lost
    append(journals, 0, b"behind another", after=AFTER + 1)
    assert other.frames(OWNER, AFTER) == {0: b"zero", 2: b"two"}
    assert other.frames(OWNER, AFTER + 1) == {0: b"behind another"}
    assert other.frames(OWNER, AFTER + 2) == {}
    assert other.frames(OWNER + 1, AFTER) == {}


@pytest.mark.parametrize("length", [0, 1, journals_table.PART_BYTES, journals_table.PART_BYTES + 1, 300_000])
def test_a_frame_of_any_length_comes_back_whole(journals: Journals, length: int) -> None:
    frame = Random(length).randbytes(length)
    append(journals, 0, frame)
    assert journals.frames(OWNER, AFTER) == {0: frame}


def test_frames_are_read_piece_by_piece_up_to_an_empty_one(journals: Journals) -> None:
    append(journals, 0, b"a", piece=0)
    append(journals, 1, b"b", piece=1)
    assert journals.frames(OWNER, AFTER) == {0: b"a", 1: b"b"}
    journals.drop(OWNER, AFTER)
    assert journals.frames(OWNER, AFTER) == {}


def test_what_is_dropped_stays_gone_also_if_it_comes_late(journals: Journals) -> None:
    append(journals, 0, b"a")
    append(journals, 0, b"other", after=AFTER + 1)
    journals.drop(OWNER, AFTER)
    journals.drop(OWNER, AFTER)
    append(journals, 0, b"a")
    append(journals, 5, b"given up, and late")
    assert journals.frames(OWNER, AFTER) == {}
    assert journals.frames(OWNER, AFTER + 1) == {0: b"other"}


def test_a_fence_only_rises(factory: StoreFactory) -> None:
    journals, other = factory().journals(), factory().journals()
    assert asyncio.run(journals.fence(OWNER)) == 0
    other.raise_fence(OWNER, 3)
    other.raise_fence(OWNER, 3)
    other.raise_fence(OWNER, 2)  # late, from an earlier taker
    assert asyncio.run(journals.fence(OWNER)) == 3
    assert asyncio.run(journals.fence(OWNER + 1)) == 0


def test_a_begin_records_what_the_flush_counts(store: Store, journals: Journals) -> None:
    before = created(store)
    assert journals.record(OWNER) == before
    assert journals.begin(MINE, 0, 5, 100, 20_000, "0-3,7")
    after = JournalRecord(replace(before.record, begun=5, begun_at=100), 0, 20_000, "0-3,7", 0)
    assert journals.record(OWNER) == after
    assert store.owner(OWNER) == after.record
    assert journals.begin(MINE, 0, 5, 200, 20_000, "0-3,7")  # repeated: it stays as it is
    assert journals.record(OWNER) == after


def test_a_flush_that_has_begun_counts_the_same_frames_for_ever(store: Store, journals: Journals) -> None:
    created(store)
    assert journals.begin(MINE, 0, 5, 100, 20_000, "0-3")
    for other in [(0, 20_000, "0-4"), (0, 20_001, "0-3"), (3, 20_000, "0-3")]:
        assert not journals.begin(MINE, other[0], 5, 100, *other[1:])
    kept = journals.record(OWNER)
    assert kept is not None and kept.frames == "0-3"


@pytest.mark.parametrize(
    ("held", "previous"),
    [(Held(OWNER, 2, "h1"), 0), (Held(OWNER, 1, "h2"), 0), (MINE, 3), (Held(OWNER + 1, 1, "h1"), 0)],
    ids=["epoch", "holder", "previous", "unknown owner"],
)
def test_a_begin_and_a_done_are_refused_to_anybody_else(
    store: Store, journals: Journals, held: Held, previous: int
) -> None:
    before = created(store)
    assert not journals.begin(held, previous, 5, 100, 20_000, "0")
    assert journals.record(OWNER) == before
    assert journals.begin(MINE, 0, 5, 100, 20_000, "0")
    assert not journals.done(held, 5 if held != MINE else 4)
    kept = journals.record(OWNER)
    assert kept is not None and kept.done == 0


def test_a_late_done_of_an_earlier_flush_is_refused(store: Store, journals: Journals) -> None:
    created(store)
    assert journals.begin(MINE, 0, 5, 100, 20_000, "0")
    assert journals.done(MINE, 5)
    assert journals.done(MINE, 5)
    assert journals.begin(MINE, 5, 6, 200, 20_000, "")
    assert not journals.done(MINE, 5)
    kept = journals.record(OWNER)
    assert kept is not None and (kept.record.begun, kept.previous, kept.done) == (6, 5, 5)


def test_a_claim_leaves_what_the_flush_counts(store: Store, journals: Journals) -> None:
    created(store)
    assert journals.begin(MINE, 0, 5, 100, 20_000, "0-3")
    before = journals.record(OWNER)
    assert before is not None
    assert store.claim(before.record, replace(before.record, epoch=2, holder="h2"))
    after = journals.record(OWNER)
    assert after == replace(before, record=replace(before.record, epoch=2, holder="h2"))
    assert not journals.done(MINE, 5)
    assert journals.done(Held(OWNER, 2, "h2"), 5)
    assert store.close_owner(Held(OWNER, 2, "h2"))
    closed = journals.record(OWNER)
    assert closed is not None and (closed.record.state, closed.done, closed.frames) == (CLOSED, 5, "0-3")


def test_records_are_those_of_journals_in_the_store(store: Store, journals: Journals) -> None:
    assert store.create_owner(record(1))  # on a disk
    here = [created(store, 3), created(store, 2)]
    assert journals.records() == here[::-1]
    assert journals.record(4) is None


def test_a_flush_that_named_its_frames_may_write_rows(store: Store, journals: Journals) -> None:
    created(store)
    assert journals.begin(MINE, 0, 5, 100, 20_000, "0")
    store.save_own(MINE, 5, {}, {})


def test_beats_only_rise(journals: Journals) -> None:
    journals.beat("p1", 1)
    journals.beat("p2", 4)
    journals.beat("p1", 3)
    journals.beat("p1", 2)  # late
    assert journals.beats() == {"p1": 3, "p2": 4}


@pytest.mark.parametrize("outage", [each for each in OUTAGES if each.store in KEEPING], ids=str)
def test_a_store_that_is_down_says_so_and_works_again(
    outage: Outage, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    factory = STORES[outage.store](tmp_path, request.getfixturevalue)
    store = factory()
    journals = store.journals()
    created(store)
    append(journals, 0, b"before")
    with outage.down(factory):
        for call in (
            lambda: append(journals, 1, b"meanwhile"),
            lambda: asyncio.run(journals.fence(OWNER)),
            lambda: journals.frames(OWNER, AFTER),
            lambda: journals.raise_fence(OWNER, 1),  # it returns only when a quorum has it
            lambda: journals.drop(OWNER, AFTER + 1),
            lambda: journals.record(OWNER),
            lambda: journals.begin(MINE, 0, 5, 100, 20_000, "0"),
            lambda: journals.beat("p1", 1),
            lambda: journals.beats(),
        ):
            with pytest.raises(StoreUnavailable):
                call()
    append(journals, 2, b"after")
    found = journals.frames(OWNER, AFTER)
    assert {0: b"before", 2: b"after"}.items() <= found.items()
    factory.close()
