"""Keys in their order, page by page: stored ones, pending ones, and none that was erased."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickcurve.answers.written import as_csv
from clickcurve.keys import caller_key, limit_key
from query.lists.key_list import KeyList
from tests.power import examples
from tests.query.queried_nodes import QueriedNodes, run

NOW = 1_772_361_480


def pages(nodes: QueriedNodes, query: str = "", limit: int = 3) -> list[tuple[str, int]]:
    """Every page, one after the other."""
    found: list[tuple[str, int]] = []
    after = ""
    while True:
        page: dict[str, Any] = nodes.top(f"sort=key&limit={limit}{query}{after}")
        assert (page["from"], page["to"]) == (None, None)
        found += [(link["key"], link["count"]) for link in page["links"]]
        if page["after"] is None:
            return found
        assert len(page["links"]) == limit and page["after"] == found[-1][0]
        after = "&after=" + "".join(f"%{byte:02x}" for byte in page["after"].encode())


@pytest.fixture
def nodes() -> QueriedNodes:
    return QueriedNodes(owners=2, now=NOW)


def test_keys_come_in_their_order_stored_or_not_with_what_their_lives_count(nodes: QueriedNodes) -> None:
    for key in ("b", "ba", "a", "é", "z", "\U0001f600", "\uffff"):
        nodes.hit(key, NOW)
    nodes.hit("b", NOW, owner=2)
    nodes.flush()
    nodes.hit("b", NOW, 5)
    nodes.hit("aa", NOW)
    assert pages(nodes) == [
        ("a", 1), ("aa", 1), ("b", 7), ("ba", 1), ("z", 1), ("é", 1), ("\uffff", 1), ("\U0001f600", 1)
    ]  # fmt: skip
    assert pages(nodes, "&prefix=b") == [("b", 7), ("ba", 1)]
    assert pages(nodes, "&prefix=b&after=b") == [("ba", 1)]
    assert pages(nodes, "&prefix=b&after=a") == [("b", 7), ("ba", 1)]
    assert pages(nodes, "&prefix=b&after=c") == pages(nodes, "&prefix=x") == []


def test_erased_links_are_left_out_until_they_are_hit_again(nodes: QueriedNodes) -> None:
    for key in "abcd":
        nodes.hit(key, NOW)
    nodes.flush()
    for key in "abc":
        nodes.erase(key)
    nodes.hit("b", NOW)
    assert pages(nodes, limit=1) == [("b", 1), ("d", 1)]
    nodes.fold()
    assert pages(nodes, limit=1) == [("b", 1), ("d", 1)]


def test_rows_that_are_no_links_are_left_out(nodes: QueriedNodes) -> None:
    mine = nodes.owners[0]
    for stored in (limit_key("login", "asked"), *(caller_key("login", "asked", f"{n:03}") for n in range(50))):
        mine.other(stored, NOW, 1)
    for key in ("\0first", "\x01", "a"):
        nodes.hit(key, NOW)
    nodes.flush()
    assert pages(nodes) == [("\0first", 1), ("\x01", 1), ("a", 1)]
    assert pages(nodes, "&prefix=%00") == [("\0first", 1)]


def test_a_page_asks_the_store_for_no_more_than_it_shows(nodes: QueriedNodes) -> None:
    asked: list[tuple[str, int]] = []
    real = nodes.store.in_order

    def counted(start: str, limit: int) -> Any:
        asked.append((start, limit))
        return real(start, limit)

    nodes.store.in_order = counted  # type: ignore[method-assign]
    for n in range(100):
        nodes.hit(f"k{n:03}", NOW)
    nodes.flush()
    page = nodes.top("sort=key&limit=10&prefix=k&after=k041")
    assert (page["links"][0]["key"], page["after"]) == ("k042", "k051")
    assert asked == [("k041\0", 11)]


def test_bots_alone_make_a_key_too_and_an_opening_does(nodes: QueriedNodes) -> None:
    nodes.hit("crawled", NOW, 3, bot=True)
    nodes.owners[0].opening("opened", 5)
    nodes.flush()
    assert pages(nodes) == [("crawled", 0), ("opened", 5)]
    assert pages(nodes, "&bots=only") == [("crawled", 3), ("opened", 0)]


def test_a_flush_in_between_loses_no_key(nodes: QueriedNodes) -> None:
    nodes.hit("a", NOW)
    nodes.owners[0].begin(NOW)
    nodes.hit("b", NOW)
    assert pages(nodes) == [("a", 1), ("b", 1)]
    nodes.owners[0].complete()
    assert pages(nodes) == [("a", 1), ("b", 1)]


def test_csv_has_the_same_lines(nodes: QueriedNodes) -> None:
    nodes.hit("a,b", NOW)
    assert as_csv(run(nodes.queries.links(b"sort=key&format=csv"))) == b'key,count\n"a,b",1\n'


keys = st.text(st.sampled_from("\0\x01ab\U0001f600\uffff"), min_size=1, max_size=3)


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(keys, st.sampled_from(["hit", "flush", "erase"])), max_size=12), st.integers(1, 4), keys)
def test_all_pages_together_are_all_keys_by_their_bytes(steps: list[tuple[str, str]], limit: int, prefix: str) -> None:
    nodes = QueriedNodes(now=NOW)
    for key, what in steps:
        if what == "erase":
            nodes.erase(key)
        else:
            nodes.hit(key, NOW)
        if what == "flush":
            nodes.flush()
    expected = sorted({hit.key for hit in nodes.hits}, key=str.encode)
    assert [key for key, _ in pages(nodes, limit=limit)] == expected
    quoted = "".join(f"%{byte:02x}" for byte in prefix.encode())
    begun = [key for key in expected if key.startswith(prefix)]
    assert [key for key, _ in pages(nodes, f"&prefix={quoted}", limit)] == begun


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_erased_links_whose_hits_are_still_on_their_way_hide_no_other(limit: int) -> None:
    """The first pending links were erased: the page ended with them, and links after it were never listed."""
    nodes = QueriedNodes(now=NOW)
    nodes.hit("stored", NOW)
    nodes.flush()
    for key in ("a", "b", "c"):
        nodes.hit(key, NOW)
    nodes.owners[0].begin(NOW)
    for key in ("a", "b", "c"):
        nodes.erase(key)
    for key in ("d", "e", "f", "g"):
        nodes.hit(key, NOW)
    assert [key for key, _ in pages(nodes, limit=limit)] == ["d", "e", "f", "g", "stored"]


def test_erased_links_hide_none_that_is_on_its_way_before_those_that_are_stored() -> None:
    nodes = QueriedNodes(now=NOW)
    for key in ("y", "z"):
        nodes.hit(key, NOW)
    nodes.flush()
    for key in ("a", "b"):
        nodes.hit(key, NOW)
    nodes.owners[0].begin(NOW)
    for key in ("a", "b"):
        nodes.erase(key)
    nodes.hit("c", NOW)
    assert [key for key, _ in pages(nodes, limit=1)] == ["c", "y", "z"]


def found(nodes: QueriedNodes, text: str, limit: int = 3, more: str = "") -> list[str]:
    """All keys that contain a text, page by page. A page that is not full says where the search stopped."""
    keys: list[str] = []
    after = ""
    while True:
        page = nodes.top(f"sort=key&contains={quote(text, safe='')}&limit={limit}{more}{after}")
        keys += [link["key"] for link in page["links"]]
        if page["after"] is None:
            return keys
        after = f"&after={quote(page['after'], safe='')}"


def test_a_search_finds_a_text_anywhere_in_a_key_stored_or_not_in_any_case(nodes: QueriedNodes) -> None:
    for key in ("newsletter", "LETTERS", "launch", "let/ter"):
        nodes.hit(key, NOW)
    nodes.flush()
    for key in ("late-letter", "newsletter", "\u00dcber"):
        nodes.hit(key, NOW)
    assert nodes.top("sort=key&contains=letter")["links"] == [
        {"key": "LETTERS", "count": 1},
        {"key": "late-letter", "count": 1},
        {"key": "newsletter", "count": 2},
    ]
    assert found(nodes, "BER") == ["\u00dcber"] and found(nodes, "\u00fcber") == []
    assert found(nodes, "letter", more="&prefix=l") == ["late-letter"]


def test_a_search_does_not_look_at_what_stored_keys_have_before_names(nodes: QueriedNodes) -> None:
    for key in ("\0", "\0\0a", "a"):
        nodes.hit(key, NOW)
    nodes.flush()
    assert found(nodes, "\0\0", limit=1) == ["\0\0a"]


def test_a_search_that_ends_early_says_behind_which_key_it_goes_on(nodes: QueriedNodes) -> None:
    nodes.links.keys = KeyList(nodes.links, looked_at=10)
    for n in range(25):
        nodes.hit(f"k{n:02}", NOW)
    nodes.flush()
    page = nodes.top("sort=key&contains=k1")
    assert ([link["key"] for link in page["links"]], page["after"]) == ([], "k09")
    page = nodes.top("sort=key&contains=k1&after=k09")
    assert (len(page["links"]), page["after"]) == (10, "k19")
    assert nodes.top("sort=key&contains=k1&after=k19") == {
        "from": None,
        "to": None,
        "links": [],
        "exact": True,
        "after": None,
    }


@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(keys, st.sampled_from(["hit", "flush", "erase"])), max_size=12),
    st.integers(1, 4),
    keys,
    st.integers(1, 5),
)
def test_all_pages_of_a_search_are_all_keys_that_contain_the_text(
    steps: list[tuple[str, str]], limit: int, text: str, looked_at: int
) -> None:
    nodes = QueriedNodes(now=NOW)
    nodes.links.keys = KeyList(nodes.links, looked_at=looked_at)
    nodes.owners[0].other(limit_key("login", "asked"), NOW, 1)
    for key, what in steps:
        if what == "erase":
            nodes.erase(key)
        else:
            nodes.hit(key, NOW)
        if what == "flush":
            nodes.flush()
    expected = sorted({hit.key for hit in nodes.hits if text in hit.key}, key=str.encode)
    assert found(nodes, text, limit) == expected
