"""What a reader with a browser meets: Chromium opens real pages of a real server, clicks, drags and presses keys.

With PAGE_SHOTS=FOLDER pictures of all states are left there to be looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import pytest

from server.tokens.token import Scope
from testing.axe import axe_script, violations
from testing.browser import Browser, BrowserFailed, Page
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token
from tests.conftest import Serve
from tests.dashboard.page.conftest import HOSTILE, query
from tests.power import is_long, one_in
from tests.server.commands import said

OWN_OF_BROWSER = ("about:", "data:")  # such as the picture in its field for dates
CURVE = "figure.chart svg"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.page() as opened:
        yield opened
        assert opened.faults() == []


def row_of(page: Page, number: int) -> list[str]:
    """The cells of a line of the first curve's table."""
    cells: list[str] = page.js(
        f"[...document.querySelectorAll('.points tbody tr')[{number}].cells].map((each) => each.textContent.trim())"
    )
    return cells


def keep(page: Page, shots: Path | None, name: str) -> None:
    if shots is not None:
        page.shot(shots / f"{name}.png")


def test_the_first_hit_shows_when_it_lands(page: Page, serve: Serve, shots: Path | None) -> None:
    server = serve()
    page.open(server.url + "/")
    assert f"curl -X POST {server.url}/v1/hits/launch" in page.text()
    keep(page, shots, "first-run")
    page.js("window.same = true")
    with http_client(server.url) as http:
        http.post("/v1/hits/launch").raise_for_status()
    page.until("document.querySelector('figure.chart')")
    assert "launch" in page.text() and page.js("window.same"), "it was not loaded anew"
    keep(page, shots, "first-hit")


def test_numbers_renew_themselves_and_keep_what_is_open_and_focused(page: Page, pages: RunningServer) -> None:
    with http_client(pages.url) as http:
        http.post("/v1/hits/fresh").raise_for_status()
    page.open(f"{pages.url}/links/fresh")
    page.js("document.querySelector('figure details').open = true")
    page.js("document.querySelector('#range summary').focus()")
    with http_client(pages.url) as http:
        http.post("/v1/hits/fresh").raise_for_status()
    page.js("renew()")
    page.until("document.querySelector('.life').innerText.startsWith('2 hits')")
    assert page.js("document.querySelector('figure details').open")
    assert page.js("document.activeElement.innerText") == "Last 30 days"


def test_numbers_that_can_no_longer_be_renewed_say_so_until_they_are(
    browser: Browser, serve: Serve, shots: Path | None
) -> None:
    server = serve()
    with http_client(server.url) as http:
        http.post("/v1/hits/launch").raise_for_status()
    with browser.page() as opened:
        opened.open(f"{server.url}/links/launch")
        assert opened.js("stale.hidden")
        server.stop()
        opened.js("renew()")
        opened.until("!stale.hidden")
        assert "1 hit in total" in opened.text() and "Numbers are of" in opened.text()
        assert violations(opened, axe_script()) == []
        keep(opened, shots, "no-answer")
        server.start()
        opened.js("renew()")
        opened.until("stale.hidden")


def test_without_scripts_all_of_it_is_there(browser: Browser, pages: RunningServer) -> None:
    with browser.page() as with_scripts, browser.page(scripts=False) as without:
        for path in (
            "/",
            "/links/launch",
            "/links/launch?last=24h",
            "/limits",
            "/system",
            "/docs",
            "/help/bots",
            "/links?q=link",
            "/links?sort=change",
            "/compare?key=launch&group=spring",
        ):
            for each in (with_scripts, without):
                each.open(pages.url + path)
            words = [set(each.text().split()) for each in (with_scripts, without)]
            added = words[0] - words[1]
            added = {word for word in added if not re.fullmatch(r"\d\d:\d\d:\d\d", word)}  # when it was made
            assert not {word for word in added if path != "/system" or word.isalpha()}, "numbers of the node go on"
            if path not in ("/system", "/docs", "/help/bots"):
                assert without.js("document.querySelectorAll('svg.curve .bar, svg.curve .open, .links td').length") > 0


