"""Pages as they are sent: whole without a script, with every stranger's text as text, and nothing from elsewhere."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from urllib.parse import quote

import httpx
import pytest

from testing.client import http_client
from testing.server import RunningServer
from tests.conftest import Serve
from tests.dashboard.page.conftest import EVIL, HOSTILE, a_year

EVERY = (
    "/",
    "/links?q=link",
    "/links?sort=key",
    "/links/launch",
    "/links/unknown",
    "/groups/spring",
    "/compare?key=launch&group=spring",
    "/limits",
    "/system",
    "/docs",
    "/?last=wrong",
    "/share/x",
)


class Found(HTMLParser):
    """Tags with their attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))


@pytest.mark.parametrize("path", EVERY)
def test_a_page_is_html_under_a_strict_policy(http: httpx.Client, path: str) -> None:
    answer = http.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "img-src", "connect-src", "form-action")} == {"'self'"}
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("path", EVERY)
def test_nothing_comes_from_elsewhere_and_nothing_is_inline(http: httpx.Client, path: str) -> None:
    answer = Found(http.get(path).text)
    for tag, attributes in answer.tags:
        for name in ("src", "href", "action"):
            # Relative, so that it works below a path of a proxy too.
            assert not re.match(r"(?i)\s*([a-z]+:|/)", attributes.get(name) or ""), (tag, attributes)
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        assert tag != "style" and (tag != "script" or attributes.get("src"))


SMALL_BYTES = 40_000
SMALL = (
    "/?last=24h", "/?last=12mo", "/?compare=before", "/links/launch?last=14d", "/links/launch?last=48h",
    "/links/launch?last=24h&step=1m", "/groups/spring?last=92d", "/links/launch?by=ref&value=", "/limits?last=48h",
    "/links", "/links?last=12mo&sort=key&compare=before",
    "/links?sort=change", "/links/launch/share",
    "/compare?last=14d&group=spring&key=launch&key=link-00&key=link-01&key=link-02&key=link-03",
)  # fmt: skip


def test_a_page_is_small(serve: Serve) -> None:
    """With its stylesheet, script and map, compressed as browsers ask for it; the largest table has 336 lines."""
    now = int(time.time())
    traffic: list[dict[str, object]] = [*a_year(now)]
    for hour in range(24 * 14):
        hit = {"ts": now - hour * 3_600, "count": 1_000 + hour * 7 % 997, "ref": f"site-{hour % 50}.example"}
        traffic += [{"key": key, "groups": ["spring"], **hit} for key in ("launch", f"link-{hour % 30:02d}")]
        traffic.append({"key": "launch", "bot": True, **hit})
    with http_client(serve().url) as http:
        http.post("/v1/hits", json=traffic).raise_for_status()
        names = ("page.css", "page.js", "icon.svg", "world.svg")
        files = [http.get(f"/static/{name}") for name in names]
        sent = {}
        for path in SMALL:
            page = http.get(path)
            assert page.headers["content-encoding"] == "gzip"
            sent[path] = sum(int(answer.headers["content-length"]) for answer in (page, *files))
    assert {path: size for path, size in sent.items() if size >= SMALL_BYTES} == {}


