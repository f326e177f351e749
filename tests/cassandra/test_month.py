"""A month of traffic leaves no tombstones in `rows`, its partitions are bounded, and a pass costs what was touched."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from clickcurve.buckets import codec
from clickcurve.buckets.ladder import CLICKS, DAY_S, GRACE_S, MINUTE_S, fold_day
from clickcurve.buckets.row import EMPTY, Delta, apply, merge, next_due
from clickcurve.keys import link_key
from ingest.batch import Batch
from retention.run import run_pass
from storage.cassandra.store import CassandraStore
from storage.contract import Held, SavedRow
from testing.cassandra.counted import Counted
from testing.cassandra.month import START, VIRAL, Done, Month, Plan
from testing.cassandra.node import Node
from testing.cassandra.tables import TableStats, table_stats, tables_with_deletions
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.storage.cassandra.cassandra_kit import Keyspace

SHORT = Plan(links=300, flush_every_s=3 * DAY_S, share=0.2)
ROW_BOUND_BYTES = 8_192  # of an owner's full row
QUIET_LINKS = 10_000


@dataclass(frozen=True, slots=True)
class Left:
    """A month that has passed, and what it left on disk, compacted."""

    done: Done
    keyspace: Keyspace
    stats: dict[str, TableStats]


@pytest.fixture(scope="module")
def left(one_node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    name = f"month_{secrets.token_hex(6)}"
    keyspace = Keyspace(one_node, name, CLICKS)
    month = Month(SHORT, tmp_path_factory.mktemp("month"), lambda: Counted(keyspace.cql))
    done = asyncio.run(month.pass_by())
    one_node.nodetool("flush", name)
    one_node.nodetool("compact", name)
    yield Left(done, keyspace, table_stats(one_node, name))
    keyspace.close()


@pytest.fixture
def of_its_own(one_node: Node, keyspace: str) -> Iterator[Keyspace]:
    made = Keyspace(one_node, keyspace, CLICKS)
    yield made
    made.close()


def test_a_month_leaves_no_tombstone_in_rows(left: Left) -> None:
    name = left.keyspace.session.address.keyspace
    # Lists of due rows are deleted once they were visited: that they are found shows that the check sees tombstones.
    assert tables_with_deletions(left.keyspace.node, name, "rows", "due") == {"due"}


def test_the_partition_of_a_link_that_ten_owners_count_is_bounded(left: Left) -> None:
    link = asyncio.run(CassandraStore(Counted(left.keyspace.cql)).rows(link_key(VIRAL)))
    rows = [codec.decode(row.data) for row in link.rows]
    assert len(rows) == SHORT.owners
    assert merge(rows, CLICKS).lifetime == left.done.hits[VIRAL]
    assert max(len(row.data) for row in link.rows) <= ROW_BOUND_BYTES
    assert 0 < left.stats["rows"].largest_bytes <= SHORT.owners * ROW_BOUND_BYTES
    assert left.stats["rows"].files == 1


def test_nothing_is_lost_or_counted_twice_in_a_month(left: Left) -> None:
    store = CassandraStore(Counted(left.keyspace.cql))
    hits = {
        key: merge([codec.decode(row.data) for row in link.rows], CLICKS).lifetime
        for key, link in store.walk(None, 1_000)
    }
    assert hits.pop("") == left.done.hits.total()
    assert hits == left.done.hits


def test_the_cost_of_a_pass_follows_the_links_that_had_traffic(of_its_own: Keyspace, tmp_path: Path) -> None:
    few, many = asyncio.run(_passes(Counted(of_its_own.cql), tmp_path, 50, 100))
    # In each flush the row of all links is read and written next to those that are due.
    assert 50 < few["LOAD_OWN"] <= 55
    assert 100 < many["LOAD_OWN"] <= 105
    assert 50 < few["SAVE"] <= few["LOAD_OWN"]
    assert sum(few.values()) < QUIET_LINKS / 20


async def _passes(cql: Counted, folder: Path, *touched: int) -> list[dict[str, int]]:
    """What the daily passes sent of an owner with 10,000 quiet links, each after a day with hits of so many of them."""
    now = float(START)
    # Nothing is kept in memory: each row that is looked at must be read.
    owner = OwnerProcess(folder / "quiet", CassandraStore(cql, 0), lambda: now, alone=False, disk=TrackedDisk()).owner
    await owner.accept(Batch(people={int(now): {"quiet-0": 1}}))
    await owner.flush()
    _fill(CassandraStore(cql, 0), owner.status.owner, int(now))
    sent = []
    for day, links in enumerate(touched):
        now = START + (3 * day + 1) * DAY_S  # whatever was due of the days before has been visited
        await run_pass(owner, fold_day(int(now)))
        await owner.accept(Batch(people={int(now): {f"quiet-{number}": 1 for number in range(links)}}))
        await owner.flush()
        now += DAY_S + GRACE_S + MINUTE_S
        cql.since()
        report = await run_pass(owner, fold_day(int(now)))
        assert (report.stopped, report.rows) == (None, links + 1)
        sent.append(dict(cql.since()))
    await owner.close()
    return sent


def _fill(store: CassandraStore, owner: int, now: int) -> None:
    """Half of the links were last seen years ago and are never due again, half are due in some weeks."""
    record = store.owner(owner)
    assert record is not None
    held = Held(owner, record.epoch, record.holder)
    rows = []
    for age_s in (1_000 * DAY_S, 10 * DAY_S):
        row = apply(EMPTY, Delta({now - age_s: 1}, {}), record.begun, fold_day(now), 0, CLICKS)
        rows.append(SavedRow(codec.encode(row), next_due(row, CLICKS)))
    for at in range(0, QUIET_LINKS, 500):
        keys = [f"quiet-{number}" for number in range(at, at + 500)]
        store.save_own(held, record.begun, {key: rows[index % 2] for index, key in enumerate(keys)}, {})