# --- the curve ------------------------------------------------------------------------------------------------------
def test_a_pointer_reads_the_curve(page: Page, pages: RunningServer, shots: Path | None) -> None:
    page.open(f"{pages.url}/links/launch")
    left, top, width, height = page.box(CURVE)
    page.mouse("mouseMoved", left + width * 0.45, top + height / 2)
    tip = page.js("document.querySelector('.tip').innerText")
    row = row_of(page, 13)
    assert tip.startswith(f"{row[1]}\n{row[0]}, 3\u00a0%\n") and tip.startswith("10\n")
    assert tip.endswith(f": {row[2]}, now {row[3]}") and row[2:4] == ["10", "0"], "beside the one before"
    keep(page, shots, "hover")
    page.mouse("mouseMoved", 5, 5)
    assert page.js("document.querySelector('.tip').hidden")


def test_dragging_zooms_and_going_back_goes_back(page: Page, pages: RunningServer, shots: Path | None) -> None:
    page.open(f"{pages.url}/links/launch?tz=Europe/Vienna&last=30d")
    left, top, width, height = page.box(CURVE)
    page.mouse("mouseMoved", left + width * 0.22, top + height / 2)
    page.mouse("mousePressed", left + width * 0.22, top + height / 2)
    page.mouse("mouseMoved", left + width * 0.42, top + height / 2)
    picked = page.js("document.querySelector('.tip').innerText")
    first, last = row_of(page, 6)[0], row_of(page, 12)[0]
    assert picked == f"70\n{first} - {last}", "what is picked, added up"
    keep(page, shots, "drag")
    page.mouse("mouseReleased", left + width * 0.42, top + height / 2)
    page.until("location.search.includes('from=')")
    found = query(page)
    assert set(found) == {"from", "to", "tz"}
    days = (int(found["to"][0]) - int(found["from"][0])) / 86_400
    assert 6 <= days <= 8
    page.until("document.querySelectorAll('main figure .points tbody tr').length > 100")  # hours now
    keep(page, shots, "zoomed")
    page.js("history.back()")
    page.until("location.search.includes('last=30d')")
    page.until("document.querySelectorAll('main figure .points tbody tr').length < 80")


def test_a_click_on_a_day_shows_it_and_one_on_minutes_does_not(page: Page, pages: RunningServer) -> None:
    page.open(f"{pages.url}/links/launch")
    page.click(CURVE)
    page.until("location.search.includes('from=')")
    page.until("/\\d hits?, \\d+ \\w+ \\d+$/.test(document.querySelector('figcaption').firstChild.textContent.trim())")
    assert int(query(page)["to"][0]) - int(query(page)["from"][0]) == 86_400
    page.open(f"{pages.url}/links/launch?last=60m")
    page.click(CURVE)
    page.js("new Promise((done) => requestAnimationFrame(done))")
    assert query(page) == {"last": ["60m"]}


def test_keys_read_the_curve_zoom_and_search(page: Page, pages: RunningServer) -> None:
    page.open(f"{pages.url}/?last=30d")
    page.press("/")
    assert page.js("document.activeElement.id") == "q"
    page.js("document.querySelector('.plot').focus()")
    page.press("ArrowRight")
    page.press("ArrowRight")
    shown = page.js("document.getElementById('said').innerText")
    row = row_of(page, 1)
    assert shown.startswith(f"{row[1]}, {row[0]}, 1\u00a0%"), "a screen reader hears the point"
    page.press("Enter")
    page.until("location.search.includes('from=')")
    page.until("document.querySelector('a.out') && !document.querySelector('.at')")
    start = int(query(page)["from"][0])
    page.js("document.querySelector('.plot').focus()")
    page.press("Escape")
    page.until(f"Number(new URLSearchParams(location.search).get('from')) < {start}")


