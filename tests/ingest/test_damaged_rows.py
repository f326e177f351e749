"""A row that cannot be read keeps no other from being flushed, and loses or doubles nothing when it is mended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

import pytest

from clickcurve.buckets import codec
from clickcurve.buckets.errors import RowCorrupt, StoreUnavailable
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import ALL_LINKS, QUARANTINE
from ingest.batch import Batch, Identified
from storage.contract import Held, SavedRow, Source, Store
from storage.memory_store import MemoryStore
from storage.sqlite.store import SqliteStore
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess
from tests.ingest.claim_kit import NOW, start
from tests.ingest.faulty_store import FaultyStore, Killed
from tests.ingest.owner_kit import counts, minute_of, read
from tests.power import sweep

Make = Callable[[Path], Store]
Fault = tuple[str, type[BaseException]]
STORES: list[Make] = [lambda _: MemoryStore(), lambda path: SqliteStore(path / "clickcurve.db", CLICKS)]


@pytest.fixture(params=STORES, ids=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with closing(request.param(tmp_path)) as made:
        yield made


async def hit(node: OwnerProcess, key: str, count: int, id_: str | None = None) -> None:
    people = counts(minute_of(NOW), {key: count})
    await node.owner.accept(Batch(people=people) if id_ is None else Batch(identified=[Identified(id_, people, {})]))


async def lifetime(store: Store, key: str) -> int:
    return (await read(store, [], key, int(NOW))).lifetime


def put(store: Store, key: str, data: bytes) -> bytes:
    """Puts these bytes in the place of the row, as nobody but a broken disk or a person does; returns what was there.

    Through the contract, in the name of the owner as it stands: so it works with every store, at any moment.
    """
    (record,) = store.owners()
    before = store.load_own(record.owner, [key])[key].data
    store.save_own(Held(record.owner, record.epoch, record.holder), record.begun, {key: SavedRow(data, None)}, {})
    assert before is not None
    return before


async def three_links(node: OwnerProcess) -> None:
    for key in "abc":
        await hit(node, key, 10)
    await node.owner.flush()


async def test_the_others_are_flushed_and_what_is_quarantined_is_added_once(store: Store, tmp_path: Path) -> None:
    node = start(tmp_path / "journal", store)
    await three_links(node)
    whole = put(store, "b", b"?")
    for _ in range(3):
        for key in "abc":
            await hit(node, key, 1)
        await node.owner.flush()
    status = node.owner.status
    assert (status.quarantined, status.failed_flushes, status.buffered_hits) == ({"b": 3}, 0, 0)
    assert (await lifetime(store, "a"), await lifetime(store, "c")) == (13, 13)
    assert any("b', owner 1: 3 hits are quarantined" in sentence for sentence in verify(store, CLICKS).broken)
    with pytest.raises(RowCorrupt):
        await lifetime(store, "b")
    put(store, "b", whole)
    for _ in range(2):
        await node.owner.flush()  # without any new hit
    assert (await lifetime(store, "b"), node.owner.status.quarantined) == (13, {})
    report = verify(store, CLICKS)
    assert (report.people, report.broken) == (39, [])


class FailsAtTheEnd(MemoryStore):
    """Notes which rows are saved, and fails once with the row of all links."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False
        self.saved: list[str] = []

    def save_own(self, held: Held, flush: int, rows: Mapping[str, SavedRow], sources: Mapping[str, Source]) -> None:
        if self.fails and ALL_LINKS in rows:
            self.fails = False
            raise StoreUnavailable("no quorum")
        self.saved += rows
        super().save_own(held, flush, rows, sources)


async def test_what_is_quarantined_is_written_again_when_a_flush_is_tried_again(tmp_path: Path) -> None:
    """It can be read, and yet be on one replica only, which is lost before the others have it."""
    store = FailsAtTheEnd()
    node = start(tmp_path / "journal", store)
    await three_links(node)
    put(store, "b", b"?")
    await hit(node, "b", 1)
    store.fails = True
    with pytest.raises(StoreUnavailable):
        await node.owner.flush()
    assert QUARANTINE in store.saved
    store.saved.clear()
    await node.owner.flush()
    assert QUARANTINE in store.saved[: store.saved.index(ALL_LINKS)], "in that flush, not in a later one"


async def test_the_row_of_all_links_may_be_damaged_too(store: Store, tmp_path: Path) -> None:
    node = start(tmp_path / "journal", store)
    await three_links(node)
    whole = put(store, ALL_LINKS, b"?")
    await hit(node, "a", 1)
    await node.owner.flush()
    assert node.owner.status.quarantined == {ALL_LINKS: 1}
    put(store, ALL_LINKS, whole)
    await hit(node, "b", 1)
    await node.owner.flush()
    assert (await lifetime(store, ALL_LINKS), verify(store, CLICKS).broken) == (32, [])