def test_files_of_a_page_are_kept_and_compressed_where_a_browser_takes_that(http: httpx.Client) -> None:
    files = [http.get(path) for path in ("/static/page.css", "/static/page.js", "/static/icon.svg")]
    plain = http.get("/", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.text.startswith("<!doctype html>")
    assert "immutable" in files[0].headers["cache-control"]
    missing = http.get("/static/nothing.css")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")


# --- what stands on pages -------------------------------------------------------------------------------------------
def test_all_links_are_totals_beside_the_period_before_a_curve_and_a_ranking(
    pages: RunningServer, http: httpx.Client
) -> None:
    page = Found(http.get("/").text)
    total = http.get("/v1/total?last=30d").json()["total"]
    assert f"{total:,} hits, " in page.text
    for words in ("Today", "Yesterday", "7 days", "30 days", "This month", "Last month", "This year", "All", "Custom"):
        assert words in page.text
    ranked = [link["key"] for link in http.get("/v1/links?last=30d&limit=10").json()["links"]]

    def shows_them() -> bool:
        tags = Found(http.get("/").text).tags
        shown = [each["href"] for tag, each in tags if tag == "a" and (each.get("href") or "").startswith("links/")]
        listed = [f"links/{quote(key, safe='')}?" for key in ranked if key not in DOTS]
        return shown[: len(listed)] == listed  # what changed names some of them again

    pages.wait_until(shows_them)  # an earlier ranking serves for twenty times as long as it took
    page = Found(http.get("/").text)
    assert page.text.count("spark") == 0 and sum(each.get("class") == "spark" for _, each in page.tags) >= len(ranked)


DOTS = (".", "..")


def test_a_link_that_no_browser_can_ask_for_is_shown_without_a_link(http: httpx.Client) -> None:
    """Browsers take dots out of a path, as steps, also percent-encoded ones."""
    http.post("/v1/hits", json=[{"key": key, "groups": [key]} for key in DOTS]).raise_for_status()
    page = Found(http.get("/links?q=.").text)
    assert {text for text in page.texts if text in DOTS} == {*DOTS}
    assert not [
        each
        for tag, each in page.tags
        if tag == "a" and re.match(r"(links|groups)/([?.]|%2E|$)", each.get("href") or "")
    ]
    assert not re.search(r'href="(links|groups)/[?"]', http.get("/").text)
    assert "1 hit in total" in Found(http.get("/links/%2E").text).text, "for other programs"


def test_rankings_and_cards_are_of_the_range_that_is_shown(http: httpx.Client) -> None:
    day = datetime.now(UTC).date() - timedelta(days=40)
    first, last = day - timedelta(days=9), day
    asked = f"from={first}&to={last + timedelta(days=1)}"
    page = Found(http.get(f"/?from={first}&to={last}").text)
    links = http.get(f"/v1/links?{asked}").json()["links"]
    assert [link["key"] for link in links] == ["launch"]
    shown = [each["href"] for tag, each in page.tags if tag == "a" and (each.get("href") or "").startswith("links/")]
    assert set(shown) == {f"links/launch?from={first}&to={last}"}
    total = http.get(f"/v1/total?{asked}").json()["total"]
    before = http.get(f"/v1/total?{asked}&compare=before").json()["before"]["total"]
    bots = http.get(f"/v1/total?{asked}&bots=only").json()["total"]
    assert f"Hits {total} 0" in page.text and f"{before} before" in page.text and "compared with " in page.text
    assert f"Bots {bots} 0 % 17 % of all, not counted as hits" in page.text.replace("\xa0", " ")
    assert page.text.count("in total") == 0, "no number of all time beside those of a range"


def test_numbers_of_a_curve_are_a_table(http: httpx.Client) -> None:
    points = http.get("/v1/links/launch/curve?last=30d").json()["points"]
    line = r"<tr><td>(?:<a [^>]*>)?([^<]*)(?:</a>)?<td>([\d,]+)(?:<td [^>]*>[^<]*<td>[^<]*)?<td>(\w+)"
    rows = re.findall(line, http.get("/links/launch").text)
    days = [datetime.fromtimestamp(each["start"], UTC) for each in points]
    people = [
        (f"{day:%a} {day.day} {day:%b} {day.year}", f"{each['count']:,}", each["state"])
        for day, each in zip(days, points, strict=True)
    ]
    assert rows[: len(people)] == people


def test_a_link_shows_its_life_and_its_bots_apart(http: httpx.Client) -> None:
    page = Found(http.get("/links/launch").text)
    assert "4,000 hits in total" in page.text.replace(" ,", ",") and "800 bot hits not counted" in page.text
    assert "Bots 60 " in page.text
    assert "60 bot hits, " in Found(http.get("/links/launch?show=bots").text).text
    assert "Bots 60" not in Found(http.get("/links/launch?bots=include").text).text
    assert "No hits on this link yet" in Found(http.get("/links/unknown").text).text


def test_a_group_has_a_page_as_a_link_has(http: httpx.Client) -> None:
    page = Found(http.get("/groups/spring").text)
    assert "Group spring" in page.text and "4,000 hits in total" in page.text and "Referrers" in page.text
    assert "groups/spring?" in [each.get("href") for _, each in Found(http.get("/").text).tags], "and is listed"
    assert http.get(f"/groups/{'x' * 65}").status_code == 422


def test_what_hits_said_is_in_tables_and_visitors_are_visitor_days(http: httpx.Client) -> None:
    answer = http.get("/links/launch?last=30d")
    page = Found(answer.text)
    for words in ("Referrers", "Direct or unknown", "Countries", "Austria", "Devices", "phone", "Daily visitors"):
        assert words in page.text, words
    said = http.get("/v1/links/launch/by/country?last=30d").json()["values"]
    assert said[0]["value"] == "AT" and f"Austria \u2212 {said[0]['at_least']:,}" in page.text
    assert "Referrers" not in http.get("/links/link-01").text, "its hits said nothing"


def test_rules_are_shown_with_what_was_asked_and_admitted(pages: RunningServer, http: httpx.Client) -> None:
    def asked() -> bool:  # decisions are handed over once a second
        return bool(http.get("/v1/limits/login/total").json()["total"] == 8)

    pages.wait_until(asked)
    page = Found(http.get("/limits").text)
    assert "8 asked, 5 admitted, 3 refused" in page.text.replace(" ,", ",")
    assert "user or ip" in page.text and "5/m, 20/h" in page.text


def test_the_state_of_the_node_is_shown(http: httpx.Client) -> None:
    page = Found(http.get("/node", follow_redirects=True).text)
    for words in (
        "store: sqlite",
        "Everything works",
        "Worker journal-1",
        "Accepts hits yes",
        "Store up",
        "of 1,024 MiB",
        "Damaged rows 0",
    ):
        assert words in page.text, words


def test_serve_prints_the_address_of_the_page(pages: RunningServer) -> None:
    assert f'"page":"{pages.url}/"' in pages.output()


# --- strangers' text ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("key", HOSTILE)
def test_a_key_stays_text_on_every_page(http: httpx.Client, key: str) -> None:
    for path in (f"/links/{quote(key, safe='')}", "/", f"/links?q={quote(key, safe='')}"):
        answer = http.get(path)
        assert answer.status_code == 200
        tags = {tag for tag, _ in Found(answer.text).tags}
        assert "img" not in tags and answer.text.count("<script") == 1
        assert "\x00" not in answer.text and "\x1b" not in answer.text and "‮" not in answer.text.replace(quote(key), "")
    assert "49" not in re.sub(
        r"<[^>]*>", "", http.get("/links/%7B%7B7%2A7%7D%7D").text.partition("<main")[2].partition("</h1>")[0]
    )


@pytest.mark.parametrize(
    "query",
    [f"?q={quote(EVIL)}", f"?tz={quote(EVIL)}", f"?last={quote(EVIL)}", f"?{quote(EVIL)}=1", "?last=1d&last=2d",
     "?from=x", "?step=1mo&from=0&to=253402300000", "?bots=cats", "?tz=Europe/Vienn%C3", "?from=9&to=8"],
)  # fmt: skip
def test_what_is_wrong_in_an_address_is_a_page_that_says_so(http: httpx.Client, query: str) -> None:
    for path in ("/links", "/links/launch", "/groups/spring", "/limits"):
        answer = http.get(path + query)
        assert answer.status_code == (200 if query.startswith("?q=") else 422), answer.text
        assert "<img" not in answer.text and answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    "path", ["/links/a%2Fb%2Fc?last=x", "/links/a%2Fb%2Fc", "/groups/a%2Fb?last=x", "/links/launch"]
)
def test_a_page_finds_its_files_from_an_address_with_encoded_slashes(http: httpx.Client, path: str) -> None:
    links = [attributes["href"] or "" for tag, attributes in Found(http.get(path).text).tags if tag == "link"]
    assert len(links) == 2 and all(link.startswith("../static/") for link in links), links


