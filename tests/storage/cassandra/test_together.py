"""Rows that go together in one request: which they are, what a failure is, and what a real node makes of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cassandra.query import BatchStatement, BatchType, BoundStatement

from ingest.batch import Batch
from storage.cassandra.cql import Statement, StatementKind, Values
from storage.cassandra.requests import ATTEMPTS, BYTES_PER_WRITE, ROWS_PER_READ, ROWS_PER_WRITE
from storage.cassandra.statements import LOAD_OWN, SAVE
from storage.cassandra.store import CassandraStore
from testing.cassandra.counted import Counted
from testing.owner_process import OwnerProcess, TrackedDisk
from tests.storage.cassandra.cassandra_kit import Keyspace
from tests.storage.cassandra.driver_kit import Driver, Late, Pending, requests

PUT = Statement("PUT", "UPDATE rows SET data = ? WHERE short_key = ?", StatementKind.WRITE, key=1)
GET = Statement("GET", "SELECT data FROM rows WHERE short_key = ? AND owner = ?", StatementKind.READ, key=0)


def answered(pending: Pending) -> None:
    pending.answer([])


def test_rows_are_written_by_node_few_at_once_and_large_ones_alone() -> None:
    driver = Driver(answered)
    asked, counters = requests(driver)
    large = bytes(BYTES_PER_WRITE)
    rows: list[Values] = [(b"%d" % n, f"{'ab'[n % 3 == 0]}{n}") for n in range(60)]
    rows[20] = (large, "b20")
    assert asked.run_each(PUT, rows) == [[]] * 60
    sent: list[Any] = [pending.values for pending in driver.sent]
    assert sorted(row for request in sent for row in request) == sorted(rows), "each once"
    for request in sent:
        assert len({row[1][0] for row in request}) == 1, "to the node that has all of them first"
        assert request == ((large, "b20"),) or sum(len(value) for row in request for value in row) <= BYTES_PER_WRITE
    # 40 less a large one of one node and 20 of another
    assert sorted(map(len, sent)) == sorted([1, *[ROWS_PER_WRITE] * 3, 9, *[ROWS_PER_WRITE] * 2])
    assert counters.numbers()["store_requests_total"] == len(sent)


def test_rows_that_are_large_together_go_in_several_requests() -> None:
    driver = Driver(answered)
    asked, _ = requests(driver)
    rows: list[Values] = [(bytes(BYTES_PER_WRITE // 3 - 2), f"a{n}") for n in range(9)]
    asked.run_each(PUT, rows)
    assert [len(pending.values) for pending in driver.sent] == [3, 3, 3]


def test_rows_whose_write_failed_are_sent_again_together_and_the_same() -> None:
    seen: list[Values] = []

    def answer(pending: Pending) -> None:
        seen.append(pending.values)
        if ("7", "a7") in pending.values and seen.count(pending.values) < ATTEMPTS:
            pending.fail(Late("no answer"))
        else:
            pending.answer([])

    asked, _ = requests(Driver(answer))
    rows: list[Values] = [(f"{n}", f"a{n}") for n in range(3 * ROWS_PER_WRITE)]
    asked.run_each(PUT, rows)
    first = tuple(rows[:ROWS_PER_WRITE])
    assert seen.count(first) == ATTEMPTS
    assert len(seen) == ATTEMPTS + 2


def test_rows_are_read_by_node_and_each_key_gets_its_own() -> None:
    def answer(pending: Pending) -> None:
        keys, owner = pending.values
        assert isinstance(keys, list) and len({key[0] for key in keys}) == 1
        rows = [(key, f"{n} of {key} and {owner}") for key in keys if key != "a3" for n in range(2)]
        pending.answer(rows[::-1])

    driver = Driver(answer)
    asked, counters = requests(driver)
    many: list[Values] = [(f"{'ab'[n % 2]}{n // 2}", owner) for n in range(100) for owner in (1, 2)]
    found = asked.run_each(GET, [*many, many[0]])
    for (key, owner), rows in zip([*many, many[0]], found, strict=True):
        assert rows == ([] if key == "a3" else [(f"{n} of {key} and {owner}",) for n in (1, 0)])
    assert counters.numbers()["store_requests_total"] == 2 * 2 * 50 // ROWS_PER_READ + 1


def test_a_read_of_one_key_is_turned_into_one_of_several() -> None:
    assert GET.several().text == "SELECT short_key, data FROM rows WHERE short_key IN ? AND owner = ?"


# --- on a real node ---------------------------------------------------------------------------------------------------
@pytest.fixture
def emptied(cassandra_keyspace: Keyspace) -> Keyspace:
    cassandra_keyspace.empty()
    return cassandra_keyspace


def test_rows_are_written_several_to_a_request_each_with_its_own_stamp_and_read_so_too(emptied: Keyspace) -> None:
    session = emptied.session
    keyspace = session.address.keyspace
    large = bytes(60_000)  # a batch of it would be refused
    rows: dict[str, tuple[int, bytes]] = {f"k{n}": (1_000 + n, b"%d" % n) for n in range(95)}
    rows |= {"large": (5, large), "\u00e9t\u00e9": (6, b"text")}
    before = emptied.cql.measures()["store_requests_total"]
    emptied.cql.run_each(SAVE, [(stamp, data, key, 1) for key, (stamp, data) in rows.items()])
    assert emptied.cql.measures()["store_requests_total"] - before == 1 + 10
    found = session.look_up(f"SELECT short_key, writetime(data), data FROM {keyspace}.rows")
    assert {key: (stamp, data) for key, stamp, data in found} == rows
    before = emptied.cql.measures()["store_requests_total"]
    keys = [*rows, "none"]
    read = emptied.cql.run_each(LOAD_OWN, [(key, 1) for key in keys])
    assert read == [*([(1, data, None)] for _, data in rows.values()), []]
    assert emptied.cql.measures()["store_requests_total"] - before == 4


def test_what_goes_together_goes_to_the_node_that_has_it_first_and_may_be_repeated(
    emptied: Keyspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = emptied.session
    sent: list[Any] = []
    real = session._session.execute_async

    def execute_async(bound: Any, **named: Any) -> Any:
        sent.append(bound)
        return real(bound, **named)

    monkeypatch.setattr(session._session, "execute_async", execute_async)
    emptied.cql.run_each(SAVE, [(1, b"row", key, 1) for key in ("a", "b")])
    emptied.cql.run_each(SAVE, [(2, b"row", "c", 1)])
    emptied.cql.run_each(LOAD_OWN, [(key, 1) for key in ("b", "a")])
    batch, single, _ = sent
    assert isinstance(batch, BatchStatement) and batch.batch_type is BatchType.UNLOGGED
    assert isinstance(single, BoundStatement)
    assert [each.routing_key for each in sent] == [b"a", b"c", b"b"]
    assert all(each.is_idempotent for each in sent)
    assert all(each.keyspace == session.address.keyspace for each in sent)
    assert session.first_replica("a") == emptied.node.address


def test_a_flush_of_one_link_takes_few_requests(emptied: Keyspace, tmp_path: Path) -> None:
    counted = Counted(emptied.cql)
    now = 1_772_407_680
    process = OwnerProcess(tmp_path, CassandraStore(counted), lambda: float(now), alone=False, disk=TrackedDisk())

    async def flushes() -> Counter[str]:
        for _ in range(3):
            await process.owner.accept(Batch(people={now: {"launch": 1}}))
            counted.since()
            await process.owner.flush()
        last = counted.since()
        await process.owner.close()
        return last

    sent = asyncio.run(flushes())
    hours = sent.pop("ERASURES")
    assert sent == {"BEGIN": 1, "NOW_MS": 1, "SAVE": 2}
    assert hours in (1, 2)
