"""What every store promises of rows, erasures, sources, due rows and walks, on every store.

Two owners write one key from the first test on.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from clickcurve.keys import ALL_LINKS, breakdown_of, link_key, link_of, namespace_key
from storage.contract import CLOSED, Held, OwnRow, SavedRow, Source, Store, StoredLink, StoredRow
from storage.memory_store import MemoryStore
from tests.storage.stores import StoreFactory, due, in_flush, record, rows, saved, walked

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


def test_a_store_knows_which_one_it_is(store_factory: StoreFactory) -> None:
    first, second = store_factory(), store_factory()
    assert first.uuid() == second.uuid() != MemoryStore().uuid()
    assert UUID(first.uuid())


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
    assert store.due(1, 9, None, 10) == ["a"]


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
    store.erase([key], 7)
    assert rows(store, key) == StoredLink(7, (StoredRow(1, key.encode()),))
    assert store.load_own(1, [key]) == {key: OwnRow(key.encode(), 7)}
    assert key in store.due(1, 1, None, 10)
    assert key in dict(store.walk(None, 10))


def test_stored_keys_keep_links_and_namespaces_apart() -> None:
    for link in ("a", "\0a", "\0\0a", "\0limit:a"):
        assert link_of(link_key(link)) == link
    assert link_of(ALL_LINKS) is None
    assert link_of(namespace_key("limit", "a")) is None


# --- erasing --------------------------------------------------------------------------------------------------------
def test_an_erasure_shows_beside_the_rows_and_the_latest_wins(store: Store) -> None:
    held = in_flush(store)
    store.save_own(held, 1, saved("a", "b"), {})
    store.erase(["a"], 500)
    store.erase(["a"], 400)
    store.erase(["gone"], 600)
    assert rows(store, "a") == StoredLink(500, (StoredRow(1, b"row"),))
    assert rows(store, "gone") == StoredLink(600, ())
    assert store.load_own(1, ["a", "b", "gone"]) == {
        "a": OwnRow(b"row", 500),
        "b": OwnRow(b"row", 0),
        "gone": OwnRow(None, 600),
    }
    assert store.load_own(2, ["a"]) == {"a": OwnRow(None, 500)}
    assert sorted(store.walk(None, 10)) == [("a", rows(store, "a")), ("b", rows(store, "b"))]


def test_rows_of_any_owner_are_read_as_they_are_now(store_factory: StoreFactory) -> None:
    here, there = store_factory(), store_factory()
    held = in_flush(here)
    here.save_own(held, 1, saved("a", "b"), {})
    for erased_at in (0, 500):
        if erased_at:
            here.erase(["a"], erased_at)
        for reader in (here, there):
            assert reader.read_own(1, ["a", "b", "none"]) == {"a": OwnRow(b"row", erased_at), "b": OwnRow(b"row", 0)}


def test_several_keys_are_erased_at_once_each_for_itself(store: Store) -> None:
    held = in_flush(store)
    group = namespace_key("group", "g")
    store.save_own(held, 1, saved("a", "b", "c", group), {})
    store.erase(["b"], 900)
    store.erase(["a", "b", group, "none"], 500)
    stamps = {"a": 500, "b": 900, "c": 0, group: 500}
    assert {key: rows(store, key).erased_at for key in stamps} == stamps
    assert store.load_own(1, ["none", group]) == {"none": OwnRow(None, 500), group: OwnRow(b"row", 500)}
    with store.view() as view:
        assert {key: link.erased_at for key, link in view.links([*stamps]).items()} == stamps


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
    for page in (1, 2, 5, 100):
        assert sorted(due(store, 1, 10, page)) == [ALL_LINKS, "a", "c", "é", "\uffff", "\U0001f600"]
        assert due(store, 1, 10, page) == due(store, 1, 10, 100)
    assert due(store, 1, 0, 100) == []
    assert sorted(due(store, 2, 10, 100)) == ["b", "e"]


def test_a_row_that_was_visited_is_due_again_on_its_next_day_only(store: Store) -> None:
    held = in_flush(store)
    store.save_own(held, 1, saved("a", "b", due_day=10), {})
    assert sorted(due(store, 1, 10, 10)) == ["a", "b"]
    store.save_own(held, 1, saved("a", due_day=11) | saved("b"), {})
    store.visited(held, 10)
    assert due(store, 1, 10, 10) == []
    assert due(store, 1, 11, 10) == ["a"]
    store.save_own(held, 1, saved("b", due_day=12), {})
    assert sorted(due(store, 1, 12, 10)) == ["a", "b"]


def test_a_row_that_is_saved_again_with_the_same_due_day_stays_due(store_factory: StoreFactory) -> None:
    first, second = store_factory(), store_factory()
    held = in_flush(first)
    for store in (first, first, second):
        store.save_own(held, 1, saved("a", due_day=10), {})
    assert due(first, 1, 10, 10) == ["a"]


def test_a_walk_since_a_day_leaves_out_no_key_that_was_touched_since(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    for day in range(20_000, 20_012):
        some = [f"key-{day}", f"often-{day % 3}", "always"]
        store.save_own(first, 1, saved(*some, touched_day=day), {})
        store.save_own(second, 1, saved("always", f"second-{day}", touched_day=day), {})
    store.save_own(first, 1, saved("folded"), {})
    everything = dict(walked(store, 100))
    assert len(everything) == 12 * 2 + 3 + 2
    for since_day in (19_000, 20_000, 20_005, 20_011, 20_012):
        for page in (1, 3, 100):
            found = walked(store, page, since_day)
            assert len(found) == len(dict(found))
            assert all(everything[key] == link for key, link in found)
            touched = {f"{name}-{day}" for name in ("key", "second") for day in range(max(since_day, 20_000), 20_012)}
            if since_day < 20_012:
                touched.add("always")
            assert touched <= dict(found).keys()


def test_a_walk_shows_every_key_once_with_all_its_rows(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    keys = [ALL_LINKS, *(f"key-{n:03}" for n in range(57)), *ODD_KEYS[1:]]
    store.save_own(first, 1, saved(*keys, data=b"one"), {})
    store.save_own(second, 1, saved(*keys[::3], data=b"two"), {})
    both = set(keys[::3])
    for limit in (1, 7, 1000):
        seen = walked(store, limit)
        assert sorted(key for key, _ in seen) == sorted(keys)
        assert seen == walked(store, 1000)
        assert all([row.owner for row in link.rows] == ([1, 2] if key in both else [1]) for key, link in seen)


def test_keys_come_in_the_order_of_their_bytes_from_any_key_on(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    keys = [ALL_LINKS, *(f"key-{n:03}" for n in range(57)), *ODD_KEYS[1:]]
    store.save_own(first, 1, saved(*keys, data=b"one"), {})
    store.save_own(second, 1, saved(*keys[::3], data=b"two"), {})
    store.erase(["key-010"], 500)
    store.erase(["key-010x"], 600)  # which has no rows
    ordered = sorted(keys, key=str.encode)
    assert store.in_order("", 1000) == [(key, rows(store, key)) for key in ordered]
    for start, limit in (
        ("", 3),
        ("\0\0", 2),
        ("key-010", 5),
        ("key-010\0", 1),
        ("key-0105", 50),
        ("l", 4),
        ("\U0001f600", 9),
    ):
        assert [key for key, _ in store.in_order(start, limit)] == [key for key in ordered if key >= start][:limit]
    assert store.in_order("\U0001f601", 9) == []


def test_keys_that_contain_a_text_come_in_the_same_order(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    keys = [ALL_LINKS, *(f"Key-{n:03}" for n in range(57)), *ODD_KEYS[1:]]
    store.save_own(first, 1, saved(*keys, data=b"one"), {})
    store.save_own(second, 1, saved(*keys[::3], breakdown_of("Key-001"), data=b"two"), {})
    ordered = sorted(keys, key=str.encode)
    prefixes = ("", "Key-", "Key-0", "", "", "Key-0", "\0", "\U0001f600")
    for text, prefix in zip(("key", "-01", "Y-0", "\0", "\U0001f600", "nowhere", "%", "_"), prefixes, strict=True):
        begun = [key for key in ordered if key.startswith(prefix)]
        wanted = [(key, rows(store, key)) for key in begun if text.lower() in key.lower()]
        assert store.containing(text, "", 1000, 1000, prefix) == (wanted, None)
        for limit, most in ((1, 1000), (1000, 7), (3, 2), (1, 1)):
            seen: list[object] = []
            start = ""
            while True:
                links, last = store.containing(text, start, limit, most, prefix)
                assert len(links) <= limit
                seen += links
                if last is None:
                    break
                start = f"{last}\0"
            assert seen == wanted


# --- views ----------------------------------------------------------------------------------------------------------
def test_a_view_shows_everything_that_is_stored(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    keys = [f"key-{n:02}" for n in range(30)]
    store.save_own(first, 1, saved(*keys, ALL_LINKS), {"log": Source(1, 5, "tail")})
    store.save_own(second, 1, saved(*keys[::2]), {})
    store.erase(["key-03"], 500)
    store.erase(["gone"], 600)
    store.claim_ids(first, 1, {f"id-{n}": 100 + n for n in range(25)}, 50)
    store.claim_ids(second, 1, {"id-7": 1_000}, 50)
    with store.view() as view:
        assert view.owners() == [record(1, begun=1), record(2, holder="h2", begun=1)]
        assert view.sources() == {"log": Source(1, 5, "tail", 1)}
        links: list[tuple[str, StoredLink]] = []
        while page := view.walk(links[-1][0] if links else None, 7):
            assert len(page) <= 7
            links += page
        assert links[0] == (ALL_LINKS, rows(store, ALL_LINKS))
        assert sorted(links) == [(key, rows(store, key)) for key in [ALL_LINKS, *keys]]
        ids: list[tuple[str, int]] = []
        while some := view.ids(ids[-1][0] if ids else None, 4):
            ids += some
        assert sorted(ids) == sorted((f"id-{n}", 1_000 if n == 7 else 100 + n) for n in range(25))


def test_a_view_knows_how_many_rows_it_has_or_nothing_of_that(store: Store) -> None:
    first, second = in_flush(store, 1), in_flush(store, 2)
    store.save_own(first, 1, saved("a", "b", ALL_LINKS), {})
    store.save_own(second, 1, saved("a"), {})
    store.save_own(second, 1, {breakdown_of("a"): SavedRow(b"open", None, closed=b"closed")}, {})
    with store.view() as view:
        assert view.count_rows(breakdowns=True) in (5, None)
        assert view.count_rows(breakdowns=False) in (4, None)
        assert (view.count_rows(breakdowns=False) is None) == store.shared


def test_what_changes_after_a_view_was_taken_shows_in_no_older_row_of_all_links(store: Store) -> None:
    held = in_flush(store)
    store.save_own(held, 1, saved("a", ALL_LINKS, data=b"before"), {})
    with store.view() as view:
        store.begin(held, 1, 2, 0)
        store.save_own(held, 2, saved("a", "b", ALL_LINKS, data=b"after"), {})
        links = dict(view.walk(None, 10))
        assert links[ALL_LINKS].rows == (StoredRow(1, b"before"),)
        assert links["a"].rows[0].data in (b"before", b"after")
