"""What came of clicks on the page: cards, charts of counts and values, columns of lists; and on shares."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import httpx
import pytest

from testing.axe import axe_script, violations
from testing.browser import Browser
from testing.client import http_client
from testing.server import RunningServer
from tests.dashboard.page.conftest import DAY_S
from tests.server.commands import said

SETTINGS = """[breakdown]
dimensions = ["ref", "channel"]
[events]
names = ["lead", "sale"]
[events.sale]
unit = "EUR"
decimals = 2
"""


VIEWS = {
    "all": "/?last=7d",
    "link": "/links/launch?last=7d&show=value:sale",
    "table": "/links?last=7d",
    "values": "/?last=7d&list=ref",
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """100 clicks and 4 sales of 49.90 EUR by one site, 50 clicks and a lead by another; 2 sales the week before."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "settings.toml").write_text(SETTINGS)
    now = int(time.time())
    sale = {"key": "launch", "event": "sale", "value": 4990, "ref": "news.example"}
    with RunningServer(folder / "data", "--config", str(folder / "settings.toml")) as server:
        with http_client(server.url) as http:
            hits = [
                {"key": "launch", "ts": now - 60, "count": 100, "ref": "news.example"},
                {"key": "other", "ts": now - 60, "count": 50, "ref": "forum.example"},
                {"key": "launch", "ts": now - 9 * DAY_S, "count": 80, "ref": "news.example"},
                {**sale, "ts": now - 60, "count": 4},
                {**sale, "ts": now - 9 * DAY_S, "count": 2},
                {"key": "other", "ts": now - 60, "event": "lead", "ref": "forum.example"},
            ]
            http.post("/v1/hits", json=hits).raise_for_status()
        yield server


@pytest.fixture
def http(shop: RunningServer) -> Iterator[httpx.Client]:
    with http_client(shop.url) as client:
        yield client


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).replace("\u00a0", " ").split())


def card(http: httpx.Client, path: str, name: str) -> str:
    cards = re.findall(r"<li[^>]*>(?:(?!</li>).)*</li>", http.get(path).text, re.S)
    (found,) = [words(each) for each in cards if f'class="name">{name}<' in each]
    return found.removesuffix(" ?")  # which leads to the manual


@pytest.mark.parametrize("path", ["/?last=7d", "/links/launch?last=7d"])
def test_a_card_has_count_change_value_and_rate(http: httpx.Client, path: str) -> None:
    rate = "2.7 % of hits" if path.startswith("/?") else "4 % of hits"
    assert card(http, path, "Sales") == f"Sales 4 ↑ +100 % 199.60 EUR, {rate}"


def test_an_event_that_did_not_come_is_said_too(http: httpx.Client) -> None:
    assert card(http, "/links/launch?last=7d", "Leads") == "Leads 0 0 % of hits"
    assert card(http, "/links/other?last=7d", "Leads") == "Leads 1 2 % of hits"


def test_a_filter_narrows_the_events_too(http: httpx.Client) -> None:
    assert card(http, "/?last=7d&by=ref&value=news.example", "Sales").startswith("Sales 4 ↑ +100 % 199.60 EUR, 4 %")
    assert card(http, "/?last=7d&by=ref&value=forum.example", "Sales").startswith("Sales 0")


def test_the_chart_draws_an_event_and_the_sum_of_its_values(http: httpx.Client) -> None:
    counted = http.get("/links/launch?last=7d&step=1d&show=event:sale").text
    assert "4 sales," in counted and "event=sale" in counted and 'aria-label="Table of sales"' in counted
    assert 'href="?last=7d&amp;step=1d&amp;show=value%3Asale"' in counted
    value = http.get("/links/launch?last=7d&step=1d&show=value:sale").text
    assert "199.60 EUR of sales," in value and "<td>199.60 EUR" in value and "measure=value" in value
    (csv,) = re.findall(r'href="([^"]*/curve\?[^"]*measure=value)"', value)
    rows = http.get("/links/" + csv.replace("&amp;", "&")).text.splitlines()
    assert rows[-1].split(",")[2] == "19960", "the same in the smallest unit"


def lines(page: str, table: str) -> list[list[str]]:
    """The words of each cell of the first table of a kind, its head first."""
    (html, *_) = re.findall(rf'<table class="{table}".*?</table>', page, re.S)
    rows = re.findall(r"<tr.*?</tr>", html, re.S)
    return [[words(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.S)] for row in rows]


def test_the_first_page_lists_what_came_of_the_clicks_of_each_link(http: httpx.Client) -> None:
    head, first, second = lines(http.get("/?last=7d").text, "links")
    assert head[-2:] == ["Leads", "Sales"]
    assert (first[0], first[-2:]) == ("launch", ["0", "4"])
    assert (second[0], second[-2:]) == ("other", ["1", "0"])


def test_events_that_did_not_come_have_no_column(http: httpx.Client) -> None:
    head = lines(http.get("/links?last=14d&sort=key&prefix=launch").text, "links")[0]
    assert "Sales" in head and "Leads" not in head