def test_what_is_read_of_a_curve_stays_when_its_numbers_are_renewed(page: Page, pages: RunningServer) -> None:
    page.open(f"{pages.url}/links/launch")
    page.js("document.querySelector('.plot').focus()")
    page.press("ArrowRight")
    page.press("ArrowRight")
    page.js("renew()")
    page.press("ArrowRight")
    shown = page.js("document.getElementById('said').innerText")
    row = row_of(page, 2)
    assert shown.startswith(f"{row[1]}, {row[0]}, 3\u00a0%"), "the third point, not the first again"
    page.js("document.activeElement.blur()")
    left, top, width, height = page.box(CURVE)
    page.mouse("mouseMoved", left + width * 0.45, top + height / 2)
    tips = "[...document.querySelectorAll('.tip')].map((each) => each.hidden ? '' : each.innerText)"
    before = page.js(tips)
    page.js("renew()")
    assert page.js(tips) == before and before[0]


def test_a_search_finds_and_a_link_leads_on(page: Page, pages: RunningServer) -> None:
    page.open(f"{pages.url}/?last=7d")
    page.click("#q")
    page.type_text("link-0")
    page.press("Enter")
    page.until("document.querySelectorAll('table.links tbody tr').length === 10")
    assert query(page)["q"] == ["link-0"] and query(page)["last"] == ["7d"]
    page.click("table.links tbody a")
    page.until("document.querySelector('h1')?.innerText === 'link-00'")
    assert query(page)["last"] == ["7d"], "the range goes along"


def test_the_list_of_zones_is_the_browsers(page: Page, pages: RunningServer) -> None:
    page.open(f"{pages.url}/links/launch")
    page.click("#options summary")
    page.click("input[name=tz]")
    page.until("document.querySelectorAll('#zones option').length > 100")


def test_last_month_from_where_compared_to_the_month_before(
    browser: Browser, pages: RunningServer, http: httpx.Client, shots: Path | None
) -> None:
    """The question that marketing asks first, without scripts too; each number is that of the API."""
    this_month = datetime.now(UTC).date().replace(day=1)
    first = (this_month - timedelta(days=1)).replace(day=1)
    before = (first - timedelta(days=1)).replace(day=1)
    asked, earlier = f"from={first}&to={this_month}", f"from={before}&to={first}"
    with browser.page() as scripted, browser.page(scripts=False) as plain:
        for page in (scripted, plain):
            page.open(f"{pages.url}/groups/spring")
            for name in ("Last month", "Exact dates"):
                found = f"[...document.querySelectorAll('nav.spans a')].find((a) => a.textContent === '{name}').href"
                page.open(page.js(found))
            assert page.js("document.querySelectorAll('svg polyline').length") == 1
            text = re.sub(r"\s+", " ", page.text())
            total = http.get(f"/v1/groups/spring/total?{asked}").json()["total"]
            was = http.get(f"/v1/groups/spring/total?{earlier}").json()
            assert f"{total:,} hits, {first.day} {first:%b} - " in text
            assert f"{was['at_least']:,}" in text if was["exact"] else "about" in text
            for value in http.get(f"/v1/groups/spring/by/ref?{asked}").json()["values"]:
                assert value["at_least"] == value["at_most"]
                assert f"{value['value'] or 'Direct or unknown'} \u2212 {value['at_least']:,}" in text
            assert query(page) == {
                "from": [str(first)],
                "to": [str(this_month - timedelta(days=1))],
                "compare": ["before_exact"],
            }
            assert f"compared with {before.day} {before:%b} - " in text
        assert violations(scripted, axe_script()) == []
        keep(scripted, shots, "compared")
        for page in (scripted, plain):
            page.open(
                page.js("[...document.querySelectorAll('.values a')].find((a) => /^news/.test(a.innerText)).href")
            )
            value = http.get(f"/v1/groups/spring/by/ref/curve?{asked}&step=1w&value=news.example").json()
            text = re.sub(r"\s+", " ", page.text())
            assert f"Referrer news.example: {value['at_least']:,} hits, {first.day} {first:%b} - " in text
            assert value["exact"] and "how often two values come together is not kept" in text
            assert query(page)["value"] == ["news.example"]
        assert violations(scripted, axe_script()) == []
        keep(scripted, shots, "filtered")
        scripted.js("document.querySelector('a.chip').focus()")
        scripted.press("Enter")
        scripted.until("!document.querySelector('a.chip') && document.querySelector('.values a')")
        assert "What changed" in scripted.text(), "why it was more or less than the month before"
        address = share_in_browser(scripted)
    with browser.page() as boss:
        boss.open(address)
        text = re.sub(r"\s+", " ", boss.text())
        assert "spring" in text and f"{total:,} hits, {first.day} {first:%b} - " in text
        assert boss.js("document.querySelectorAll('svg polyline').length") == 1, "compared as it was"
        for value in http.get(f"/v1/groups/spring/by/ref?{asked}").json()["values"]:
            assert f"{value['value'] or 'Direct or unknown'} \u2212 {value['at_least']:,}" in text
        table = boss.js("document.querySelector('a.csv[aria-label=\"CSV of Referrers\"]').href")
        saved = boss.js(f"fetch({json.dumps(table)}).then((answer) => answer.text())")
        assert saved == http.get(f"/v1/groups/spring/by/ref?{asked}&limit=1000&format=csv").text
        assert boss.js("document.querySelectorAll('a[href*=\"v1/\"], header nav').length") == 0, "and nothing else"
        assert violations(boss, axe_script()) == []
        keep(boss, shots, "share-compared")


