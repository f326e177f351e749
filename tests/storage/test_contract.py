"""What every store promises, on every store. Two owners write one key from the first test on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Barrier, Thread

import pytest

from buckets.errors import OwnerFenced, StoreUnavailable
from storage.contract import (
    ALL_LINKS,
    CLOSED,
    COPIED,
    Held,
    OwnRow,
    SavedRow,
    Source,
    Store,
    StoredLink,
    StoredRow,
    link_key,
    link_of,
    namespace_key,
)
from storage.memory_store import MemoryStore
from tests.storage.stores import OUTAGES, Outage, StoreFactory, in_flush, record, saved

ODD_KEYS = [
    ALL_LINKS,
    link_key("\0leading"),
    namespace_key("limit", "per-ip"),
    "in\0side",
    "'; DROP TABLE rows; --",
    '"quoted"',
    "%_*?[a]",
    "a/b",
    " ",
    "ünïcödé",
    "\U0001f600",
    "\uffff",
    "é" * 512,
    "k" * 1024,
]


def rows(store: Store, key: str) -> StoredLink:
    return asyncio.run(store.rows(key))


# --- rows -----------------------------------------------------------------------------------------------------------
def test_a_key_has_the_rows_of_all_its_owners(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    store.save_own(first, 1, saved("a", "b", data=b"one"), {})
    store.save_own(second, 1, saved("a", data=b"two"), {})
    assert rows(store, "a") == StoredLink(0, (StoredRow(1, b"one"), StoredRow(2, b"two")))
    assert rows(store, "b") == StoredLink(0, (StoredRow(1, b"one"),))
    assert rows(store, "c") == StoredLink(0, ())


def test_an_owner_loads_its_own_rows_only(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    store.save_own(first, 1, saved("a", "b", data=b"one"), {})
    store.save_own(second, 1, saved("a", "c", data=b"two"), {})
    assert store.load_own(1, ["a", "b", "c", "d"]) == {"a": OwnRow(b"one", 0), "b": OwnRow(b"one", 0)}
    assert store.load_own(2, ["c"]) == {"c": OwnRow(b"two", 0)}
    assert store.load_own(1, []) == {}


def test_saving_replaces_whole_rows_and_repeating_it_changes_nothing(store: Store) -> None:
    held = in_flush(store)
    store.save_own(held, 1, saved("a", data=b"long" * 1000, due_day=5), {})
    for _ in range(3):
        store.save_own(held, 1, saved("a", data=b"short", due_day=9), {})
    assert rows(store, "a").rows == (StoredRow(1, b"short"),)
    assert store.due(1, 8, None, 10) == []


def test_what_one_handle_saved_another_reads_at_once(store_factory: StoreFactory) -> None:
    writer, reader = store_factory(), store_factory()
    held = in_flush(writer)
    assert rows(reader, "a").rows == ()
    writer.save_own(held, 1, saved("a"), {})
    assert rows(reader, "a").rows == (StoredRow(1, b"row"),)
    assert reader.owners() == [record(begun=1)]


def test_more_rows_than_one_query_takes_are_saved_and_loaded(store: Store) -> None:
    held = in_flush(store)
    keys = [f"key-{n:05}" for n in range(1_234)]
    store.save_own(held, 1, {key: SavedRow(key.encode(), None) for key in keys}, {})
    assert store.load_own(1, keys) == {key: OwnRow(key.encode(), 0) for key in keys}


@pytest.mark.parametrize("key", ODD_KEYS, ids=lambda key: ascii(key[:20]))
def test_every_key_comes_back_as_it_is(store: Store, key: str) -> None:
    held = in_flush(store)
    store.save_own(held, 1, saved(key, "neighbour", data=key.encode(), due_day=1), {})
    store.erase(key, 7)
    assert rows(store, key) == StoredLink(7, (StoredRow(1, key.encode()),))
    assert store.load_own(1, [key]) == {key: OwnRow(key.encode(), 7)}
    assert key in store.due(1, 1, None, 10)
    assert key in dict(store.walk(None, 10))


def test_stored_keys_keep_links_and_namespaces_apart() -> None:
    for link in ("a", "\0a", "\0\0a", "\0limit:a"):
        assert link_of(link_key(link)) == link
    assert link_of(ALL_LINKS) is None
    assert link_of(namespace_key("limit", "a")) is None


# --- owners ---------------------------------------------------------------------------------------------------------
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


# --- ids ------------------------------------------------------------------------------------------------------------
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


def test_more_ids_than_one_query_takes_are_claimed_found_and_forgotten(store: Store) -> None:
    held = in_flush(store)
    ids = {f"id-{n}": n for n in range(12_345)}
    assert store.claim_ids(held, 1, ids, 10) == set()
    assert asyncio.run(store.claimed(list(ids), 12_000)) == {f"id-{n}" for n in range(12_000, 12_345)}
    store.forget_ids(12_340)
    assert asyncio.run(store.claimed(list(ids), 0)) == {f"id-{n}" for n in range(12_340, 12_345)}
    store.forget_ids(20_000)
    assert asyncio.run(store.claimed(list(ids), 0)) == set()


def test_forgetting_looks_at_each_claim_of_an_id(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    store.claim_ids(first, 1, {"a": 100, "b": 100}, 50)
    store.claim_ids(second, 1, {"a": 200}, 50)
    store.forget_ids(150)
    assert asyncio.run(store.claimed(["a", "b", "c"], 0)) == {"a"}
    assert store.claim_ids(second, 1, {"b": 120}, 50) == set()


# --- erasing --------------------------------------------------------------------------------------------------------
def test_an_erasure_shows_beside_the_rows_and_the_latest_wins(store: Store) -> None:
    held = in_flush(store)
    store.save_own(held, 1, saved("a", "b"), {})
    store.erase("a", 500)
    store.erase("a", 400)
    store.erase("gone", 600)
    assert rows(store, "a") == StoredLink(500, (StoredRow(1, b"row"),))
    assert rows(store, "gone") == StoredLink(600, ())
    assert store.load_own(1, ["a", "b", "gone"]) == {
        "a": OwnRow(b"row", 500),
        "b": OwnRow(b"row", 0),
        "gone": OwnRow(None, 600),
    }
    assert store.load_own(2, ["a"]) == {"a": OwnRow(None, 500)}
    assert store.walk(None, 10) == [("a", rows(store, "a")), ("b", rows(store, "b"))]


# --- sources --------------------------------------------------------------------------------------------------------
def test_a_source_is_claimed_moved_and_never_moved_back(store: Store) -> None:
    held = in_flush(store)
    assert store.source("log") is None
    assert store.claim_source("log", held, None)
    assert store.source("log") == Source(1, 0, "", 1)
    store.save_own(held, 1, {}, {"log": Source(1, 100, "tail")})
    store.save_own(held, 1, {}, {"log": Source(1, 100, "tail")})
    store.save_own(held, 1, {}, {"log": Source(1, 40, "older")})
    assert store.source("log") == Source(1, 100, "tail", 1)


def test_a_source_that_was_never_claimed_is_saved_too(store: Store) -> None:
    store.save_own(in_flush(store), 1, {}, {"log": Source(1, 100, "tail")})
    assert store.source("log") == Source(1, 100, "tail", 1)


def test_a_source_goes_to_one_of_those_who_saw_it_the_same(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    assert store.claim_source("log", first, None)
    store.save_own(first, 1, {}, {"log": Source(1, 100, "tail")})
    assert not store.claim_source("log", second, None)
    seen = store.source("log")
    assert store.claim_source("log", second, seen)
    assert store.claim_source("log", second, seen)  # repeated, because the answer was lost
    assert store.source("log") == Source(2, 100, "tail", 1)
    assert not store.claim_source("log", first, seen)


def test_a_keeper_that_came_back_keeps_its_source(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    store.claim_source("log", first, None)
    store.close_owner(first)
    seen = store.source("log")  # the second sees a closed keeper here, and is slow
    store.claim(record(state=CLOSED, begun=1), record(epoch=2, holder="back", begun=1))
    assert store.claim_source("log", Held(1, 2, "back"), seen)
    assert not store.claim_source("log", second, seen)
    assert store.source("log") == Source(1, 0, "", 2)


def test_a_flush_leaves_a_source_of_another_owner_alone(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    store.claim_source("log", first, None)
    store.save_own(second, 1, {}, {"log": Source(2, 100, "tail")})
    assert store.source("log") == Source(1, 0, "", 1)


# --- due and walk ---------------------------------------------------------------------------------------------------
def test_due_rows_come_in_pages_in_key_order_and_only_the_owners_own(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    days = {ALL_LINKS: 10, "a": 10, "b": 11, "c": 9, "d": None, "é": 10, "\U0001f600": 1, "\uffff": 2}
    store.save_own(first, 1, {key: SavedRow(b"row", day) for key, day in days.items()}, {})
    store.save_own(second, 1, saved("b", "e", due_day=10), {})
    assert store.due(1, 10, None, 100) == [ALL_LINKS, "a", "c", "é", "\uffff", "\U0001f600"]
    assert store.due(1, 10, None, 2) == [ALL_LINKS, "a"]
    assert store.due(1, 10, ALL_LINKS, 2) == ["a", "c"]
    assert store.due(1, 10, "a", 2) == ["c", "é"]
    assert store.due(1, 10, "aa", 1) == ["c"]
    assert store.due(1, 0, None, 100) == []
    assert store.due(2, 10, None, 100) == ["b", "e"]


def test_a_walk_shows_every_key_once_with_all_its_rows(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    keys = [ALL_LINKS, *(f"key-{n:03}" for n in range(57)), *ODD_KEYS[1:]]
    store.save_own(first, 1, saved(*keys, data=b"one"), {})
    store.save_own(second, 1, saved(*keys[::3], data=b"two"), {})
    both = set(keys[::3])
    for limit in (1, 7, 1000):
        seen: list[tuple[str, StoredLink]] = []
        while page := store.walk(seen[-1][0] if seen else None, limit):
            assert len(page) <= limit
            seen += page
        assert [key for key, _ in seen] == sorted(keys)
        assert all([row.owner for row in link.rows] == ([1, 2] if key in both else [1]) for key, link in seen)


def test_a_view_stays_as_it_was(store: Store) -> None:
    held = in_flush(store)
    store.save_own(held, 1, saved("a", "b", data=b"before"), {})
    with store.view() as view:
        store.save_own(held, 1, saved("b", "c", data=b"after"), {})
        store.begin(held, 1, 2, 0)
        store.erase("a", 5)
        assert [(key, link.erased_at, link.rows[0].data) for key, link in view.walk(None, 10)] == [
            ("a", 0, b"before"),
            ("b", 0, b"before"),
        ]
        assert view.owners() == [record(begun=1)]
    with store.view() as view:
        assert len(view.walk(None, 10)) == 3


# --- down and up again ----------------------------------------------------------------------------------------------
WRITES: dict[str, Callable[[Store, Held], object]] = {
    "create_owner": lambda store, held: store.create_owner(record(9)),
    "claim": lambda store, held: store.claim(record(2), record(2, epoch=2)),
    "begin": lambda store, held: store.begin(Held(2, 1, "h1"), 0, 1, 1),
    "close_owner": lambda store, held: store.close_owner(Held(2, 1, "h1")),
    "claim_ids": lambda store, held: store.claim_ids(held, 1, {"id": 1}, 1),
    "save_own": lambda store, held: store.save_own(held, 1, saved("a", "b", data=b"after"), {}),
    "erase": lambda store, held: store.erase("a", 5),
    "claim_source": lambda store, held: store.claim_source("log", held, None),
}


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("outage", [outage for outage in OUTAGES if outage.stops_all], indirect=True, ids=str)
def test_a_store_that_is_down_says_so_and_takes_it_later(
    outage: Outage, failing_factory: StoreFactory, verb: str
) -> None:
    store = failing_factory()
    held = in_flush(store)
    store.create_owner(record(2))
    store.save_own(held, 1, saved("a", data=b"before"), {})
    with outage.down(failing_factory):
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                WRITES[verb](store, held)
    assert rows(store, "a") == StoredLink(0, (StoredRow(1, b"before"),))
    assert store.owners() == [record(begun=1), record(2)]
    assert store.source("log") is None
    assert WRITES[verb](store, held) in (True, None, set())


def test_a_save_that_finds_no_room_leaves_nothing_behind(outage: Outage, failing_factory: StoreFactory) -> None:
    store = failing_factory()
    held = in_flush(store)
    many = {f"key-{n}": SavedRow(bytes(1000), None) for n in range(3_000)}
    store.save_own(held, 1, saved("key-0", data=b"before"), {})
    with outage.down(failing_factory), pytest.raises(StoreUnavailable):
        store.save_own(held, 1, many, {"log": Source(1, 5, "")})
    assert store.walk(None, 10) == [("key-0", StoredLink(0, (StoredRow(1, b"before"),)))]
    assert store.source("log") is None
    store.save_own(held, 1, many, {})
    assert len(store.walk(None, 5_000)) == 3_000


def test_reads_of_a_store_that_is_down_are_right_or_refused(outage: Outage, failing_factory: StoreFactory) -> None:
    store = failing_factory()
    held = in_flush(store)
    store.save_own(held, 1, saved("a"), {})
    reads: dict[Callable[[], object], object] = {
        lambda: rows(store, "a"): StoredLink(0, (StoredRow(1, b"row"),)),
        lambda: asyncio.run(store.claimed(["id"], 0)): set(),
        lambda: store.load_own(1, ["a"]): {"a": OwnRow(b"row", 0)},
        lambda: store.owners(): [record(begun=1)],
        lambda: store.due(1, 1, None, 1): [],
        lambda: store.walk(None, 1): [("a", StoredLink(0, (StoredRow(1, b"row"),)))],
    }
    with outage.down(failing_factory):
        for read, expected in reads.items():
            with suppress(StoreUnavailable):
                assert read() == expected
    for read, expected in reads.items():
        assert read() == expected


# --- any history ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(4))
def test_any_history_leaves_what_it_leaves_in_memory(store: Store, seed: int) -> None:
    """The memory store is the model: every call gives the same answer, or the same error, and the end is the same."""
    model, rnd = MemoryStore(), random.Random(seed)
    for _ in range(200):
        call = _random_call(rnd)
        answers = []
        for either in (model, store):
            try:
                answers.append(call(either))
            except OwnerFenced as error:
                answers.append(str(error))
        assert answers[0] == answers[1]
    assert store.walk(None, 1_000) == model.walk(None, 1_000)
    assert store.owners() == model.owners()


def _random_call(rnd: random.Random) -> Callable[[Store], object]:
    owner, epoch, flush = rnd.randint(1, 2), rnd.choice([1, 1, 1, 2]), rnd.randint(1, 3)
    held = Held(owner, epoch, f"h{epoch}")
    key, source, id_ = rnd.choice("abc"), rnd.choice("st"), rnd.choice("xyz")
    at, previous, day = rnd.randint(0, 100), rnd.randint(0, 3), rnd.choice([None, 1, 2])
    data = rnd.randbytes(3)

    async def link(store: Store) -> object:
        return await store.rows(key), await store.claimed([id_], at)

    calls: list[Callable[[Store], object]] = [
        lambda store: store.create_owner(record(owner)),
        lambda store: store.claim(
            store.owner(owner) or record(owner), record(owner, epoch, f"h{epoch}", begun=previous)
        ),
        lambda store: store.begin(held, previous, flush, at),
        lambda store: store.begin(held, previous, flush, at),
        lambda store: store.begin(held, previous, flush, at),
        lambda store: at < 10 and store.close_owner(held),
        lambda store: store.claim_ids(held, flush, {id_: at, "w": at}, 20),
        lambda store: store.save_own(held, flush, {key: SavedRow(data, day)}, {source: Source(owner, at, "t")}),
        lambda store: store.save_own(held, flush, {key: SavedRow(data, day)}, {}),
        lambda store: store.erase(key, at),
        lambda store: store.forget_ids(at // 5),
        lambda store: store.claim_source(source, held, store.source(source)),
        lambda store: store.claim_source(source, held, Source(owner, at, "t", epoch)),
        lambda store: (store.due(owner, 1, None, 2), store.walk(key, 2), store.load_own(owner, ["a", "b"])),
        lambda store: asyncio.run(link(store)),
    ]
    return rnd.choice(calls)


def in_threads(calls: list[Callable[[], object]]) -> None:
    threads = [Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
