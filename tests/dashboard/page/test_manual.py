"""The manual on the server: its pages and their links, what is taken for a page, and the ways to it from others."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.page.manual.manual import INDEX, Manual, ManualPage
from dashboard.page.manual.sections import SECTIONS
from server.mcp.help_pages import MANUAL
from testing.server import ROOT

SERVED = Manual(MANUAL)
PAGES = sorted({*SERVED.names, INDEX})
HERE = "http://here/"


def page_of(name: str) -> ManualPage:
    page = SERVED.page(name)
    assert page is not None
    return page


def made(tmp_path: Path, text: str, name: str = "bots") -> ManualPage:
    for other in ("bots", "page", INDEX):
        (tmp_path / f"{other}.md").write_text(text if other == name else "# Other\n")
    page = Manual(tmp_path).page(name)
    assert page is not None
    return page


def ids(html: str) -> set[str]:
    return set(re.findall(r'<h\d id="([^"]*)"', html))


# --- the pages --------------------------------------------------------------------------------------------------------
def test_every_link_of_a_page_leads_to_a_section_that_is_there() -> None:
    followed = 0
    for name in PAGES:
        address, html = f"{HERE}help" if name == INDEX else f"{HERE}help/{name}", page_of(name).html
        for target in re.findall(r'<a href="([^"]*)"', html):
            parts = urlsplit(urljoin(address, target))
            if parts.netloc == "here":
                found = SERVED.page(parts.path.removeprefix("/help").removeprefix("/") or INDEX)
                assert found is not None and (not parts.fragment or parts.fragment in ids(found.html)), (name, target)
                followed += 1
        assert "<img" not in html and len(ids(html)) == len(re.findall(r"<h\d", html)), name
    assert followed > 300


def test_no_link_between_pages_is_lost() -> None:
    for name in SERVED.names:
        text = re.sub(r"```.*?```", "", (MANUAL / f"{name}.md").read_text(), flags=re.DOTALL)
        wanted = re.findall(r"\]\((?!\.\./|pictures/)[^)]+\)", text)
        assert len(re.findall(r"<a href=", page_of(name).html)) == len(wanted), name


def test_what_is_not_on_the_server_is_named_without_a_link(tmp_path: Path) -> None:
    text = "[bots.md](bots.md#a) [T](page.md) [D](README.md) [S](../SECURITY.md) [no](no.txt) [W](https://w.example/)"
    page = made(tmp_path, f"# A\n\n{text} ![P](p.svg)\n")
    assert '<a href="bots#a">bots</a> <a href="page">T</a> <a href="../help">D</a> S no ' in page.html
    assert '<a href="https://w.example/">W</a> (A picture: P)' in page.html
    index = made(tmp_path, f"# A\n\n{text}\n", INDEX)
    assert '<a href="help/bots#a">bots</a> <a href="help/page">T</a> <a href="help">D</a> S no ' in index.html


def test_anchors_are_those_of_code_hosts_and_never_twice_the_same(tmp_path: Path) -> None:
    page = made(tmp_path, "# GET /v1/links/{key}, `a_b`\n\n## Same\n\n## Same\n\n### <b> & c\n")
    assert sorted(ids(page.html)) == ["b--c", "get-v1linkskey-a_b", "same", "same-1"]
    assert page.title == "GET /v1/links/{key}, a_b" and page.sections == [("same", "Same"), ("same-1", "Same")]


def test_markup_in_the_text_is_text(tmp_path: Path) -> None:
    page = made(tmp_path, '<script>x</script>\n\n`<b>` [j](javascript:alert(1)) "\n\n```html\n<i>\n```\n')
    assert "<script" not in page.html and "<b>" not in page.html and "<i>" not in page.html
    assert "javascript:" not in "".join(re.findall(r'href="([^"]*)"', page.html))
    assert '<pre tabindex="0"><code>&lt;i&gt;\n</code></pre>' in page.html


def test_heads_of_columns_are_heads_and_an_empty_corner_is_none(tmp_path: Path) -> None:
    page = made(tmp_path, "| | n |\n| --- | --- |\n| a | 1 |\n")
    assert re.sub(r"\s", "", page.html).count('<tr><td></td><thscope="col">n</th></tr>') == 1
    assert '<div class="wide" tabindex="0"><table>' in page.html and "</table></div>" in page.html


# --- what is taken for a page -----------------------------------------------------------------------------------------
@given(st.text() | st.sampled_from(["../pyproject", "./page", "page.md", "pictures/tour", "/etc/passwd", "page\0", ""]))
def test_only_a_name_of_the_folder_is_a_page(name: str) -> None:
    assert (SERVED.page(name) is None) == (name not in PAGES)


@pytest.mark.parametrize(
    "path",
    [
        "README", "page.md", "Page", "..%2Fpyproject", "%2e%2e%2Fpage", "%2e%2e", "%2Fetc%2Fpasswd", "page%00",
        "page/", "pictures%2Ftour.gif", "%ff", "", "a" * 2_000, "%3Cscript%3E",
    ],
)  # fmt: skip
def test_no_stranger_passes_a_path(http: httpx.Client, path: str) -> None:
    answer = http.get(f"/help/{path}", headers={"Accept": "text/html"})
    assert answer.status_code == 404 and "<script>" not in answer.text


# --- on the server ----------------------------------------------------------------------------------------------------
def test_a_page_that_is_known_is_not_sent_again(http: httpx.Client) -> None:
    first = http.get("/help/bounds")
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache" and "What a bound means" in first.text
    for known in (tag, f'"other", W/{tag}', "*"):
        again = http.get("/help/bounds", headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert again.headers["content-security-policy"] == first.headers["content-security-policy"]
    assert http.get("/help/bounds", headers={"If-None-Match": '"other"'}).content == first.content
    assert http.get("/help/page", headers={"If-None-Match": tag}).status_code == 200
    assert http.get("/help/bounds", headers={"Accept-Encoding": "identity"}).headers["etag"] != tag


# --- the ways to it ---------------------------------------------------------------------------------------------------
def test_each_question_mark_leads_to_a_section_that_is_there() -> None:
    folder = ROOT / "dashboard" / "page"
    texts = [path.read_text() for path in (*folder.glob("html/*.html"), *folder.glob("*card*.py"))]
    used = {name for text in texts for found in re.findall(r"\bhelp\('(\w+)'|\bhelp=\"(\w+)\"", text) for name in found}
    assert used - {""} == set(SECTIONS)
    for name, target in SECTIONS.items():
        topic, _, anchor = target.partition("#")
        assert anchor and anchor in ids(page_of(topic).html), f"{name}: {target}"


def test_each_section_is_led_to_from_some_page(http: httpx.Client) -> None:
    led = set()
    shown = ["/", "/links/launch", "/groups/spring?last=7d", "/limits", "/links/launch/share", "/login"]
    for path in shown:
        answer = http.get(path)
        for target in re.findall(r'<a class="help" href="([^"]+)" aria-label="About [^"]+"', answer.text):
            section = urlsplit(urljoin(str(answer.url), target))
            led.add(section.path.removeprefix("/help/") + "#" + section.fragment)
            assert section.fragment in ids(http.get(section.path).raise_for_status().text)
    assert led <= set(SECTIONS.values()) and len(led) >= 6
