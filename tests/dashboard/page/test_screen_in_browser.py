"""The first screen in a browser: the menu of ranges and its keys, tabs, the map, the cards, and an empty server."""

from __future__ import annotations

import time

import pytest

from testing.axe import axe_script, violations
from testing.browser import Browser, Page
from testing.client import http_client
from testing.server import RunningServer
from tests.conftest import Serve
from tests.dashboard.page.conftest import query

RANGE = "document.querySelector('#range summary').innerText"


def test_a_key_chooses_a_range_and_the_page_stays(page: Page, pages: RunningServer) -> None:
    page.open(f"{pages.url}/?tz=Europe/Vienna")
    assert page.js(RANGE) == "Last 30 days"
    page.js("window.same = true")
    page.press("w")
    page.until(f"{RANGE} === 'Last 7 days'")
    assert query(page) == {"last": ["7d"], "tz": ["Europe/Vienna"]}
    page.press("ArrowLeft")
    page.until("document.querySelector('.step[rel=next]')")
    assert set(query(page)) == {"from", "to", "tz"}
    page.press("ArrowRight")
    page.until(f"{RANGE} !== 'Last 7 days' && !document.querySelector('.step[rel=next]')")
    assert page.js("window.same"), "nothing was loaded anew"
    page.press("/")
    page.type_text("w")
    assert page.js("document.getElementById('q').value") == "w", "a field takes its letters"


def test_the_menu_opens_by_keys_and_closes_by_escape_and_elsewhere(page: Page, pages: RunningServer) -> None:
    page.open(f"{pages.url}/links/launch")
    page.press("c")
    assert page.js("document.activeElement.name") == "from" and page.js("document.querySelector('#range').open")
    page.press("Escape")
    assert not page.js("document.querySelector('#range').open")
    assert page.js("document.activeElement.innerText") == "Last 30 days"
    page.press("x")
    assert page.js("document.activeElement.innerText") == "Period before"
    page.click("h1")
    assert not page.js("document.querySelector('#range').open")
    page.press("x")
    page.js("document.activeElement.closest('ul').querySelector('li:last-child a').click()")
    page.until("location.search === '?compare=none' && !document.querySelector('svg.curve polyline')")
    page.js("document.querySelector('#range').open = true")
    page.js("document.querySelector('#range [name=from]').value = '2026-01-01'")
    page.click("#range form button")
    page.until("location.search.startsWith('?compare=none&from=2026-01-01&to=')")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "none"])
def test_cards_are_the_tabs_of_the_chart(browser: Browser, pages: RunningServer, scripts: bool) -> None:
    with browser.page(1280, 800, scripts=scripts) as opened:
        opened.open(f"{pages.url}/links/launch")
        for name, said in (("Bots", "bot hits,"), ("Daily visitors", "daily visitors,"), ("Hits", "hits,")):
            found = f"[...document.querySelectorAll('.cards a')].find((a) => a.innerText.startsWith('{name}'))"
            if scripts:
                opened.js(f"{found}.click()")
                opened.until(f"document.querySelector('.chosen .name')?.innerText === '{name}'")
            else:
                opened.open(opened.js(f"{found}.href"))
            assert opened.js("document.querySelector('.chosen .name').innerText") == name
            assert said in opened.js("document.querySelector('figcaption').innerText")
        assert opened.js("document.querySelectorAll('figure.chart').length") == 1


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "none"])
def test_tabs_change_without_a_script_and_stay_when_numbers_are_renewed(
    browser: Browser, pages: RunningServer, scripts: bool
) -> None:
    with browser.page(1280, 800, scripts=scripts) as opened:
        opened.open(f"{pages.url}/")
        shown = "getComputedStyle(document.querySelector('.pane[aria-label=Groups]')).display"
        assert opened.js(shown) == "none"
        opened.click("label[for=tab-groups]")
        assert opened.js(shown) == "flex" and "spring" in opened.text()
        if scripts:
            opened.js("renew()")
            assert opened.js(shown) == "flex"
            opened.click(".cards li:nth-child(3) a")
            opened.until(
                "location.search === '?show=bots' && document.querySelector('.chosen .name').innerText === 'Bots'"
            )
            assert opened.js(shown) == "flex", "also when another curve is drawn"


def test_the_map_is_drawn_from_its_file_and_a_country_filters(page: Page, pages: RunningServer) -> None:
    page.open(f"{pages.url}/links/launch")
    drawn = "[...document.querySelectorAll('.world use')].map((each) => each.getBBox().width > 0)"
    page.until(f"{drawn}.every(Boolean)")
    assert page.js(f"{drawn}.length") == 2, "the world, and Austria"
    assert "Austria" in page.js("document.querySelector('.world a title').textContent")
    page.click(".world a")
    page.until("document.querySelector('a.chip')")
    assert query(page) == {"by": ["country"], "value": ["AT"]}
    assert "Country: Austria" in page.text()