def test_the_table_of_links_sorts_by_an_event_and_by_the_sum_of_its_values(http: httpx.Client) -> None:
    page = http.get("/links?last=7d").text
    assert lines(page, "links")[0][-3:] == ["Leads", "Sales", "Value of sales"]
    assert lines(page, "links")[1][-3:] == ["0", "4", "199.60 EUR"]
    by_lead = http.get("/links?last=7d&sort=event:lead").text
    assert "Links by leads" in by_lead and 'aria-sort="descending">Leads' in by_lead
    assert [(row[0], row[2]) for row in lines(by_lead, "links")[1:]] == [("other", "50")], "its hits, not its leads"
    ever = http.get("/links?from=0&sort=value:sale").text
    assert "Links by value of sales" in ever
    assert [(row[0], row[2], row[-1]) for row in lines(ever, "links")[1:]] == [("launch", "180", "299.40 EUR")]
    csv = http.get("/links.csv?last=7d&sort=value:sale").text.split()
    assert csv == ["key,count,sale_value", "launch,100,19960"]


def test_a_whole_list_of_values_says_what_came_and_sorts_by_it(http: httpx.Client) -> None:
    page = http.get("/?last=7d&list=ref").text
    assert lines(page, "values")[0][-3:] == ["Leads", "Sales", "Value of sales"]
    found = lines(http.get("/?last=7d&list=ref&sort=event:lead").text, "values")
    assert [(row[0].split()[0], row[-3:]) for row in found[1:]] == [
        ("forum.example", ["1", "0", ""]),
        ("news.example", ["0", "4", "199.60 EUR"]),
    ]
    assert "Leads" not in lines(http.get("/?last=7d").text, "values")[0]


def test_nothing_is_sorted_by_an_event_that_is_not_counted(http: httpx.Client) -> None:
    for path in ("/links?sort=event:cats", "/?list=ref&sort=value:cats"):
        answer = http.get(path)
        assert answer.status_code == 422 and "event:lead" in answer.text


def test_an_event_that_is_not_counted_is_refused(http: httpx.Client) -> None:
    answer = http.get("/links/launch?show=event:cats")
    assert answer.status_code == 422 and "event:lead" in answer.text


def test_shares_show_and_answer_clicks_alone(shop: RunningServer, http: httpx.Client) -> None:
    address = said("share", "launch", "--data", str(shop.data), "--url", shop.url).strip().removeprefix(shop.url)
    page = http.get(f"{address}?last=7d")
    assert page.status_code == 200 and "Sales" not in page.text and "EUR" not in page.text
    assert http.get(f"{address}?show=event:sale").status_code == 422
    for path in ("curve.svg", "curve", "by/ref", "badge.svg"):
        answer = http.get(f"{address}/{path}?last=7d&event=sale")
        assert answer.status_code == 422 and "event" in answer.text, path


def test_a_share_made_for_them_shows_and_answers_events(shop: RunningServer, http: httpx.Client) -> None:
    made = said("share", "launch", "--events", "--data", str(shop.data), "--url", shop.url)
    address = made.strip().removeprefix(shop.url)
    assert card(http, f"{address}?last=7d", "Sales") == "Sales 4 ↑ +100 % 199.60 EUR, 4 % of hits"
    (csv,) = re.findall(r'href="([^"]*/curve\?[^"]*measure=value)"', http.get(f"{address}?show=value:sale").text)
    assert csv.startswith("../share/")
    assert http.get(f"/share/{csv.replace('&amp;', '&')}").status_code == 200
    for path in ("curve.svg", "curve", "by/ref", "badge.svg"):
        assert http.get(f"{address}/{path}?last=7d&event=sale&measure=value").status_code == 200, path
    assert http.get(f"{address}/curve.svg?notes=true").status_code == 422, "notes are of the house"
    (listed,) = [line for line in said("share", "list", "--data", str(shop.data)).splitlines() if line[:12] in address]
    assert listed.split(maxsplit=3)[2] == "events"


def test_the_form_shares_events_where_that_is_ticked(http: httpx.Client) -> None:
    path = "/links/other/share?last=7d&show=event:lead"
    assert "Also show Leads, Sales, with rates and values" in http.get(path).text
    ticked = http.post(path, data={"do": "share", "days": "2", "events": "1"}).raise_for_status().text
    assert ", with events</h3>" in ticked and "curve.svg?last=7d&event=lead" in unescape(unescape(ticked))
    plain = http.post(path, data={"do": "share", "days": "2"}).raise_for_status().text
    addresses = re.findall(r"</span>(/share/[\w.-]+)[<?]", plain)
    assert len(addresses) == 2
    assert sorted(http.get(f"{each}/curve?event=lead").status_code for each in addresses) == [200, 422]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_in_a_browser(browser: Browser, shop: RunningServer, shots: Path | None, dark: bool) -> None:
    script = axe_script()
    with browser.page(1280, 800, dark=dark) as opened:
        for name, path in VIEWS.items():
            opened.open(shop.url + path)
            assert violations(opened, script) == []
            for width in (360, 1280, 2560):
                opened.resize(width, 800)
                assert opened.js("document.documentElement.scrollWidth") <= width, (path, width)
                if shots is not None:
                    opened.shot(shots / f"events-{name}-{width}{'-dark' if dark else ''}.png")
        assert opened.faults() == []


def test_the_tooltip_reads_amounts(browser: Browser, shop: RunningServer) -> None:
    with browser.page(1280, 800) as opened:
        opened.open(f"{shop.url}/links/launch?last=7d&step=1d&show=value:sale")
        opened.js("document.querySelector('.plot').focus()")
        opened.press("End")
        assert opened.js("document.querySelector('.tip').innerText").startswith("199.60 EUR")
        assert "100" in opened.js("document.querySelector('.tip').innerText"), "all of the range"
