"""Sharing from the page: who may, what the addresses show, and that no page of another site can do it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from server.tokens.token import Scope
from testing.axe import axe_script, violations
from testing.browser import Browser
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token
from tests.dashboard.page.conftest import EVIL


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, dict[str, str]]]:
    """A server that asks for tokens, with a hit, and one token of each scope."""
    data = tmp_path_factory.mktemp("shares") / "data"
    data.mkdir()
    tokens = {scope.value: add_token(data / "tokens.json", scope.value, (scope,), 0) for scope in Scope}
    with RunningServer(data) as server:
        with http_client(server.url) as http:
            http.post("/v1/hits/launch", headers={"Authorization": f"Bearer {tokens['write']}"}).raise_for_status()
        yield server, tokens


def sent(http: httpx.Client, path: str = "/links/launch/share", /, **fields: str) -> httpx.Response:
    return http.post(path, data={"days": "30", **fields})


def addresses(page: httpx.Response) -> list[str]:
    """The paths of all shares that a page shows."""
    found = re.findall(r"</span>(/share/[^<\" ]+)</code>", page.text)
    return [unescape(each) for each in found]


def test_a_link_is_shared_listed_and_revoked(http: httpx.Client) -> None:
    assert 'href="../links/link-05/share"' in http.get("/links/link-05").text
    path = "/links/link-05/share"
    form = http.get(path)
    assert 'name="token"' not in form.text and "None yet." in form.text
    made = sent(http, path, do="share", days="2")
    assert made.status_code == 200 and "Shared until" in made.text
    (address,) = addresses(made)
    assert addresses(http.get(path)) == [address], "also when the page is opened anew"
    page = http.get(address)
    assert page.status_code == 200 and "<bdi>link-05</bdi>" in page.text and f"{path}" not in page.text
    share_id = address.removeprefix("/share/").partition(".")[0]
    assert "no longer works" in sent(http, path, revoke=share_id).text
    assert http.get(address).status_code == 404
    assert "had already ended" in sent(http, path, revoke=share_id).text


def test_an_address_opens_the_view_that_was_shared_and_its_tables_are_csv(http: httpx.Client) -> None:
    view = "?last=7d&tz=Asia%2FTokyo&compare=year&by=ref&value=news.example"
    shown = unescape(http.get(f"/links/launch{view}").text)
    assert f'href="../links/launch/share{view}"' in shown
    made = sent(http, f"/links/launch/share{view}", do="share")
    (address,) = (each for each in addresses(made) if each.endswith(view))
    assert f'href="../../links/launch{view}"' in unescape(made.text), "and the way back"
    page = unescape(http.get(address).text)
    assert "Referrer: <bdi>news.example</bdi>" in page and "Asia/Tokyo" in page and "/v1/" not in page
    (snippet,) = re.findall(r"/curve\.svg\?[^&\"]*[^\"]*", unescape(unescape(made.text).partition("Embed")[2]))[:1]
    assert snippet.startswith("/curve.svg?last=7d&tz=Asia%2FTokyo"), "a picture has no filter"
    files = {}
    for each in re.findall(r'href="\.\./share/([^"]+format=csv[^"]*)"', page):
        text, named = as_programs_get_it(http, f"/share/{each}", "/v1/links/launch/" + each.split("/", 1)[1])
        files[re.sub(r"_\d{4}-\d\d-\d\d", "", named.split('"')[1])] = text
    assert {"launch_ref.csv", "launch_country.csv", "launch_ref_news.example.csv"} <= files.keys()
    assert re.search(r"\n\d{4}-\d\d-\d\dT00:00:00\+09:00,", files["launch_ref_news.example.csv"])
    signed = address.partition("?")[0]
    for table in ("visitors?last=7d&times=iso", "why?last=7d", "curve?last=7d&step=1d&times=iso"):
        as_programs_get_it(http, f"{signed}/{table}", f"/v1/links/launch/{table}&format=csv")
    assert http.get(f"{signed}/by/none?last=7d").status_code == 404
    assert http.get(f"{signed[:-1]}/curve?last=7d").status_code == 404, "a changed address"
    assert http.get(f"{signed}/curve?last=7d&tz=Nowhere").status_code == 422


def as_programs_get_it(http: httpx.Client, shared: str, own: str) -> tuple[str, str]:
    """Returns a shared file and its name, which are those of the API, perhaps of the next minute."""
    files = [http.get(address) for address in (own, shared, own)]
    before, answer, after = ((file.text, file.headers.get("content-disposition", "")) for file in files)
    assert answer in (before, after), shared
    return answer


def test_what_is_to_be_embedded_is_there_and_escapes_names(http: httpx.Client) -> None:
    for name in (EVIL, "a/b?c#d"):
        path = f"/links/{quote(name, safe='')}/share"
        made = sent(http, path, do="share")
        assert "<img" not in made.text
        codes = re.findall(r"<code>(&lt;img.*?)</code>", made.text)
        snippets = [unescape(re.sub("<.*?>", "", code)) for code in codes]
        assert len(snippets) == 2
        for snippet in snippets:
            written = re.fullmatch(r'<img src="([^"]+)"( width="800" height="300")? alt="Hits of ([^"]*)">', snippet)
            assert written and unescape(written[3]) == name
            assert http.get(written[1]).headers["content-type"] == "image/svg+xml"


def test_a_group_is_shared_as_well(http: httpx.Client) -> None:
    address = addresses(sent(http, "/groups/spring/share", do="share"))[-1]
    assert "Group <bdi>spring</bdi>" in http.get(address).text


@pytest.mark.parametrize("days", ["0", "-1", "3661", "x", "", "1e3", "\u0663"])
def test_a_wrong_number_of_days_is_refused_in_the_form(http: httpx.Client, days: str) -> None:
    refused = sent(http, do="share", days=days)
    assert refused.status_code == 422 and 'role="alert"' in refused.text and "from 1 to 3,660" in refused.text


def test_only_a_token_of_scope_admin_shares(guarded: tuple[RunningServer, dict[str, str]]) -> None:
    server, tokens = guarded
    with http_client(server.url) as http:
        assert http.get("/links/launch/share").headers["location"].startswith("../../login?next=")
        http.post("/login", data={"token": tokens["admin"]})
        form = http.get("/links/launch/share")
        assert 'name="token"' in form.text and "None yet." not in form.text
        for token, status in ((None, 401), ("", 401), ("wrong", 401), (tokens["read"], 403), (tokens["write"], 403)):
            fields = {"do": "share"} if token is None else {"do": "share", "token": token}
            refused = sent(http, **fields)
            assert refused.status_code == status and addresses(refused) == [], "the cookie of an admin is not enough"
        made = sent(http, do="share", token=tokens["admin"])
        assert len(addresses(made)) == 1 and tokens["admin"] not in made.text
        assert addresses(http.get("/links/launch/share")) == [], "an address lets anybody in, so readers see none"
        assert addresses(sent(http, do="list", token=tokens["admin"])) == addresses(made)


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}])
def test_a_page_of_another_site_shares_nothing(
    http: httpx.Client, guarded: tuple[RunningServer, dict[str, str]], headers: dict[str, str]
) -> None:
    assert http.post("/links/launch/share", data={"do": "share", "days": "1"}, headers=headers).status_code == 403
    with http_client(guarded[0].url) as tokened:
        fields = {"do": "share", "days": "1", "token": guarded[1]["admin"]}
        assert tokened.post("/links/launch/share", data=fields, headers=headers).status_code == 403


def test_sharing_in_a_browser(browser: Browser, pages: RunningServer, shots: Path | None) -> None:
    with browser.page() as page:
        page.open(f"{pages.url}/links/launch")
        page.click(".act a")
        page.until("document.querySelector('[name=days]')")
        page.click("button[value=share]")
        page.until("document.body?.innerText.includes('Shared until') && document.querySelector('.address button')")
        page.js("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
        page.click(".address [data-copy] button")
        page.until("window.copied")
        address = page.js("window.copied")
        assert address.startswith(f"{pages.url}/share/") and httpx.get(address, trust_env=False).status_code == 200
        page.js("document.querySelector('.address details').open = true")
        assert violations(page, axe_script()) == []
        if shots is not None:
            page.shot(shots / "share-form.png")
        page.resize(320, 800)
        assert page.js("document.documentElement.scrollWidth") <= 320
        page.click("button[name=revoke]")
        page.until("document.body?.innerText.includes('Revoked')")
        assert page.faults() == []


@pytest.mark.parametrize("scope", ["read", "admin"])
def test_sharing_is_offered_to_those_who_may(scope: str, guarded: tuple[RunningServer, dict[str, str]]) -> None:
    server, tokens = guarded
    with http_client(server.url) as http:
        for shown in ({"Cookie": f"clickcurve={tokens[scope]}"}, {"Authorization": f"Bearer {tokens[scope]}"}):
            page = http.get("/links/launch", headers=shown)
            assert page.status_code == 200
            assert (">Share</a>" in page.text) == (scope == "admin")
