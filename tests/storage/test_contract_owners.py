"""Every store: the holder of an owner, and that only one process may write."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from threading import Barrier

import pytest

from clickcurve.buckets.errors import OwnerFenced
from storage.contract import CLOSED, COPIED, Held, OwnRow, Source, Store
from tests.storage.stores import StoreFactory, in_flush, in_threads, record, saved


def test_an_owner_number_is_given_once(store: Store) -> None:
    assert store.owner(1) is None
    assert store.create_owner(record(1))
    assert store.create_owner(record(1))  # repeated, because the answer was lost
    assert not store.create_owner(record(1, holder="another"))
    assert store.create_owner(record(2))
    assert store.owners() == [record(1), record(2)]
    assert store.owner(1) == record(1)


@pytest.mark.parametrize(
    "stored",
    [
        record(epoch=2),
        record(holder="another"),
        record(state=CLOSED),
        record(begun=1),
        record(state=COPIED),
    ],
    ids=["epoch", "holder", "state", "begun", "copied"],
)
def test_a_claim_is_refused_when_the_record_has_changed(store: Store, stored: object) -> None:
    assert isinstance(stored, type(record()))
    store.create_owner(stored)
    assert not store.claim(record(), record(epoch=3, holder="new"))
    assert store.owner(1) == stored


def test_a_claim_replaces_the_whole_record_and_may_be_repeated(store: Store) -> None:
    before = record(begun=7)
    after = replace(before, epoch=2, holder="h2", journal="other", place="/elsewhere", begun=6, begun_at=5)
    assert not store.claim(before, after)  # nobody has that number
    store.create_owner(before)
    assert store.claim(before, after)
    assert store.claim(before, after)
    assert store.owner(1) == after
    assert not store.claim(before, replace(after, holder="h3"))


def test_a_closed_owner_may_be_claimed_and_a_copied_one_never(store: Store) -> None:
    store.create_owner(record(1, state=CLOSED))
    assert store.claim(record(1, state=CLOSED), record(1, epoch=2, holder="new"))
    store.create_owner(record(2, state=COPIED))
    assert not store.claim(record(2, state=COPIED), record(2, epoch=2, holder="new"))


def test_of_many_that_claim_at_once_one_wins(store_factory: StoreFactory) -> None:
    stores = [store_factory() for _ in range(4)]
    stores[0].create_owner(record())
    won: list[str] = []
    ready = Barrier(len(stores))

    def claim(store: Store, holder: str) -> None:
        ready.wait()
        if store.claim(record(), record(epoch=2, holder=holder)):
            won.append(holder)

    in_threads([partial(claim, store, f"holder-{n}") for n, store in enumerate(stores)])
    assert len(won) == 1
    assert stores[0].owners() == [record(epoch=2, holder=won[0])]


def test_begin_moves_on_from_the_previous_flush_and_may_be_repeated(store: Store) -> None:
    store.create_owner(record())
    held = Held(1, 1, "h1")
    assert store.begin(held, 0, 1, 100)
    assert store.begin(held, 0, 1, 200)
    assert store.owner(1) == replace(record(), begun=1, begun_at=100)
    assert store.begin(held, 1, 5, 300)
    assert store.owner(1) == replace(record(), begun=5, begun_at=300)


@pytest.mark.parametrize(
    ("held", "previous"),
    [
        (Held(1, 2, "h1"), 0),
        (Held(1, 1, "another"), 0),
        (Held(1, 1, "h1"), 3),
        (Held(9, 1, "h1"), 0),
    ],
    ids=["epoch", "holder", "previous", "unknown owner"],
)
def test_begin_is_refused_to_anybody_else(store: Store, held: Held, previous: int) -> None:
    store.create_owner(record())
    assert not store.begin(held, previous, 4, 100)
    assert store.owners() == [record()]


def test_a_closed_owner_begins_nothing(store: Store) -> None:
    held = in_flush(store)
    assert store.close_owner(held)
    assert store.close_owner(held)
    assert store.owner(1) == record(state=CLOSED, begun=1)
    assert not store.begin(held, 1, 2, 100)


def test_only_the_holder_closes_its_owner(store: Store) -> None:
    in_flush(store)
    assert not store.close_owner(Held(1, 2, "h1"))
    assert not store.close_owner(Held(1, 1, "another"))
    assert not store.close_owner(Held(2, 1, "h1"))
    assert store.owner(1) == record(begun=1)


@pytest.mark.parametrize("what", ["epoch", "state", "begun", "flush"])
def test_a_fenced_owner_writes_nothing(store: Store, what: str) -> None:
    held, flush = in_flush(store), 1
    store.save_own(held, 1, saved("a", data=b"before"), {"log": Source(1, 10, "tail")})
    stored = record(begun=1)
    if what == "epoch":
        store.claim(stored, record(epoch=2, holder="new", begun=1))
    elif what == "state":
        store.close_owner(held)
    elif what == "begun":
        store.begin(held, 1, 2, 0)
    else:
        flush = 2
    with pytest.raises(OwnerFenced, match="owner 1"):
        store.save_own(held, flush, saved("a", "b", data=b"after"), {"log": Source(1, 20, "tail")})
    with pytest.raises(OwnerFenced, match="owner 1"):
        store.claim_ids(held, flush, {"id": 1}, 10)
    assert store.load_own(1, ["a", "b"]) == {"a": OwnRow(b"before", 0)}
    found = store.source("log")
    assert found is not None and found.position == 10
    assert asyncio.run(store.claimed(["id"], 0)) == set()
