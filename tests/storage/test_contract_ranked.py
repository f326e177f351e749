"""What every store promises of the weights beside its rows: all links by the most that each can count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clickcurve.buckets.ladder import CLICKS
from clickcurve.buckets.weight import BOTS, END, MOST, PEOPLE, UNREADABLE, Weight, weight_in
from clickcurve.keys import ALL_LINKS, breakdown_of, group_key, link_key
from storage.contract import Ranking, SavedRow, Store
from storage.unranked import UnrankedStore
from tests.storage.flushes import DAY, NOON, Flusher, hits
from tests.storage.stores import STORES, in_flush

LIFE = Ranking(None, people=True, bots=False)


def weight(people: int, bots: int = 0, last: int = NOON) -> Weight:
    return (last, *[people] * (BOTS - PEOPLE), *[bots] * (END - BOTS))


def saved(people: int, bots: int = 0, last: int = NOON) -> SavedRow:
    return SavedRow(b"row", None, weight=weight(people, bots, last))


def bounds(store: Store, ranking: Ranking, page: int = 10) -> list[tuple[str, int]] | None:
    """All bounds, page by page."""
    with store.ranked(ranking) as links:
        if links is None:
            return None
        found: list[tuple[str, int]] = []
        while some := links.bounds(found[-1] if found else None, page):
            assert len(some) <= page
            found += some
        return found


@pytest.fixture(params=["memory", "sqlite"])
def ranking_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store that keeps weights."""
    factory = STORES[request.param](tmp_path, request.getfixturevalue)
    yield factory()
    factory.close()


def test_a_store_that_keeps_none_says_so(store: Store) -> None:
    held = in_flush(store)
    store.save_own(held, 1, {"a": saved(5)}, {})
    keeps = not isinstance(store, UnrankedStore)
    assert (bounds(store, LIFE) is not None) == keeps
    assert not store.rank_some(lambda data: UNREADABLE)
    with store.view() as view:
        assert (view.weights(["a"]) is not None) == keeps


def test_links_come_by_what_they_can_count_and_then_by_key(ranking_store: Store) -> None:
    held = in_flush(ranking_store)
    rows = {"b": saved(5), "a": saved(5, 3), "c": saved(7, 1), link_key("\0x"): saved(5), "none": saved(0)}
    others = {ALL_LINKS: SavedRow(b"", None), group_key("g"): SavedRow(b"", None)}
    ranking_store.save_own(held, 1, rows | others | {breakdown_of("a"): SavedRow(b"", None)}, {})
    expected = [("c", 7), ("\0\0x", 5), ("a", 5), ("b", 5)]
    for page in (1, 2, 10):
        assert bounds(ranking_store, LIFE, page) == expected
        assert bounds(ranking_store, Ranking(NOON, people=True, bots=False), page) == expected
    assert bounds(ranking_store, Ranking(None, people=False, bots=True)) == [("a", 3), ("c", 1)]
    both = [("a", 8), ("c", 8), ("\0\0x", 5), ("b", 5)]
    assert bounds(ranking_store, Ranking(NOON, people=True, bots=True)) == both


def test_a_link_can_count_what_the_rows_of_all_its_owners_can(ranking_store: Store) -> None:
    first, second = in_flush(ranking_store, 1), in_flush(ranking_store, 2)
    ranking_store.save_own(first, 1, {"a": saved(5), "b": saved(6, last=NOON - 60)}, {})
    ranking_store.save_own(second, 1, {"a": saved(4), "b": saved(1)}, {})
    for page in (1, 2):
        assert bounds(ranking_store, LIFE, page) == [("a", 9), ("b", 7)]
        assert bounds(ranking_store, Ranking(NOON, people=True, bots=False), page) == [("a", 9), ("b", 1)]
    ranking_store.save_own(first, 1, {"a": saved(MOST), "b": saved(1)}, {})
    ranking_store.save_own(second, 1, {"a": saved(MOST)}, {})
    assert bounds(ranking_store, LIFE) == [("a", 2 * MOST), ("b", 2)]


def test_the_narrowest_window_that_covers_a_range_bounds_it(ranking_store: Store) -> None:
    held = in_flush(ranking_store)
    row = SavedRow(b"row", None, weight=(NOON + 3_600, 3, 5, 7, 11, 13, 70, 130))
    ranking_store.save_own(held, 1, {"a": row}, {})
    ages = {0: 3, 3_600: 3, 86_400: 5, 6 * 86_400: 5, 7 * 86_400: 7, 31 * 86_400: 11, 366 * 86_400: 13}
    for age, expected in ages.items():
        since = NOON + 3_600 - age
        assert bounds(ranking_store, Ranking(since, people=True, bots=False)) == [("a", expected)], age
        both = expected + (70 if age < 31 * 86_400 else 130)
        assert bounds(ranking_store, Ranking(since, people=True, bots=True)) == [("a", both)], age
    assert bounds(ranking_store, Ranking(NOON + 3_601, people=True, bots=True)) == []


def test_what_is_shown_is_of_one_moment_with_its_rows(ranking_store: Store) -> None:
    flusher = Flusher(ranking_store)
    flusher.flush({"a": hits((0, 5)), "b": hits((0, 4))})
    ranking_store.erase("b", NOON * 1_000_000)
    with ranking_store.ranked(LIFE) as links:
        assert links is not None
        assert links.bounds(None, 5) == [("a", 5), ("b", 4)]
        found = links.links(["a", "b", "none"])
        assert found["b"].erased_at == NOON * 1_000_000
        assert [weight_in(row.data, CLICKS)[PEOPLE] for row in found["a"].rows] == [5]


def test_rows_that_were_saved_without_a_weight_get_theirs_in_steps(ranking_store: Store) -> None:
    flusher = Flusher(ranking_store)
    flusher.flush({"a": hits((0, 5)), "b": hits((0, 4), bots=2)})
    data = {key: own.data for key, own in ranking_store.load_own(1, ["a", "b"]).items()}
    assert data["a"] and data["b"]
    bare = {"a": SavedRow(data["a"], DAY + 1), "b": SavedRow(b"?", None), "c": saved(3), "\0by:a": SavedRow(b"", None)}
    ranking_store.save_own(flusher.held, flusher.number, bare, {})
    assert bounds(ranking_store, LIFE) is None
    with ranking_store.view() as view:
        assert view.weights(["a", "c"]) is None
    while ranking_store.rank_some(lambda data: weight_in(data, CLICKS)):
        pass
    assert bounds(ranking_store, LIFE) == [("b", MOST), ("a", 5), ("c", 3)]
    with ranking_store.view() as view:
        assert view.weights(["a", "c"]) == {("a", 1): weight(5), ("c", 1): weight(3)}


def test_a_flush_is_told_the_weight_that_it_saved(ranking_store: Store) -> None:
    held = in_flush(ranking_store)
    ranking_store.save_own(held, 1, {"a": saved(5), ALL_LINKS: SavedRow(b"all", None)}, {})
    own = ranking_store.load_own(1, ["a", ALL_LINKS])
    assert (own["a"].weight, own[ALL_LINKS].weight) == (weight(5), None)
