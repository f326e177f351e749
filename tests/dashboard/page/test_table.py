"""The table of all links: sorted by a click, page by page, and those that a search finds as one types."""

from __future__ import annotations

import asyncio
import re
from operator import attrgetter
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickcurve.answers.counts import KeyCount, LinksAnswer, TotalAnswer
from clickcurve.buckets.errors import ParameterInvalid
from clickcurve.keys import Subject
from dashboard.page.compared import Compared
from dashboard.page.lists.changed import MANY_RANKED, ChangedLink, ChangedLinks
from dashboard.page.lists.rankings import RANKED, Rankings
from dashboard.page.lists.table import LINES, LinkTable, TablePage
from dashboard.page.view import PageView, view_of
from dashboard.questions import Questions
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
    (address,) = re.findall(rf'<a (?:rel="\w+" )?href="([^"]*)"[^>]*>{word}\s*<', page)
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
        table = http.get(address_of(pages[2], "CSV"))
        assert table.text.splitlines()[:2] == ["\ufeffkey,count,before,change", f"k{LINKS - 1},{LINKS},0,{LINKS}"]
        assert re.fullmatch(
            r'attachment; filename="links_[\d-]{10}(_[\d-]{10})?\.csv"', table.headers["content-disposition"]
        )

        by_key = http.get(address_of(pages[0], "Link")).text
        assert names(by_key) == [f"k{n:02}" for n in range(LINES)]
        assert 'aria-sort="ascending"' in by_key and "last=24h" in address_of(by_key, "Next page")
        last = http.get("/links?last=24h&sort=key&after=k73").text
        assert names(last) == ["k74", "old"] and "Next page" not in last
        assert re.search(r"old</bdi></a></span></th><td>.*?</td><td class=\"n\">0</td>", last), "none in this range"
        assert names(http.get(address_of(last, "First page")).text) == names(by_key)
        assert names(http.get(address_of(by_key, "Hits")).text) == names(pages[0])
        assert names(http.get("/links?last=24h&compare=before").text) == names(pages[0])
        csv = http.get(address_of(by_key, "CSV")).text.splitlines()
        assert csv[1:] == [*(f"k{n:02},{n + 1},0,{n + 1}" for n in range(LINKS)), "old,0,0,0"]
        assert (
            http.get("/links.csv?q=K7&last=24h").text
            == csv[0].removeprefix("\ufeff") + "\n" + "\n".join(csv[71:76]) + "\n"
        )
        assert http.get("/links.csv?from=0").text.startswith("key,count\nk74,75\n"), "nothing is before all time"


def test_links_are_sorted_by_their_change_page_by_page(serve: Serve) -> None:
    with http_client(serve().url) as http:
        hits = [{"key": f"k{n:02}", "ts": "2026-10-10", "count": n + 1} for n in range(LINKS)]
        were = [{"key": f"k{n:02}", "ts": "2026-09-10", "count": 40} for n in range(LINKS)]
        gone = {"key": "gone", "ts": "2026-09-10", "count": 1_000}
        http.post("/v1/hits", json=[*hits, *were, gone]).raise_for_status()
        first = http.get("/links?from=2026-10&to=2026-10").text
        pages = [http.get(address_of(first, "Change")).text]
        while "Next page" in pages[-1]:
            pages.append(http.get(address_of(pages[-1], "Next page")).text)
        assert [name for page in pages for name in names(page)] == [
            *(f"k{n:02}" for n in reversed(range(LINKS))),
            "gone",
        ]
        assert "Links that gained most" in pages[0] and 'aria-sort="descending"' in pages[0]
        assert re.search(r'title="40 before, 75 now">↑\xa0\+35<', pages[0])
        assert re.search(r'title="1,000 before, 0 now">↓\xa0\N{MINUS SIGN}1,000<', pages[-1])
        fallen = http.get(address_of(pages[0], "Change")).text
        assert names(fallen) == ["gone", *(f"k{n:02}" for n in range(LINES - 1))] and "sort=-change" in address_of(
            fallen, "CSV"
        )
        assert 'aria-sort="ascending"' in fallen and "not listed" not in fallen
        assert http.get(address_of(fallen, "CSV")).text.splitlines()[:3] == [
            "\ufeffkey,count,before,change",
            "gone,0,1000,-1000",
            "k00,1,40,-39",
        ]
        assert names(http.get(address_of(fallen, "Hits")).text) == names(first)
        assert names(http.get("/links?from=0&sort=change").text)[0] == "gone", "all time has nothing before: by hits"