def test_a_long_text_in_an_address_is_refused_for_each_link_of_a_page_repeats_it(http: httpx.Client) -> None:
    answer = http.get("/links?q=" + "a" * 1_025)
    assert answer.status_code == 422
    assert "parameter q has 1,025 characters" in answer.text and "at most 1,024 characters" in answer.text
    assert len(answer.content) < 3_000
    assert http.get("/links?q=" + "a" * 1_024).status_code == 200


@pytest.mark.parametrize("path", ["/linkz", "/links/", "/links/a/b/c", "/v1/nothing", f"/{quote(EVIL)}"])
def test_a_browser_that_asks_for_what_there_is_not_gets_a_page_and_a_program_a_problem(
    http: httpx.Client, path: str
) -> None:
    page = http.get(path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.status_code == 404 and page.headers["content-type"].startswith("text/html")
    assert "Not found" in page.text and "<img" not in page.text
    assert "default-src" in page.headers["content-security-policy"]
    problem = http.get(path)
    assert problem.status_code == 404 and problem.json()["title"] == "not found"
    assert http.post(path, headers={"Accept": "text/html"}).headers["content-type"] == "application/problem+json"


def test_what_is_counted_is_said_where_it_is_not_people(http: httpx.Client) -> None:
    for bots, words in (("only", "Bots: 60 hits"), ("include", "People and bots: 360 hits"), ("exclude", " 300 hits")):
        assert words in Found(http.get(f"/links/launch?bots={bots}").text).text


def test_the_address_is_the_view(http: httpx.Client) -> None:
    """Each way of counting is in the links of the page, so that a view can be sent on."""
    page = Found(http.get("/?last=7d&tz=Asia/Kathmandu&bots=include&step=1d").text)
    (link,) = [each["href"] for _, each in page.tags if (each.get("href") or "").startswith("links/launch")]
    assert link == "links/launch?last=7d&step=1d&tz=Asia%2FKathmandu&bots=include"
    both = Found(http.get("/?last=7d&from=2026-01-01&to=2026-02-01").text)
    assert "1 Jan - 1 Feb 2026" in both.text, "the form sends what was and what was typed; that which was typed holds"


@pytest.fixture
def empty(serve: Serve) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=serve().url, trust_env=False) as http:
        yield http


def test_the_first_page_says_how_to_begin(empty: httpx.Client) -> None:
    page = empty.get("/")
    command = f"curl -X POST {str(empty.base_url).rstrip('/')}/v1/hits/launch"
    assert re.sub(r"</?span[^>]*>", "", page.text).count(command) == 1
    assert '<noscript><meta http-equiv="refresh"' in page.text
    empty.post("/v1/hits", json={"key": "k", "bot": True}).raise_for_status()
    assert "No hits yet" not in empty.get("/").text, "a bot is something"
