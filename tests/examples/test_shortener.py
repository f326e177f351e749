"""The example shortener for real: making links is limited by user and address, following them is counted, once each."""

from __future__ import annotations

import json
import signal
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from clickcurve.limiter.rule import parse_rules
from testing.client import Clickcurve
from testing.program import Program, running
from testing.server import ROOT, RunningServer, free_port

URL = {"url": "https://example.org/launch"}
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
# As the example's, without the limit per second, which would make this test depend on how fast it runs.
LIMITS = """
[[limits.url_shorten]]
name = "caller"
by = ["user", "ip"]
rates = "3/h, 100/d"

[[limits.url_shorten]]
name = "address"
by = "ip"
rates = "8/h"
"""


@pytest.fixture
def shortener(server: RunningServer, tmp_path: Path) -> Iterator[tuple[httpx.Client, Program]]:
    port = free_port()
    (tmp_path / "users.json").write_text(json.dumps({"secret-ann": "ann", "secret-ben": "ben"}))
    (tmp_path / "limits.toml").write_text(LIMITS)
    settings = {
        "CLICKCURVE_URL": server.url,
        "USERS": str(tmp_path / "users.json"),
        "LIMITS": str(tmp_path / "limits.toml"),
        "TRUSTED_PROXIES": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    # uvicorn would believe the header by itself, and hide from the application who its peer is.
    command = [sys.executable, "-m", "uvicorn", "examples.shortener.app:app", "--port", str(port), "--no-proxy-headers"]
    with (
        running(command, tmp_path / "shortener.log", settings) as program,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=BROWSER, trust_env=False) as browser,
    ):
        program.until(lambda: answers(browser))
        yield browser, program


def answers(browser: httpx.Client) -> bool:
    try:
        return browser.get("/none").status_code == 404
    except httpx.TransportError:
        return False


def made(browser: httpx.Client, times: int, ip: str, secret: str = "") -> list[int]:
    headers = {"X-Forwarded-For": ip, **({"Authorization": f"Bearer {secret}"} if secret else {})}
    return [browser.post("/links", json=URL, headers=headers).status_code for _ in range(times)]


def test_the_example_has_rules_that_can_be_kept() -> None:
    rules = parse_rules(tomllib.loads((ROOT / "examples" / "shortener" / "limits.toml").read_text())["limits"])
    assert [rule.name for rule in rules] == ["caller", "address"]


def test_making_links_is_limited_by_user_and_by_address(shortener: tuple[httpx.Client, Program]) -> None:
    browser, _ = shortener
    assert made(browser, 4, "203.0.113.7") == [201, 201, 201, 429]
    assert made(browser, 1, "203.0.113.7", "invented") == [429], "an invented secret makes no new user"
    assert made(browser, 4, "203.0.113.7", "secret-ann") == [201, 201, 201, 429]
    assert made(browser, 1, "198.51.100.1", "secret-ann") == [429], "a user is one wherever she is"
    assert made(browser, 3, "203.0.113.7", "secret-ben") == [201, 201, 429], "the address has made its eight"
    assert made(browser, 1, "198.51.100.1", "secret-ben") == [201], "what was refused used up nothing"
    refused = browser.post("/links", json=URL, headers={"X-Forwarded-For": "203.0.113.7"})
    assert refused.headers["content-type"] == "application/problem+json"
    assert int(refused.headers["retry-after"]) > 0


def test_following_links_is_counted_and_not_limited(
    shortener: tuple[httpx.Client, Program], client: Clickcurve
) -> None:
    browser, program = shortener
    answer = browser.post("/links", json=URL)
    assert answer.headers["x-ratelimit-remaining"] == "2"
    key = answer.json()["key"]
    for _ in range(30):
        visit = browser.get(f"/{key}")
        assert (visit.status_code, visit.headers["location"]) == (302, URL["url"])
        assert not [name for name in visit.headers if "ratelimit" in name]
    assert browser.post("/links", json={"url": "no address"}).status_code == 422
    assert program.stop() in (0, -signal.SIGTERM)
    assert client.total(key)["total"] == 30
