"""Which links a page of a deletion erases: all of a prefix in the end, and each page reads a bounded number of rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clickcurve.keys import link_key
from query.lists import key_list
from query.lists.listed_rows import GROUP, LINK
from query.lists.listing import Listing
from query.parameters import Parameters
from query.queries import Queries
from query.reader import Reader
from storage.contract import StoredLink
from storage.memory_store import MemoryStore
from tests.storage.flushes import NOON, Flusher, hits

LIMIT = 10


class CountingStore(MemoryStore):
    """Counts the rows that lists read."""

    read = 0

    def in_order(self, start: str, limit: int) -> list[tuple[str, StoredLink]]:
        page = super().in_order(start, limit)
        self.read += len(page)
        return page


class SharedStore(CountingStore):
    shared = True


def queries_of(store: MemoryStore) -> Queries:
    links, groups = (Listing(kind, store, lambda key: [], tuple, lambda: 0) for kind in (LINK, GROUP))
    return Queries(Reader(store.rows, lambda key: [], lambda keys: None, store.ladder), links, groups, lambda: NOON)


async def erased_in_pages(queries: Queries, store: CountingStore, prefix: str, most: int) -> list[int]:
    """How many links each page of a deletion erased."""
    deleted: list[int] = []
    more = True
    while more:
        store.read = 0
        keys, more = await queries.to_be_erased(prefix, LIMIT)
        assert store.read <= most
        assert len(keys) <= LIMIT
        store.erase(list(map(link_key, keys)), (NOON + len(deleted) + 1) * 1_000_000)
        deleted.append(len(keys))
    return deleted


@pytest.mark.parametrize("make", [CountingStore, SharedStore])
async def test_a_page_reads_few_rows_however_many_were_erased(
    make: Callable[[], CountingStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("READ", "READ_SHARED"):
        monkeypatch.setattr(key_list, name, 50)
    store = make()
    gone, there = [f"a/{n:04}" for n in range(600)], [f"a/{n:04}" for n in (70, *range(600, 625))]
    flusher = Flusher(store)
    flusher.flush({key: hits((0, 1)) for key in {*gone, *there, "a", "b/x"}})
    store.erase([key for key in gone if key not in there], NOON * 1_000_000 + 1)
    queries = queries_of(store)
    most = 2 * (50 + LIMIT + 1 + 100)
    deleted = await erased_in_pages(queries, store, "a/", most)
    assert sum(deleted) == len(there)
    assert len(deleted) > 10
    left = await queries._links.page(Parameters(limit=LIMIT), NOON)
    assert left.links == [("a", 1), ("b/x", 1)]
    assert sum(await erased_in_pages(queries, store, "a/", most)) == 0


async def test_deletions_of_several_prefixes_go_on_each_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_list, "READ", 50)
    store = CountingStore()
    keys = [f"{prefix}/{n:04}" for prefix in "ab" for n in range(500)]
    Flusher(store).flush({key: hits((0, 1)) for key in keys})
    queries, left = queries_of(store), {"a/", "b/"}
    erased: list[str] = []
    for _ in range(300):
        for prefix in sorted(left):
            some, more = await queries.to_be_erased(prefix, LIMIT)
            store.erase(some, (NOON + 1) * 1_000_000)
            erased += some
            if not more:
                left.discard(prefix)
    assert not left
    assert sorted(erased) == keys