def test_an_empty_server_says_where_to_send_and_shows_the_first_hit(browser: Browser, serve: Serve) -> None:
    server = serve()
    with browser.page(390, 800) as opened:
        opened.open(f"{server.url}/")
        assert f"{server.url}/v1/hits" in opened.text()
        for tab in ("nginx", "python", "javascript", "php", "shlink", "yourls", "curl"):
            opened.click(f"label[for=tab-{tab}]")
            pane = opened.js(
                "[...document.querySelectorAll('.pane')].find((e) => e.offsetHeight).querySelector('pre').innerText"
            )
            assert server.url in pane, tab
            assert opened.js("document.documentElement.scrollWidth") <= 390
        assert opened.js("document.querySelectorAll('[data-copy] button').length") == 8
        opened.click("label[for=tab-shlink]")
        assert violations(opened, axe_script()) == []
        opened.js("renew()")
        assert opened.js("document.getElementById('tab-shlink').checked"), "waiting moves nothing"
        with http_client(server.url) as http:
            http.post("/v1/hits/launch").raise_for_status()
        opened.until("document.querySelector('figure.chart')")
        assert "1 hit in the last 5 minutes" in opened.text()
        assert opened.faults() == []


def test_the_first_screen_answers_without_scrolling(page: Page, pages: RunningServer) -> None:
    """Which range, how it compares, what changed, and where from: all within 1280 x 800 pixels."""
    page.open(f"{pages.url}/groups/spring?last=28d")
    for selector in ("#range summary", ".cards", "figure.chart svg", "table.values tbody tr:nth-child(3)"):
        bottom = page.js(f"document.querySelector('{selector}').getBoundingClientRect().bottom")
        assert 0 < bottom <= 800, selector


@pytest.mark.parametrize("width", [700, 1280, 1920, 2560])
def test_no_column_is_empty_at_any_width(page: Page, pages: RunningServer, width: int) -> None:
    page.resize(width, 900)
    for path in ("/", "/links/launch", "/?list=country", "/links/link-01"):
        page.open(f"{pages.url}{path}")
        box = "getBoundingClientRect().toJSON()"
        panels = page.js(f"[...document.querySelectorAll('.columns .panel')].map((each) => each.{box})")
        columns = page.js(f"document.querySelector('.columns').{box}")
        for side, outermost in (("left", min), ("right", max)):
            ends = outermost((each[side] for each in panels), default=columns[side])
            assert ends == pytest.approx(columns[side], abs=1), (path, side)


def test_on_paper_all_tabs_stand_and_nothing_to_press(page: Page, pages: RunningServer) -> None:
    page.call("Emulation.setEmulatedMedia", media="print")
    page.open(f"{pages.url}/groups/spring?last=28d")
    page.until("document.querySelector('figure.chart svg')")
    shown = "getBoundingClientRect().height > 0"
    assert page.js(
        f"[...document.querySelectorAll('.cards, figure.chart, .tabbed > .pane')].every((each) => each.{shown})"
    )
    pressed = "header, .spans, .search, .under, .tabbed > label"
    assert not page.js(f"[...document.querySelectorAll('{pressed}')].some((each) => each.{shown})")


def test_bounds_are_read_added_up_and_lead_to_their_points(page: Page, serve: Serve) -> None:
    """Two days of five have more values than are kept."""
    now = int(time.time())
    with http_client((server := serve()).url) as http:
        for day in range(1, 6):
            rare = [{"key": "k", "ts": now - day * 86_400, "ref": f"s{n}.example"} for n in range(400 * (day < 3))]
            hits = [*rare, {"key": "k", "ts": now - day * 86_400, "count": 50, "ref": "news.example"}]
            http.post("/v1/hits", json=hits).raise_for_status()
    page.open(f"{server.url}/links/k?last=6d&step=1d")
    page.js("document.querySelector('.values a[href$=\"value=news.example#bounds\"]').click()")
    page.until("location.search.includes('by=ref') && document.querySelector('#bounds')")
    assert page.js("document.querySelectorAll('#bounds a:not(.help)').length") == 2
    bounds = page.js("document.querySelector('#bounds b').textContent.replace(':', '')")
    assert bounds == "250 to 252"
    page.js("scrollTo(0, 0)")
    left, top, width, height = page.box("figure.chart svg")

    def at(event: str, day: int) -> str:
        page.mouse(event, left + width * (day + 0.5) / 6, top + height / 2)
        return str(page.js("document.querySelector('.tip').innerText"))

    assert at("mouseMoved", 0).startswith("50\n")
    read = at("mouseMoved", 4)
    assert read.startswith("50 to 51\n") and "%" not in read
    at("mousePressed", 4)
    assert at("mouseMoved", 0).startswith("250 to 252\n")
    page.js("document.querySelector('#bounds a').click()")
    page.until("document.querySelector('#bounds b')?.textContent === '50 to 51:'")