def test_a_change_that_links_which_are_not_ranked_may_have_is_not_listed() -> None:
    after = LinksAnswer(1, 2, [KeyCount(f"{n:04}", 5_000 - n) for n in range(RANKED)], True)
    before = LinksAnswer(0, 1, [KeyCount("0000", 12), KeyCount("gone", 9_000)], False)
    page = page_of(b"last=7d&sort=change", after, before)
    assert page.links is not None and page.links[0] == KeyCount("0001", 4_999), "0000 had 12 before"
    assert page.changes is not None and page.changes[0].text == "+4,999"
    last = page_of(b"last=7d&sort=change&page=4", after, before)
    assert last.links is not None and last.links[-1].key == f"{MANY_RANKED - 2:04}" and last.following == ""
    assert last.note == (
        "Links that gained 4,901 hits or fewer are not listed. Hours, days or weeks that a range cuts count whole."
    )
    fallen = page_of(b"last=7d&sort=-change", after, before)
    assert fallen.links == [KeyCount("gone", 7)], "it has a total in the range, though it is not ranked there"
    assert fallen.note.startswith("Links that lost 0 hits or fewer are not listed.")


def test_a_range_that_goes_on_is_compared_with_the_same_part_of_the_one_before() -> None:
    after = LinksAnswer(60, 120, [KeyCount("k", 9), KeyCount("new", 1)], True)
    page = page_of(b"last=7d&sort=change", after, LinksAnswer(0, 60, [KeyCount("k", 50)], True), until=30)
    assert page.changes is not None and [each.text for each in page.changes] == ["+2", "\N{MINUS SIGN}6"]
    assert page.changes[0].bounds == "7 before, 9 now", "its total until then, not the 50 hits of the whole period"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30), st.integers(1, 8))
def test_what_is_listed_by_change_no_other_link_can_precede(counts: list[tuple[int, int]], ranked: int) -> None:
    links = [ChangedLink(f"{n}", *both) for n, both in enumerate(counts)]
    seen, most = set(), []
    for count in map(attrgetter, ("count", "before")):
        ranking = sorted(filter(count, links), key=count, reverse=True)[:ranked]
        seen |= set(ranking)
        most.append(count(ranking[-1]) if len(ranking) == ranked else 0)
    changed = ChangedLinks(sorted(seen, key=lambda each: each.key), (most[0], most[1]), True)
    for order, sign in (("change", 1), ("-change", -1)):
        listed = [sign * each.change for each in changed.by_change(order)]
        every = sorted((sign * each.change for each in links if each.count or each.before), reverse=True)
        assert listed == every[: len(listed)], "the first of all links"
        if not any(most):
            assert len(listed) == len(every)


def test_a_search_finds_anywhere_in_a_key_and_says_how_many_hits_of_the_range(serve: Serve) -> None:
    with http_client(serve().url) as http:
        hits = [{"key": key, "count": 3} for key in ("newsletter", "LETTERS", "launch")]
        http.post("/v1/hits", json=[*hits, {"key": "newsletter", "ts": "2026-01-01"}]).raise_for_status()
        found = http.get("/?q=letter&last=7d", follow_redirects=True)
        assert found.url.path == "/links" and names(found.text) == ["LETTERS", "newsletter"]
        assert re.findall(r'<td class="n">(\d+)</td>', found.text) == ["3", "3"]
        assert "No link contains <bdi>zzz</bdi>." in http.get("/links?q=zzz").text


class Answering:
    """Questions that are answered so: links of the range, and of the one before (from 1970); totals of `key`s 7."""

    def __init__(self, answer: LinksAnswer, before: LinksAnswer | None = None) -> None:
        self._answers = answer, before or answer

    async def links(self, query: bytes) -> LinksAnswer:
        answer = self._answers[b"from=1970-01-01" in query]
        if b"sort=key" in query:
            after = answer.after or ("more" if len(answer.links) == RANKED else None)
            return LinksAnswer(None, None, answer.links, True, after)
        return LinksAnswer(answer.start, answer.end, answer.links[: int(query.partition(b"limit=")[2])], answer.exact)

    async def total(self, subject: Subject, query: bytes) -> TotalAnswer:
        return TotalAnswer(subject.name, None, None, 7, 7, 7, True)


def page_of(query: bytes, answer: LinksAnswer, before: LinksAnswer | None = None, until: int = 60) -> TablePage:
    questions = cast(Questions, Answering(answer, before))

    async def asked() -> TablePage:
        table = LinkTable(questions, Rankings(questions.links, lambda: 0.0))
        return await table.page(view_of(query), None if before is None else Compared(0, 60, until))

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


@pytest.mark.parametrize("query", [b"page=0", b"page=35", b"page=x", b"page=\xd9\xa3", b"sort=up", b"page=-1"])
def test_a_page_or_an_order_that_is_not_there_is_refused(query: bytes) -> None:
    with pytest.raises(ParameterInvalid):
        page_of(query, LinksAnswer(None, None, [], True))


