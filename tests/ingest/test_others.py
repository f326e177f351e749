"""Counts of rows that are no link's: from the journal into the store like those of links, and in no sum of links."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import msgspec
import pytest

from clickcurve.buckets import codec
from clickcurve.buckets.ladder import CLICKS, DAY_S, fold_day
from clickcurve.buckets.row import check
from clickcurve.keys import ALL_LINKS, CALLER_DAYS, caller_key, limit_key, link_of, namespace_key
from ingest.batch import Batch, SourceStep, decode_batch, encode_batch, encode_singles
from retention.run import run_pass
from storage.memory_store import MemoryStore
from storage.sqlite.store import SqliteStore
from storage.tools.export import export
from storage.tools.verify import verify
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.ingest.owner_kit import counts, minute_of, read
from tests.storage.tools.copies import copied

START = 1_772_000_000.0  # 2026-02-25
ASKED = limit_key("login", "asked")
CALLER = caller_key("login", "asked", "5f" * 16)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "clickcurve.db", CLICKS)) as opened:
        yield opened


def node_on(store: SqliteStore | MemoryStore, folder: Path, clock: Clock) -> OwnerProcess:
    return OwnerProcess(folder, store, clock, alone=True, disk=TrackedDisk())


# --- in the journal ---------------------------------------------------------------------------------------------------
def test_a_batch_of_a_program_that_knew_no_others_is_read() -> None:
    """The bytes are those that such a program wrote: five fields."""
    old = [counts(60, {"a": 2}), counts(60, {"b": 1}), [["id", counts(0, {"a": 1}), {}]], {"a": 7}, ["log", 0, 9, "t"]]
    decoded = decode_batch(b"b" + msgspec.msgpack.encode(old))
    assert isinstance(decoded, Batch)
    assert (decoded.people, decoded.bots, decoded.openings) == (old[0], old[1], old[3])
    assert (decoded.identified[0].id, decoded.source) == ("id", SourceStep("log", 0, 9, "t"))
    assert decoded.others == {}


def test_a_batch_with_others_is_of_another_kind_which_such_a_program_refuses() -> None:
    batch = Batch(people=counts(60, {"a": 1}), others=counts(60, {ASKED: 5}))
    assert encode_batch(batch)[:1] == b"o"
    assert encode_batch(Batch(people=counts(60, {"a": 1})))[:1] == b"b"
    assert encode_singles(60, ["a"])[:1] == b"s"
    assert decode_batch(encode_batch(batch)) == batch


def test_a_batch_of_nothing_but_others_is_not_empty() -> None:
    assert not Batch(others=counts(60, {ASKED: 1})).is_empty()


# --- in the rows ------------------------------------------------------------------------------------------------------
async def test_they_show_at_once_survive_a_kill_and_are_flushed_into_rows_of_their_own(
    tmp_path: Path, store: SqliteStore, clock: Clock
) -> None:
    node = node_on(store, tmp_path / "journal", clock)
    at = minute_of(clock.now)
    await node.owner.accept(Batch(people=counts(at, {"a": 3}), others=counts(at, {ASKED: 5})))
    assert (await read(store, [node], ASKED, int(clock.now))).lifetime == 5
    node.disk.kill()
    node.start()
    assert (await read(store, [node], ASKED, int(clock.now))).lifetime == 5
    await node.owner.flush()
    await node.owner.accept(Batch(others=counts(at, {ASKED: 2})))
    assert (await read(store, [node], ASKED, int(clock.now))).lifetime == 7
    await node.owner.flush()
    row = await read(store, [], ASKED, int(clock.now))
    assert (row.lifetime, row.bots, row.first) == (7, 0, at)
    await node.owner.close()


def test_no_sum_and_no_list_of_links_has_them(tmp_path: Path, store: SqliteStore, clock: Clock) -> None:
    async def story() -> None:
        node = node_on(store, tmp_path / "journal", clock)
        at = minute_of(clock.now)
        # A link whose name looks like the stored key of a rule is a link.
        await node.owner.accept(Batch(people=counts(at, {"a": 3, ASKED: 1}), others=counts(at, {ASKED: 5})))
        assert {*chain.from_iterable(node.owner.buffered_links())} == {"a", ASKED}
        assert node.owner.status.buffered_hits == 4
        for nodes in ([node], []):
            assert (await read(store, nodes, ALL_LINKS, int(clock.now))).lifetime == 4
            await node.owner.flush()
        await node.owner.close()

    asyncio.run(story())
    exported = export(store, CLICKS, int(clock.now), pytest.fail)
    assert {link["key"]: link["total"] for link in exported} == {
        "a": 3,
        ASKED: 1,
    }
    report = verify(store, CLICKS)
    assert (report.links, report.people, report.rows, report.broken) == (2, 4, 4, [])


async def test_the_retention_pass_folds_them_like_links(tmp_path: Path, store: SqliteStore, clock: Clock) -> None:
    node = node_on(store, tmp_path / "journal", clock)
    at = minute_of(clock.now)
    for minute in range(0, 3_600, 60):
        await node.owner.accept(Batch(others=counts(at + minute, {ASKED: 1})))
    await node.owner.flush()
    before = codec.decode(store.load_own(1, [ASKED])[ASKED].data or b"")
    clock.now += 3 * DAY_S
    await run_pass(node.owner, fold_day(int(clock.now)))
    after = codec.decode(store.load_own(1, [ASKED])[ASKED].data or b"")
    assert before.lifetime == after.lifetime == 60
    assert (len(before.people_cells[0][0]), len(after.people_cells[0][0])) == (60, 0)
    assert sum(after.people_cells[2][1]) == 60
    await node.owner.close()


def test_of_callers_nothing_is_kept_beyond_its_days(tmp_path: Path, store: SqliteStore, clock: Clock) -> None:
    async def story() -> None:
        node = node_on(store, tmp_path / "journal", clock)
        first = minute_of(clock.now)
        for day in range(100):  # a caller who comes each day, and one who came once
            at = minute_of(clock.now)
            others = {ASKED: 1, CALLER: 1} | ({CALLER + "f": 9} if day == 0 else {})
            await node.owner.accept(Batch(others=counts(at, others)))
            await node.owner.flush()
            await run_pass(node.owner, fold_day(int(clock.now)))
            row = codec.decode(store.load_own(1, [CALLER])[CALLER].data or b"")
            assert row.lifetime == min(day + 1, CALLER_DAYS)
            assert check(row, CLICKS) == []
            assert row.first is not None and row.first > at - CALLER_DAYS * DAY_S
            once = codec.decode(store.load_own(1, [CALLER + "f"])[CALLER + "f"].data or b"")
            assert (once.lifetime, once.first) == ((9, first) if day < CALLER_DAYS else (0, None))
            clock.now += DAY_S
        assert (await read(store, [], ASKED, int(clock.now))).lifetime == 100
        await node.owner.close()

    asyncio.run(story())
    assert verify(store, CLICKS).broken == []


def test_a_copy_knows_when_callers_are_to_be_forgotten(tmp_path: Path, store: SqliteStore, clock: Clock) -> None:
    target = MemoryStore()

    async def story() -> None:
        node = node_on(store, tmp_path / "journal", clock)
        await node.owner.accept(Batch(others=counts(minute_of(clock.now - 9 * DAY_S), {CALLER: 1})))
        await node.owner.close()

    asyncio.run(story())
    copied(store, target)
    day = fold_day(int(clock.now)) - 9 + CALLER_DAYS
    assert (target.due(1, day - 1, None, 9), target.due(1, day, None, 9)) == ([], [CALLER])


def test_they_are_in_a_copy_of_the_store(tmp_path: Path, store: SqliteStore, clock: Clock) -> None:
    target = MemoryStore()

    async def story() -> None:
        node = node_on(store, tmp_path / "journal", clock)
        await node.owner.accept(Batch(people=counts(60, {"a": 1}), others=counts(60, {ASKED: 5})))
        await node.owner.close()

    asyncio.run(story())
    copied(store, target)
    assert asyncio.run(read(target, [], ASKED, int(clock.now))).lifetime == 5
    assert verify(target, CLICKS).broken == []


def test_the_names_of_rules_are_no_links() -> None:
    assert namespace_key("limits", "login:asked") == ASKED
    assert link_of(ASKED) is None
