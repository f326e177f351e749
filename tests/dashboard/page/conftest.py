"""A server with links of every kind, and a browser, each started once for all tests here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from testing.browser import Browser, Page
from testing.client import http_client
from testing.server import RunningServer

RULES = (
    '[breakdown]\ndimensions = ["ref", "country", "device"]\n[limits.login]\nby = ["user", "ip"]\nrates = "5/m, 20/h"\n'
)
EVIL = "<img src=x onerror=alert(1)>"
HOSTILE = (
    EVIL,
    '"><script>alert(2)</script>',
    "javascript:alert(3)",
    "{{7*7}}",
    "a/b?c#d",
    "‮gnp.exe",
    "\x00\x1b[2J",
    "مرحبا/بالعالم",
)
SITES = ("news.example", "", "other.example")
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari/604.1"
DAY_S = 86_400


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page as high and wide as a small screen, on which nothing failed."""
    with browser.page(1280, 800) as opened:
        yield opened
        assert opened.faults() == []


def query(page: Page) -> dict[str, list[str]]:
    """The parameters in the address of a page."""
    return parse_qs(urlsplit(page.js("location.href")).query)


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose links have a year of hits, of bots too, with a rule that has refused."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "rules.toml").write_text(RULES)
    with RunningServer(folder / "data", "--config", str(folder / "rules.toml")) as server:
        with http_client(server.url) as http:
            http.post("/v1/hits", json=list(a_year(int(time.time())))).raise_for_status()
            for _ in range(8):
                http.post("/v1/limit/login", json={"user": "ann"})
        yield server


def a_year(now: int) -> Iterator[dict[str, object]]:
    for day in range(400):
        said = {"ref": SITES[day % 3], "country": "AT", "ua": PHONE, "visitor": f"v{day % 5}", "groups": ["spring"]}
        yield {"key": "launch", "ts": now - day * DAY_S - 60, "count": 10, **said}
        yield {"key": "launch", "ts": now - day * DAY_S - 60, "count": 2, "bot": True}
    for number in range(30):
        yield {"key": f"link-{number:02d}", "ts": now - 600 - number, "count": 40 - number}
    for key in HOSTILE:
        yield {"key": key, "ts": now - 120, "count": 100}


@pytest.fixture
def http(pages: RunningServer) -> Iterator[httpx.Client]:
    with http_client(pages.url) as client:
        yield client


@pytest.fixture(scope="session")
def shots() -> Path | None:
    """Where pictures of pages are left to be looked at: the folder in PAGE_SHOTS, if that is set."""
    import os

    named = os.environ.get("PAGE_SHOTS")
    if named:
        Path(named).mkdir(parents=True, exist_ok=True)
    return Path(named) if named else None
