"""The site of the docs: built without a warning, each link and anchor there, complete as files without a network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

from testing import site
from testing.browser import Browser
from testing.server import ROOT

pytestmark = pytest.mark.slow

ELSEWHERE = {"https://github.com/pradyunsg/furo"}  # who made the theme, as a link for readers


class Marked(HTMLParser):
    """What a page has: how many elements of each kind, its ids, what it links to, and what it loads by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.counts = dict.fromkeys(("table", "tr", "pre", "h1", "h2", "h3"), 0)
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.counts:
            self.counts[tag] += 1
        for name, value in attrs:
            if value is None:
                continue
            if name == "id":
                self.ids.add(value)
            elif name == "href" and tag == "a":
                self.links.append(value)
            elif name in ("href", "src", "srcset", "data", "poster"):
                self.loads.append(value)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "testing.site", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(built: Path) -> dict[Path, Marked]:
    return {path: Marked(path.read_text()) for path in sorted(built.rglob("*.html"))}


@pytest.fixture
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


def test_every_link_and_anchor_leads_somewhere(pages: dict[Path, Marked]) -> None:
    broken, followed = [], 0
    for page, marked in pages.items():
        for link in (*marked.links, *marked.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            followed += 1
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            ids = pages[target].ids | {"", "top"} if target in pages else {""}
            if not target.is_file() or unquote(parts.fragment) not in ids:
                broken.append(f"{page.name}: {link}")
    assert broken == [] and followed > 1_000


def test_it_loads_nothing_from_strangers(built: Path, pages: dict[Path, Marked]) -> None:
    loaded = [url for marked in pages.values() for url in marked.loads if urlsplit(url).netloc]
    assert loaded == []
    styles = [
        path.name for path in built.rglob("*.css") if "url(http" in path.read_text() or "@import" in path.read_text()
    ]
    assert styles == []
    hosts = {link for marked in pages.values() for link in marked.links if urlsplit(link).scheme == "https"}
    assert hosts >= ELSEWHERE


def test_every_page_is_in_the_order_of_the_index(built: Path) -> None:
    ordered = [page for _, part in site.sections() for page in part]
    written = {path.relative_to(built).with_suffix("").as_posix() for path in built.rglob("*.html")}
    assert len(ordered) == len(set(ordered))
    assert set(ordered) == written - {site.FIRST, site.INDEX, "index", "search", "genindex"}
    assert (built / "index.html").read_bytes() == (built / f"{site.FIRST}.html").read_bytes()


def test_a_page_has_the_tables_and_blocks_that_a_code_host_shows(pages: dict[Path, Marked], built: Path) -> None:
    """A host reads CommonMark with tables."""
    host = MarkdownIt("commonmark").enable("table")
    for page in (page for _, part in site.sections() for page in part):
        wanted = Marked(host.render((ROOT / f"{page}.md").read_text())).counts
        assert pages[built / f"{page}.html"].counts == wanted, page


def test_the_search_finds_a_page_in_a_folder_of_files(browser: Browser, built: Path) -> None:
    with browser.page(1280, 800) as page:
        page.open(f"{built.as_uri()}/index.html")
        assert "Five minutes from nothing to a chart" in page.text()
        page.open(f"{built.as_uri()}/search.html?q=referrer")
        page.until("document.querySelector('ul.search li a')")
        found = page.js("[...document.querySelectorAll('ul.search li a')].map((each) => each.getAttribute('href'))")
        assert any("docs/" in address for address in found), found
        assert page.faults() == []
        assert {address.partition(":")[0] for address in page.requested()} <= {"file", "data"}