def share_in_browser(page: Page) -> str:
    """Shares what a page shows, by its button and form, and returns the address."""
    page.click(".act a")
    page.until("document.querySelector('[name=days]')")
    page.click("button[value=share]")
    page.until("document.body?.innerText.includes('Shared until')")
    return str(page.js("[...document.querySelectorAll('.address > pre code')].at(-1).textContent"))


def test_a_browser_that_hangs_is_told_apart_from_one_that_talks(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testing.browser._ANSWER_S", 0.5)
    page.js("setInterval(() => console.log('on and on'), 20)")
    with pytest.raises(BrowserFailed, match=r"no Runtime\.evaluate from the browser within 0\.5 s"):
        page.js("new Promise(() => {})")


# --- readers, screens, strangers --------------------------------------------------------------------------------------
STATES = ("/links?q=zzz", "/?last=wrong", "/none", "/?from=0")


VIEWS = {
    "links": "/",
    "links-compared": "/?last=7d&compare=before",
    "link": "/links/launch?last=12mo",
    "link-filtered": "/links/launch?by=ref&value=news.example&compare=before",
    "group": "/groups/spring?last=7d",
    "bots": "/links/launch?show=bots",
    "visitors": "/links/launch?show=visitors&compare=none",
    "links-drawn": "/?show=links",
    "list": "/links/launch?list=ref&sort=key",
    "table": "/links?compare=before",
    "table-gained": "/links?last=7d&sort=change",
    "table-prefix": "/links?prefix=link-1&sort=key",
    "search": "/links?q=link-1",
    "empty": "/links/none",
    "hostile": f"/links/{quote(HOSTILE[1], safe='')}",
    "right-to-left": f"/links/{quote(HOSTILE[-1], safe='')}",
    "long": f"/links/{'long' * 45}",
    "several": "/compare?key=launch&key=link-00&key=none&group=spring",
    "several-most": f"/compare?last=7d&compare=none&{'&'.join(f'key={quote(key)}' for key in HOSTILE[:6])}",
    "share-form": "/links/launch/share",
    "limits": "/limits",
    "system": "/system",
    "docs": "/docs",
    "help": "/help",
    "help-bounds": "/help/bounds",
    "help-http-api": "/help/http-api",
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing(browser: Browser, pages: RunningServer, dark: bool) -> None:
    script, found = axe_script(), {}
    rules = ("color-contrast",) if dark and not is_long() else ()  # the others are of what both themes have
    with browser.page(dark=dark) as opened:
        for path in (*STATES, *VIEWS.values()):
            opened.open(pages.url + path)
            opened.js("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            if broken := violations(opened, script, *rules):
                found[path] = broken
    assert found == {}


@pytest.mark.parametrize("dark", one_in(2, [False, True]), ids=["light", "dark"])
def test_pages_fit_every_screen(browser: Browser, pages: RunningServer, shots: Path | None, dark: bool) -> None:
    with browser.page(dark=dark) as opened:
        for name, path in VIEWS.items():
            opened.open(pages.url + path)
            for width in (320, 360, 390, 800, 1200, 2560):
                opened.resize(width, 800)
                assert opened.js("document.documentElement.scrollWidth") <= width, (path, width)
                keep(opened, shots, f"{name}-{width}{'-dark' if dark else ''}")


def test_hostile_keys_run_nothing(browser: Browser, pages: RunningServer) -> None:
    in_paths = [f"/links/{quote(key, safe='')}" for key in HOSTILE]
    with browser.page() as opened:
        for path in ("/", *in_paths, *(f"/links?q={quote(key)}" for key in HOSTILE)):
            opened.open(pages.url + path)
            assert opened.js("document.querySelectorAll('img, main script').length") == 0
        assert opened.events("Page.javascriptDialogOpening") == [] and opened.faults() == []
        asked = {urlsplit(url).netloc for url in opened.requested() if not url.startswith(OWN_OF_BROWSER)}
        assert asked == {urlsplit(pages.url).netloc}


def test_the_policy_holds_off_what_would_be_injected(browser: Browser, pages: RunningServer) -> None:
    with browser.page() as opened:
        opened.open(pages.url + "/")
        opened.js("const s = document.createElement('script'); s.textContent = 'ran = 1'; document.body.append(s)")
        opened.js("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 2\">')")
        opened.js("document.body.insertAdjacentHTML('beforeend', '<p id=styled style=\"color: rgb(1, 2, 3)\">')")
        assert opened.js("window.ran") is None
        assert opened.js("getComputedStyle(document.getElementById('styled')).color") != "rgb(1, 2, 3)"


# --- signing in, sharing ----------------------------------------------------------------------------------------------
def test_signing_in_and_out_and_looking_at_a_share(
    browser: Browser, serve: Serve, tmp_path: Path, shots: Path | None
) -> None:
    (tmp_path / "data").mkdir()
    tokens = {scope: add_token(tmp_path / "data" / "tokens.json", scope, (scope,), 0) for scope in Scope}
    server = serve()
    with http_client(server.url) as http:
        sent = {"Authorization": f"Bearer {tokens[Scope.write]}"}
        http.post("/v1/hits/launch", headers=sent).raise_for_status()
    with browser.page() as opened:
        opened.open(f"{server.url}/links/launch?last=7d")
        keep(opened, shots, "login")
        assert violations(opened, axe_script()) == []
        opened.type_text("wrong")
        opened.press("Enter")
        opened.until("document.getElementById('refusal')")
        keep(opened, shots, "login-refused")
        opened.click("input[name=token]")
        opened.type_text(tokens[Scope.read])
        opened.press("Enter")
        opened.until("location.pathname === '/links/launch' && document.querySelector('svg.curve')")
        assert query(opened) == {"last": ["7d"]}
        assert opened.js("document.cookie") == "", "no script sees it"
        assert opened.js("fetch('../v1/hits/launch', {method: 'POST'}).then((answer) => answer.status)") == 401
        opened.click("header form button")
        opened.until("location.pathname === '/login'")
    address = share(server)
    with browser.page() as opened:
        opened.open(address)
        assert "launch" in opened.text() and "System" not in opened.text()
        opened.js("document.querySelector('[aria-keyshortcuts=R]').click()")
        opened.until("location.search === '?last=60m' && document.querySelector('svg.curve')")
        assert violations(opened, axe_script()) == []
        keep(opened, shots, "share")


def share(server: RunningServer) -> str:
    return said("share", "launch", "--data", str(server.data), "--url", server.url).strip()
