"""Every store: an id counts once within the window."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import Barrier

import pytest

from storage.contract import Held, Store
from tests.storage.stores import StoreFactory, in_flush, in_threads


def test_an_id_belongs_to_the_flush_that_claimed_it_first(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    assert store.claim_ids(first, 1, {"x": 100, "y": 100}, 50) == set()
    assert store.claim_ids(second, 1, {"y": 120, "z": 120}, 50) == {"y"}
    assert store.claim_ids(first, 1, {"x": 100, "y": 100, "z": 90}, 50) == {"z"}
    assert store.begin(first, 1, 2, 0)
    assert store.claim_ids(first, 2, {"x": 110}, 50) == {"x"}


def test_asking_for_ids_again_gives_the_same_answer(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    store.claim_ids(first, 1, {"a": 100}, 50)
    for _ in range(3):
        assert store.claim_ids(second, 1, {"a": 110, "b": 110}, 50) == {"a"}
        assert store.claim_ids(first, 1, {"a": 100, "b": 100}, 50) == {"b"}


@pytest.mark.parametrize("accepted_us", [50, 99, 101, 150])
def test_within_the_window_an_id_counts_once_whichever_flush_comes_first(store: Store, accepted_us: int) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    store.claim_ids(first, 1, {"a": 100}, 50)
    assert store.claim_ids(second, 1, {"a": accepted_us}, 50) == {"a"}


@pytest.mark.parametrize("accepted_us", [49, 151])
def test_outside_the_window_an_id_is_free_again(store: Store, accepted_us: int) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    store.claim_ids(first, 1, {"a": 100}, 50)
    assert store.claim_ids(second, 1, {"a": accepted_us}, 50) == set()


def test_a_flush_that_is_redone_after_its_id_was_used_again_still_has_it(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    assert store.claim_ids(first, 1, {"a": 100}, 50) == set()
    assert store.claim_ids(second, 1, {"a": 200}, 50) == set()  # long after; the first flush still is not through
    assert store.claim_ids(first, 1, {"a": 100}, 50) == set()
    assert store.claim_ids(second, 1, {"a": 200}, 500) == set()


def test_of_many_that_claim_an_id_at_once_one_gets_it(store_factory: StoreFactory) -> None:
    stores = [store_factory() for _ in range(4)]
    holders = [in_flush(stores[0], owner) for owner in (1, 2, 3, 4)]
    ids = {f"id-{n}": 1_000 + n for n in range(300)}
    won: list[set[str]] = []
    ready = Barrier(len(stores))

    def claim(store: Store, held: Held) -> None:
        ready.wait()
        won.append(set(ids) - store.claim_ids(held, 1, ids, 10_000))

    in_threads([partial(claim, store, held) for store, held in zip(stores, holders, strict=True)])
    assert sorted(id_ for some in won for id_ in some) == sorted(ids)


def test_more_ids_than_one_query_takes_are_claimed_found_and_kept_from_a_stamp_on(store: Store) -> None:
    held = in_flush(store)
    ids = {f"id-{n}": n for n in range(2_345)}
    assert store.claim_ids(held, 1, ids, 10) == set()
    assert store.claim_ids(held, 1, ids, 10) == set()
    assert asyncio.run(store.claimed(list(ids), 2_000)) == {f"id-{n}" for n in range(2_000, 2_345)}
    store.forget_ids(2_340)
    assert asyncio.run(store.claimed(list(ids), 2_340)) == {f"id-{n}" for n in range(2_340, 2_345)}


def test_forgetting_looks_at_each_claim_of_an_id(store: Store) -> None:
    first, second, third = in_flush(store, 1), in_flush(store, 2), in_flush(store, 3)
    store.claim_ids(first, 1, {"a": 100, "b": 100}, 50)
    store.claim_ids(second, 1, {"a": 200}, 50)
    store.forget_ids(150)
    assert asyncio.run(store.claimed(["a", "b", "c"], 150)) == {"a"}
    assert store.claim_ids(third, 1, {"a": 220}, 50) == {"a"}
