"""Journals in the cluster on a real node: owners that are taken from each other, killed, and given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from clickcurve.buckets.errors import JournalUnknown, OwnerFenced
from clickcurve.buckets.ladder import CLICKS
from clickcurve.keys import link_key
from ingest.batch import Batch
from ingest.flush import Pace
from ingest.journal.cluster_journal import ClusterJournal, make_journal, take_journal
from ingest.owner import Owner
from query.reader import stored
from storage.cassandra.store import CassandraStore
from storage.contract import CLOSED, Store
from storage.journals import JournalRecord
from tests.ingest.owner_kit import counts, minute_of
from tests.storage.cassandra.cassandra_kit import Keyspace, _Shared

NOW = 1_772_000_000.0


@pytest.fixture
def open_store(cassandra_keyspace: Keyspace) -> Callable[[], Store]:
    """Another process's store each time."""
    cassandra_keyspace.empty()
    return lambda: CassandraStore(_Shared(cassandra_keyspace.cql))


def owner_of(journal: ClusterJournal | None, store: Store) -> Owner:
    assert journal is not None
    pace = Pace(lambda: 0.0, 15.0, lambda: False)
    return Owner(journal, store, lambda: NOW, lambda: "token", pace, "here", alone=False)


def record(store: Store) -> JournalRecord:
    found = store.journals().record(1)
    assert found is not None
    return found


def batch(count: int) -> Batch:
    return Batch(people=counts(minute_of(NOW), {"a": count}))


async def lifetime(store: Store) -> int:
    return stored(await store.rows(link_key("a")), int(NOW), CLICKS).row.lifetime


async def test_hits_of_a_process_that_was_killed_count_once_at_the_next_holder(open_store: Callable[[], Store]) -> None:
    first, second = open_store(), open_store()
    dead = owner_of(make_journal(first, 1, "first.1", "here", lambda: NOW, lambda: NOW), first)
    await dead.flush()
    await asyncio.gather(*[dead.accept(batch(1)) for _ in range(50)])
    await dead.flush()
    for _ in range(20):
        await dead.accept(batch(1))
    living = owner_of(
        take_journal(second, record(second), "second.1", "here", lambda: NOW, lambda: NOW, emptying=True), second
    )
    with pytest.raises(JournalUnknown):
        await dead.accept(batch(1_000_000))
    with pytest.raises(OwnerFenced):
        await dead.accept(batch(1_000_000))
    await living.close()
    assert await lifetime(second) == 70
    assert record(second).record.state == CLOSED
    with pytest.raises(OwnerFenced):
        await dead.close()
    assert await lifetime(first) == 70


async def test_a_large_group_is_cut_and_comes_back_whole(open_store: Callable[[], Store]) -> None:
    first, second = open_store(), open_store()
    owner = owner_of(make_journal(first, 1, "first.1", "here", lambda: NOW, lambda: NOW), first)
    await owner.flush()
    keys = {f"link {n:040}": 1 for n in range(20_000)}  # more than a MB
    await owner.accept(Batch(people=counts(minute_of(NOW), keys)))
    await owner.accept(batch(7))
    again = owner_of(
        take_journal(second, record(second), "second.1", "here", lambda: NOW, lambda: NOW, emptying=False), second
    )
    await again.flush()
    assert await lifetime(second) == 7
    found = await second.rows(link_key("link " + "0" * 35 + "19999"))
    assert stored(found, int(NOW), CLICKS).row.lifetime == 1
    await again.accept(batch(5))
    await again.close()
    assert await lifetime(second) == 12
    third = open_store()
    last = owner_of(
        take_journal(third, record(third), "third.1", "here", lambda: NOW, lambda: NOW, emptying=False), third
    )
    await last.close()
    assert await lifetime(third) == 12
    assert [each.owner for each in third.owners()] == [1]
