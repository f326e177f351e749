"""The cache of own rows: what it keeps, what it forgets first, and that its bytes are bounded."""

from __future__ import annotations

import random

from storage.cassandra.row_cache import OVERHEAD_BYTES, CachedRow, RowCache

ROW = CachedRow(b"row", 0)


def test_a_row_is_kept_by_owner_and_key() -> None:
    cache = RowCache(1_000_000)
    cache.put(1, "a", ROW)
    cache.put(2, "a", CachedRow(b"other", 7, 3, 4))
    assert cache.get(1, "a") == ROW
    assert cache.get(2, "a") == CachedRow(b"other", 7, 3, 4)
    assert cache.get(1, "b") is None
    assert (cache.hits, cache.misses, len(cache)) == (2, 1, 2)


def test_the_least_recently_used_row_goes_first() -> None:
    cache = RowCache(3 * (OVERHEAD_BYTES + 4))
    for key in "abc":
        cache.put(1, key, ROW)
    cache.get(1, "a")
    cache.put(1, "d", ROW)
    assert [key for key in "abcd" if cache.get(1, key)] == ["a", "c", "d"]


def test_a_row_that_is_put_again_counts_once() -> None:
    cache = RowCache(1_000_000)
    for size in (10, 1000, 20):
        cache.put(1, "a", CachedRow(bytes(size), 0))
    assert cache.bytes == 1 + 20 + OVERHEAD_BYTES


def test_a_cache_without_room_keeps_nothing() -> None:
    cache = RowCache(0)
    cache.put(1, "a", ROW)
    assert cache.get(1, "a") is None
    assert cache.bytes == 0


def test_rows_are_taken_and_dropped_by_row_link_and_owner() -> None:
    cache = RowCache(1_000_000)
    for owner in (1, 2):
        for key in "abc":
            cache.put(owner, key, ROW)
    assert cache.take(1, "a") == ROW
    assert cache.take(1, "a") is None
    cache.drop_link("b")
    cache.drop_owner(2)
    assert [(owner, key) for owner in (1, 2) for key in "abc" if cache.get(owner, key)] == [(1, "c")]
    cache.clear()
    assert (len(cache), cache.bytes) == (0, 0)


def test_its_bytes_are_always_those_of_its_rows_and_within_the_limit() -> None:
    rnd = random.Random(5)
    cache = RowCache(5_000)
    for _ in range(3_000):
        owner, key = rnd.randint(1, 3), rnd.choice("abcdefghij") * rnd.randint(1, 9)
        what = rnd.randrange(10)
        if what < 7:
            cache.put(owner, key, CachedRow(rnd.randbytes(rnd.randint(0, 400)), 0))
        elif what == 7:
            cache.take(owner, key)
        elif what == 8:
            cache.drop_link(key)
        elif rnd.random() < 0.05:
            cache.drop_owner(owner)
        assert cache.bytes == sum(len(key) + len(row.data) + OVERHEAD_BYTES for (_, key), row in cache._rows.items())
        assert cache.bytes <= 5_000