@pytest.mark.parametrize("hits_before", [0, 2])
@pytest.mark.parametrize("hits_after", [0, 5])
async def test_a_link_that_is_erased_begins_anew(
    store: Store, tmp_path: Path, hits_before: int, hits_after: int
) -> None:
    node = start(tmp_path / "journal", store)
    await three_links(node)
    put(store, "b", b"?")
    if hits_before:
        await hit(node, "b", hits_before)
        await node.owner.flush()
    await node.owner.erase("b")
    if hits_after:
        await hit(node, "b", hits_after)
    await node.owner.flush()
    assert (await lifetime(store, "b"), node.owner.status.quarantined) == (hits_after, {})
    await hit(node, "b", 1)
    await node.owner.flush()
    assert await lifetime(store, "b") == hits_after + 1


async def test_a_row_that_is_given_up_begins_with_what_is_quarantined(store: Store, tmp_path: Path) -> None:
    node = start(tmp_path / "journal", store)
    await three_links(node)
    put(store, "b", b"?")
    await hit(node, "b", 2)
    await node.owner.flush()
    node.owner.give_up(["a", "b"])
    await hit(node, "b", 1)
    await node.owner.flush()
    assert (await lifetime(store, "a"), await lifetime(store, "b")) == (10, 3), "a sound row is never given up"
    assert node.owner.status.quarantined == {}


async def test_what_is_quarantined_may_be_damaged_itself(store: Store, tmp_path: Path) -> None:
    node = start(tmp_path / "journal", store)
    await three_links(node)
    put(store, "b", b"?")
    await hit(node, "b", 2)
    await node.owner.flush()
    put(store, QUARANTINE, b"{")
    await hit(node, "a", 1)
    await node.owner.flush()
    assert await lifetime(store, "a") == 11
    node.disk.kill()
    node = start(tmp_path / "journal", store)
    await node.owner.flush()
    assert any("not a list of quarantined rows" in sentence for sentence in verify(store, CLICKS).broken)


# --- a kill or an error at each call, the row damaged and mended at each --------------------------------------------
@pytest.mark.parametrize("error", [Killed, StoreUnavailable])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("damaged", [1, 2])
def test_nothing_is_lost_or_doubled_whatever_call_fails_and_whenever_the_row_is_mended(
    tmp_path: Path, error: type[BaseException], when: str, damaged: int
) -> None:
    """Damaged: the flush before which the row goes bad. It is mended after each attempt in turn."""

    for mended in (damaged, damaged + 1, damaged + 2):
        for at in sweep(f"{error.__name__} {when} {damaged} {mended}"):
            if at > asyncio.run(_story(tmp_path / f"{mended}-{at}", at, (when, error), damaged, mended)):
                break


async def _story(folder: Path, at: int, fault: Fault, damaged: int, mended: int) -> int:
    when, error = fault
    store = FaultyStore(MemoryStore())
    node = start(folder, store)
    await three_links(node)
    begun, whole, total = store.calls, b"", 10
    attempts = 0
    store.fail_at = {begun + at: (when, error)}
    for flush in range(1, 6):
        if flush == damaged:
            whole = put(store._store, "b", b"?")
        if flush < 4:
            total += flush
            await hit(node, "b", flush, f"id {flush}")
        while not (done := await _flushed(node)):
            attempts += 1
            if attempts == mended and whole:
                put(store._store, "b", whole)
            if not done and error is Killed:
                node.disk.kill()
                node = start(folder, store)
        attempts += 1
        if attempts == mended and whole:
            put(store._store, "b", whole)
    store.fail_at, calls = {}, store.calls - begun
    if store._store.load_own(1, ["b"])["b"].data == b"?":  # its turn came before the row was damaged
        put(store._store, "b", whole)
    for _ in range(2):
        await node.owner.flush()
    assert await lifetime(store._store, "b") == total, (at, mended)
    report = verify(store._store, CLICKS)
    assert (report.people, report.broken) == (20 + total, []), (at, mended)
    node.disk.kill()  # thousands of stories, each with files of its own
    return calls


async def _flushed(node: OwnerProcess) -> bool:
    try:
        await node.owner.flush()
    except (StoreUnavailable, Killed):
        return False
    return True


async def test_a_row_that_was_written_before_it_was_damaged_is_not_quarantined_as_well(tmp_path: Path) -> None:
    """Its head still says that it includes the flush."""
    store = FaultyStore(MemoryStore())
    node = start(tmp_path, store)
    await three_links(node)
    await hit(node, "b", 1)
    for calls in range(1, 8):  # so that the flush fails as late as it can
        store.fail_at = {store.calls + calls: ("before", StoreUnavailable)}
        with suppress(StoreUnavailable):
            await node.owner.flush()
    store.fail_at = {}
    row = store._store.load_own(1, ["b"])["b"].data
    assert row is not None and codec.decode(row).lifetime == 11
    put(store._store, "b", row[:-1])
    await node.owner.flush()
    await node.owner.flush()
    put(store._store, "b", row)
    await node.owner.flush()
    assert await lifetime(store._store, "b") == 11