def test_another_range_begins_with_the_first_page() -> None:
    view = PageView(page="3", sort="key", last="7d")
    assert view.address(last="30d") == "?last=30d&sort=key"
    assert view.address(tz="Asia/Tokyo") == "?last=7d&tz=Asia%2FTokyo&sort=key&page=3"


def test_a_link_leads_to_its_domain_where_keys_begin_with_hosts(serve: Serve) -> None:
    with http_client(serve("--hosts", "in_key").url) as http:
        counts = {"a.example/x": 5, "a.example/y/z": 7, "b.example/x": 11, "a.example.org/x": 13, "plain": 17, "/w": 1}
        http.post("/v1/hits", json=[{"key": key, "count": count} for key, count in counts.items()]).raise_for_status()
        overview = http.get("/?last=7d").text
        domain_link = '<a href="links?last=7d&amp;prefix=a.example%2F"><bdi>a.example</bdi></a>/'
        assert f'{domain_link}<a href="links/a.example%2Fx?last=7d"><bdi>x</bdi></a>' in overview
        assert re.search(r'"cut"><a href="links/plain\?last=7d"><bdi>plain</bdi></a>', overview), "it has no host"
        assert re.search(r'"cut"><a href="links/%2Fw\?last=7d"><bdi>/w</bdi></a>', overview)
        domain = http.get("/links?last=7d&prefix=a.example%2F").text
        assert names(domain) == ["a.example%2Fy%2Fz", "a.example%2Fx"]
        assert "<h1><bdi>a.example</bdi></h1>" in domain and "12 hits on 2 links." in domain
        top = http.get("/v1/links?last=7d&prefix=a.example/").json()["links"]
        assert sum(each["count"] for each in top) == 12
        assert http.get(address_of(domain, "CSV")).text.splitlines()[1:] == ["a.example/y/z,7,0,7", "a.example/x,5,0,5"]
        assert names(http.get(address_of(domain, "Change")).text) == ["a.example%2Fy%2Fz", "a.example%2Fx"]
        assert names(http.get("/links?last=7d&prefix=a.example%2F&q=Z").text) == ["a.example%2Fy%2Fz"]
        assert names(http.get("/links?last=7d&prefix=a.example%2F&sort=key").text) == names(domain)[::-1]
        link = http.get("/links/a.example%2Fx?last=7d").text
        assert '<a href="../links?last=7d&amp;prefix=a.example%2F"><bdi>a.example</bdi></a>/<bdi>x</bdi></h1>' in link


def test_a_domain_leads_to_its_group_where_there_is_one(serve: Serve) -> None:
    admin = "a" * 40
    settings = {"CLICKCURVE_ADMIN_TOKEN": admin}
    server = serve("--hosts", "in_key", "--group-by-host", "on", settings=settings)
    with http_client(server.url) as http:
        http.headers["Authorization"] = f"Bearer {admin}"
        http.post("/v1/hits", json=[{"key": "a.example/x"}, {"key": "b.example/x"}, {"key": f"{'x' * 65}/x"}])
        others = {}
        for group in ("a.example", "other"):
            asked = {"name": group, "scopes": ["read"], "prefix": "a.example/", "group": group}
            others[group] = http.post("/v1/tokens", json=asked).raise_for_status().json()["token"]
        found = 'href="groups/a.example?last=7d">Curve, visitors and referrers of <bdi>a.example</bdi></a>'
        assert found in http.get("/links?last=7d&prefix=a.example%2F").text
        assert http.get("/groups/a.example?last=7d").status_code == 200
        for prefix in ("", "a.example%2Fx", f"{'x' * 65}%2F", "none.example%2F"):
            assert "Curve, visitors" not in http.get(f"/links?last=7d&prefix={prefix}").text
        for group, token in others.items():
            http.headers["Authorization"] = f"Bearer {token}"
            page = http.get("/links?last=7d&prefix=a.example%2F")
            assert page.status_code == 200
            assert (found in page.text) is (group == "a.example")


def test_without_hosts_in_keys_a_prefix_selects_and_no_domain_is_told_apart(serve: Serve) -> None:
    with http_client(serve().url) as http:
        http.post("/v1/hits", json=[{"key": "a.example/x"}, {"key": "b"}]).raise_for_status()
        page = http.get("/links?prefix=a.").text
        assert names(page) == ["a.example%2Fx"] and "<bdi>a.example/x</bdi>" in page and "<h1>Links</h1>" in page
        assert "1 hit on 1 link." in page and "Starts with: <bdi>a.</bdi>" in page


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
