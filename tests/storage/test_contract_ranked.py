"""What every store promises of candidates: links by the most that each can count."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from clickcurve.buckets.candidates import NOBODY
from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.upper_bounds import BOTS, END, MOST, PEOPLE, UpperBounds, upper_bounds_in
from clickcurve.keys import ALL_LINKS, breakdown_of, group_key, link_key, moved_key
from storage.cassandra.store import CassandraStore
from storage.contract import SavedRow, Store
from storage.rankings import Ranking
from tests.storage.flushes import NOON, Flusher, hits
from tests.storage.stores import STORES, in_flush

LIFE = Ranking(None, people=True, bots=False)


def upper_bounds(people: int, bots: int = 0, last: int = NOON) -> UpperBounds:
    return (last, *[people] * (BOTS - PEOPLE), *[bots] * (END - BOTS))


def saved(people: int, bots: int = 0, last: int = NOON) -> SavedRow:
    return SavedRow(b"row", None, upper_bounds=upper_bounds(people, bots, last))


def bounds(store: Store, ranking: Ranking) -> list[tuple[str, int]] | None:
    """The bounds of all links; there are too few for any to be no candidate."""
    with store.ranked(ranking) as links:
        if links is None:
            return None
        found = links.candidates()
        assert found is not None
        assert found.rest == NOBODY
        return found.links


@pytest.fixture(params=["memory", "sqlite"])
def ranking_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store that keeps candidates."""
    factory = STORES[request.param](tmp_path, request.getfixturevalue)
    yield factory()
    factory.close()


def test_a_store_that_keeps_none_says_so(store: Store) -> None:
    held = in_flush(store)
    store.save_own(held, 1, {"a": saved(5)}, {})
    keeps = not isinstance(store, CassandraStore)
    assert (bounds(store, LIFE) is not None) == keeps
    assert (store.cutoffs(1) is not None) == keeps
    store.rank_prefixes(["a"])
    store.rank_anew()
    while store.rank_some(lambda data: upper_bounds(5)):
        pass
    assert (bounds(store, LIFE) == [("a", 5)]) == keeps
    with store.view() as view:
        assert view.ranked_prefixes() == [""] * keeps
        assert (view.upper_bounds(["a"], "") == {("a", 1): upper_bounds(5)}) == keeps
        assert not view.ranked_cutoffs(1, "").passed_by(upper_bounds(0), "a")


def test_links_come_by_what_they_can_count_and_then_by_key(ranking_store: Store) -> None:
    held = in_flush(ranking_store)
    rows = {"b": saved(5), "a": saved(5, 3), "c": saved(7, 1), link_key("\0x"): saved(5), "none": saved(0)}
    others = {ALL_LINKS: SavedRow(b"", None), group_key("g"): SavedRow(b"", None)}
    ranking_store.save_own(held, 1, rows | others | {breakdown_of("a"): SavedRow(b"", None)}, {})
    expected = [("c", 7), ("\0\0x", 5), ("a", 5), ("b", 5)]
    assert bounds(ranking_store, LIFE) == expected
    assert bounds(ranking_store, Ranking(NOON, people=True, bots=False)) == expected
    assert bounds(ranking_store, Ranking(None, people=False, bots=True)) == [("a", 3), ("c", 1)]
    both = [("a", 8), ("c", 8), ("\0\0x", 5), ("b", 5)]
    assert bounds(ranking_store, Ranking(NOON, people=True, bots=True)) == both


def test_a_link_can_count_what_the_rows_of_all_its_owners_can(ranking_store: Store) -> None:
    first, second = in_flush(ranking_store, 1), in_flush(ranking_store, 2)
    ranking_store.save_own(first, 1, {"a": saved(5), "b": saved(6, last=NOON - 60)}, {})
    ranking_store.save_own(second, 1, {"a": saved(4), "b": saved(1)}, {})
    assert bounds(ranking_store, LIFE) == [("a", 9), ("b", 7)]
    assert bounds(ranking_store, Ranking(NOON, people=True, bots=False)) == [("a", 9), ("b", 1)]
    ranking_store.save_own(first, 1, {"a": saved(MOST), "b": saved(1)}, {})
    ranking_store.save_own(second, 1, {"a": saved(MOST)}, {})
    assert bounds(ranking_store, LIFE) == [("a", 2 * MOST), ("b", 2)]


def test_the_narrowest_window_that_covers_a_range_bounds_it(ranking_store: Store) -> None:
    held = in_flush(ranking_store)
    row = SavedRow(b"row", None, upper_bounds=(NOON + 3_600, 2, 3, 5, 7, 11, 13, 17, 70, 130))
    ranking_store.save_own(held, 1, {"a": row}, {})
    ages = {0: 2, 3_600: 2, 86_400: 3, 2 * 86_400: 5, 7 * 86_400: 5, 8 * 86_400: 7, 30 * 86_400: 7, 31 * 86_400: 11}
    ages |= {100 * 86_400: 13, 399 * 86_400: 13, 400 * 86_400: 17}
    for age, expected in ages.items():
        since = NOON + 3_600 - age
        assert bounds(ranking_store, Ranking(since, people=True, bots=False)) == [("a", expected)], age
        both = expected + (70 if age < 31 * 86_400 else 130)
        assert bounds(ranking_store, Ranking(since, people=True, bots=True)) == [("a", both)], age
    assert bounds(ranking_store, Ranking(NOON + 3_601, people=True, bots=True)) == []


async def test_rows_of_some_keys_are_read_at_once(store: Store) -> None:
    held = in_flush(store)
    store.save_own(held, 1, {key: SavedRow(b"row", None) for key in ("a", "b", moved_key("a"))}, {})
    store.erase(["b", "none"], 5)
    links = await asyncio.to_thread(store.links, ["a", moved_key("a"), "b", "none", "nobody"])
    assert links == {key: await store.rows(key) for key in ("a", moved_key("a"), "b")}
    assert links["b"].erased_at == 5


def test_what_is_shown_is_of_one_moment_with_its_rows(ranking_store: Store) -> None:
    flusher = Flusher(ranking_store)
    flusher.flush({"a": hits((0, 5)), "b": hits((0, 4))})
    ranking_store.erase(["b"], NOON * 1_000_000)
    with ranking_store.ranked(LIFE) as links:
        assert links is not None
        assert links.candidates() == ([("a", 5), ("b", 4)], NOBODY)
        listed = links.links(["a", "b", "none"])
        assert listed["b"].erased_at == NOON * 1_000_000
        assert [upper_bounds_in(row.data, CLICKS)[PEOPLE] for row in listed["a"].rows] == [5]


def test_a_row_is_a_leader_as_it_was_saved_last(ranking_store: Store) -> None:
    held = in_flush(ranking_store)
    ranking_store.save_own(held, 1, {"a": saved(5), "b": saved(4), "c": saved(3)}, {})
    ranking_store.save_own(held, 1, {"a": SavedRow(b"row", None), "b": saved(6)}, {})
    assert bounds(ranking_store, LIFE) == [("b", 6), ("c", 3)]
    with ranking_store.view() as view:
        assert view.upper_bounds(["a", "b", "none"], "") == {("b", 1): upper_bounds(6)}


def test_a_flush_is_told_the_weight_that_it_saved(ranking_store: Store) -> None:
    held = in_flush(ranking_store)
    ranking_store.save_own(held, 1, {"a": saved(5), ALL_LINKS: SavedRow(b"all", None)}, {})
    own = ranking_store.load_own(1, ["a", ALL_LINKS])
    assert (own["a"].upper_bounds, own[ALL_LINKS].upper_bounds) == (upper_bounds(5), None)
