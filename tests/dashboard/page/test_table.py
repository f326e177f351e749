"""The table of all links: sorted by a click, page by page, and those that a search finds as one types."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from clickcurve.answers import KeyCount, LinksAnswer
from clickcurve.buckets.errors import ParameterInvalid
from dashboard.page.lists.rankings import Rankings
from dashboard.page.lists.table import LINES, RANKED, TablePage, table_page
from dashboard.page.view import PageView, view_of
from testing.axe import axe_script, violations
from testing.browser import Browser
from testing.client import http_client
from testing.server import RunningServer
from tests.conftest import Serve

LINKS = 75


def names(page: str) -> list[str]:
    """The links of a page, in their order."""
    found = re.findall(r'href="links/([^"?]+)[?"]', page)
    return [str(each) for each in found]


def address_of(page: str, word: str) -> str:
    """Where a link of the page leads."""
    (address,) = re.findall(rf'<a (?:rel="\w+" )?href="([^"]*)"[^>]*>{word}<', page)
    return "/" + str(address).replace("&amp;", "&")


def test_links_are_sorted_by_their_hits_or_by_their_keys_page_by_page(serve: Serve) -> None:
    with http_client(serve().url) as http:
        hits = [{"key": f"k{n:02}", "count": n + 1} for n in range(LINKS)]
        http.post("/v1/hits", json=[*hits, {"key": "old", "ts": "2026-01-01"}]).raise_for_status()
        overview = http.get("/?last=24h").text
        pages = [http.get(address_of(overview, "All links")).text]
        while "Next page" in pages[-1]:
            pages.append(http.get(address_of(pages[-1], "Next page")).text)
        ranked = [name for page in pages for name in names(page)]
        assert ranked == [f"k{n:02}" for n in reversed(range(LINKS))] and len(pages) == 3
        assert names(http.get(address_of(pages[2], "Previous page")).text) == names(pages[1])
        assert http.get(address_of(pages[2], "CSV")).text.splitlines()[1] == f"k{LINKS - 1},{LINKS}"

        by_key = http.get(address_of(pages[0], "Link")).text
        assert names(by_key) == [f"k{n:02}" for n in range(LINES)]
        assert 'aria-sort="ascending"' in by_key and "last=24h" in address_of(by_key, "Next page")
        last = http.get("/links?last=24h&sort=key&after=k73").text
        assert names(last) == ["k74", "old"] and "Next page" not in last
        assert re.search(r"old</bdi></a></th><td>.*?</td><td class=\"n\">0</td>", last), "none in this range"
        assert names(http.get(address_of(last, "First page")).text) == names(by_key)
        assert names(http.get(address_of(by_key, "Hits")).text) == names(pages[0])
        assert names(http.get("/links?last=24h&compare=before").text) == names(pages[0])


def test_a_search_finds_anywhere_in_a_key_and_says_how_many_hits_of_the_range(serve: Serve) -> None:
    with http_client(serve().url) as http:
        hits = [{"key": key, "count": 3} for key in ("newsletter", "LETTERS", "launch")]
        http.post("/v1/hits", json=[*hits, {"key": "newsletter", "ts": "2026-01-01"}]).raise_for_status()
        found = http.get("/?q=letter&last=7d", follow_redirects=True)
        assert found.url.path == "/links" and names(found.text) == ["LETTERS", "newsletter"]
        assert re.findall(r'<td class="n">(\d+)</td>', found.text) == ["3", "3"]
        assert "No link contains <bdi>zzz</bdi>." in http.get("/links?q=zzz").text


def page_of(query: bytes, answer: LinksAnswer) -> TablePage:
    async def ask(_: bytes) -> LinksAnswer:
        return answer

    async def asked() -> TablePage:
        return await table_page(view_of(query), ask, Rankings(ask, lambda: 0.0))

    return asyncio.run(asked())


def test_a_search_that_ended_early_says_so_and_goes_on() -> None:
    page = page_of(b"q=x", LinksAnswer(None, None, [KeyCount("ax", 1)], True, "m"))
    assert page.note == "The search looked at the links up to m and can go on."
    assert page.following == "?q=x&after=m"
    assert page_of(b"q=x", LinksAnswer(None, None, [], True, None)).following == ""


def test_only_so_many_links_are_ranked_and_the_last_page_says_so() -> None:
    answer = LinksAnswer(None, None, [KeyCount(f"{n}", 1) for n in range(RANKED)], True)
    last = -(-RANKED // LINES)
    page = page_of(b"page=%d" % last, answer)
    assert page.links is not None and page.links[-1].key == f"{RANKED - 1}"
    assert page.following == "" and page.note.startswith("Only the first 1,000 links are ranked")
    assert page_of(b"page=%d" % (last - 1), answer).note == ""


@pytest.mark.parametrize("query", [b"page=0", b"page=35", b"page=x", b"page=\xd9\xa3", b"sort=change", b"page=-1"])
def test_a_page_or_an_order_that_is_not_there_is_refused(query: bytes) -> None:
    with pytest.raises(ParameterInvalid):
        page_of(query, LinksAnswer(None, None, [], True))


def test_another_range_begins_with_the_first_page() -> None:
    view = PageView(page="3", sort="key", last="7d")
    assert view.address(last="30d") == "?last=30d&sort=key"
    assert view.address(tz="Asia/Tokyo") == "?last=7d&tz=Asia%2FTokyo&sort=key&page=3"


def test_links_are_found_as_one_types(browser: Browser, pages: RunningServer, shots: Path | None) -> None:
    with browser.page() as page:
        page.open(f"{pages.url}/?last=7d")
        page.click("#q")
        page.type_text("NK-1")
        page.until("document.querySelectorAll('#found tbody tr').length === 10")
        assert page.js("document.activeElement.id") == "q" and page.js("location.pathname") == "/"
        assert page.js("document.getElementById('said').textContent") == "10 links"
        page.type_text("1")
        page.until("document.querySelectorAll('#found tbody tr').length === 1")
        if shots is not None:
            page.shot(shots / "found.png")
        assert violations(page, axe_script()) == []
        page.press("Enter")
        page.until("location.pathname === '/links' && document.querySelector('#list tbody tr')")
        page.click("#q")
        page.press("End")
        page.type_text("x")
        page.until("document.getElementById('list').innerText.includes('No link contains')")
        assert page.js("location.search").endswith("q=NK-11x"), "the address is that of what is shown"
        assert page.faults() == []
