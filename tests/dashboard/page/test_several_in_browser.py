"""Several links and groups on one chart in a browser: ticked in a list, read by the pointer and by keys."""

from __future__ import annotations

import pytest

from testing.browser import Browser, Page
from testing.client import http_client
from testing.server import RunningServer
from tests.conftest import Serve
from tests.dashboard.page.conftest import query

TIP = "[...document.querySelector('.tip').childNodes].map((each) => each.textContent.trim())"


SENT = "'compare?' + new URLSearchParams(new FormData(document.getElementById('compare')))"


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "none"])
def test_what_is_ticked_is_drawn_and_a_seventh_is_refused(
    browser: Browser, pages: RunningServer, scripts: bool
) -> None:
    with browser.page(1280, 800, scripts=scripts) as opened:

        def compare(ticked: list[str], shown: str) -> None:
            for name in ticked:
                opened.click(f".tick[value={name}]")
            if scripts:
                opened.click("button[form=compare]")
                opened.until(shown)
            else:  # nothing can be waited for in such a page: what the button sends
                opened.open(f"{pages.url}/{opened.js(SENT)}")
                assert opened.js(shown)

        opened.open(f"{pages.url}/links?last=7d&q=link-")
        compare(["link-02", "link-05"], "document.querySelectorAll('svg.curve polyline').length === 2")
        assert query(opened) == {"last": ["7d"], "key": ["link-02", "link-05"]}
        drawn = opened.js("[...document.querySelectorAll('.drawn bdi')].map((each) => each.innerText)")
        assert drawn == ["link-02", "link-05"]
        opened.open(f"{pages.url}/links?q=link-")
        compare(
            [f"link-0{number}" for number in range(7)],
            "document.querySelector('h1')?.innerText === 'Invalid parameter'",
        )
        assert "'link-06' is one too many" in opened.text() and "Rule: 1 to 6 links and groups" in opened.text()


def test_one_is_added_by_its_name_and_taken_away_again(page: Page, pages: RunningServer) -> None:
    page.open(f"{pages.url}/compare?key=launch&last=7d")
    page.click(".add input[name=group]")
    page.type_text("spring")
    page.press("Enter")
    page.until("document.querySelectorAll('svg.curve polyline').length === 2")
    assert {name: values for name, values in query(page).items() if values != [""]} == {
        "last": ["7d"], "key": ["launch"], "group": ["spring"],
    }  # fmt: skip
    page.js("window.same = true")
    page.click(".drawn tr:first-child td:last-child a")
    page.until("document.querySelectorAll('svg.curve polyline').length === 1")
    assert query(page) == {"last": ["7d"], "group": ["spring"]} and page.js("window.same"), "in place"


def test_the_pointer_and_the_keys_read_all_lines_and_zoom(page: Page, pages: RunningServer) -> None:
    page.open(f"{pages.url}/compare?key=launch&group=spring&last=7d&step=1d")
    page.js("document.querySelector('.plot').focus()")
    page.press("ArrowRight")
    when, *lines = page.js(TIP)
    assert lines == ["1: launch: 10", "2: group spring: 10"] and "2026" in when
    assert "launch: 10" in page.js("document.getElementById('said').textContent")
    assert page.js("document.querySelector('.tip').getBoundingClientRect().right <= innerWidth")
    page.press("End")
    assert "still counting" in page.js(TIP)[0]
    left, top, width, height = page.box("figure.chart svg")
    page.mouse("mouseMoved", left + 3, top + height / 2)
    page.mouse("mousePressed", left + 3, top + height / 2)
    page.mouse("mouseMoved", left + width * 2.5 / 7, top + height / 2)
    when, *lines = page.js(TIP)
    assert lines == ["1: launch: 30", "2: group spring: 30"] and " - " in when, (
        "the part that is drawn over is added up"
    )
    page.mouse("mouseReleased", left + width * 2.5 / 7, top + height / 2)
    page.until("location.search.includes('from=')")
    assert query(page)["key"] == ["launch"] and query(page)["group"] == ["spring"]


def test_a_range_of_the_menu_keeps_the_lines(page: Page, pages: RunningServer) -> None:
    page.open(f"{pages.url}/compare?key=launch&group=spring")
    page.press("w")
    page.until("document.querySelector('#range summary').innerText === 'Last 7 days'")
    assert query(page) == {"last": ["7d"], "key": ["launch"], "group": ["spring"]}
    page.js("document.querySelector('#options').open = true")
    page.js("document.querySelector('#options select[name=step]').value = '1d'")
    page.click("#options button")
    page.until("location.search.includes('step=1d')")
    assert query(page) == {"last": ["7d"], "step": ["1d"], "key": ["launch"], "group": ["spring"]}


def test_what_is_ticked_stays_when_numbers_are_renewed(page: Page, serve: Serve) -> None:
    server = serve()
    with http_client(server.url) as http:
        http.post("/v1/hits", json=[{"key": "a"}, {"key": "b"}]).raise_for_status()
        page.open(f"{server.url}/links")
        page.click(".tick[value=a]")
        http.post("/v1/hits", json=[{"key": "b", "count": 3}]).raise_for_status()
        page.js("renew()")
        page.until("document.querySelector('#list td.n').innerText === '4'")
        assert page.js("[...document.querySelectorAll('.tick:checked')].map((each) => each.value)") == ["a"]
