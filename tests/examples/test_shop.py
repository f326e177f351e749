"""The example of a shop's webhook and a form, as its three programs run: in Python, JavaScript and PHP."""

from __future__ import annotations

import hashlib
import hmac
import html
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from testing.client import http_client
from testing.program import running
from testing.server import ROOT, free_port
from tests.conftest import Serve
from tests.server.conftest import wait_until

SECRET = "not-a-secret"
SHOP = ROOT / "examples" / "shop"
EVENTS = ("--events-names", "lead,sale", "--flush-s", "3600")
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
each_language = pytest.mark.parametrize(
    "language",
    [
        "python",
        pytest.param("javascript", marks=pytest.mark.needs("node")),
        pytest.param("php", marks=pytest.mark.needs("php")),
    ],
)


@contextmanager
def shop(language: str, clicks_url: str, folder: Path) -> Iterator[httpx.Client]:
    """Runs the program of a language; gives what sends to it."""
    port = free_port()
    commands = {
        "python": [sys.executable, str(SHOP / "shop.py"), str(port)],
        "javascript": ["node", str(SHOP / "shop.mjs"), str(port)],
        "php": ["php", "-S", f"127.0.0.1:{port}", str(SHOP / "shop.php")],
    }
    settings = {"WEBHOOK_SECRET": SECRET, "CLICKCURVE_URL": clicks_url, "PYTHONPATH": str(ROOT)}
    with (
        running(commands[language], folder / "shop.log", settings) as program,
        http_client(f"http://127.0.0.1:{port}", fresh=True) as sender,
    ):

        def is_there() -> bool:
            try:
                return sender.get("/nothing").status_code == 404
            except httpx.TransportError:
                return False

        program.until(is_there)
        yield sender


def sold(sender: httpx.Client, order: object, secret: str = SECRET) -> int:
    """Sends an order as the shop does; the status of the answer."""
    body = json.dumps(order).encode()
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return sender.post("/webhook", content=body, headers={"X-Shop-Signature": signature}).status_code


def came_of(http: httpx.Client, key: str) -> dict[str, tuple[int, int]]:
    answer: dict[str, Any] = http.get(f"/v1/links/{key}/events").json()
    return {each["event"]: (each["at_least"], each["value"]["at_least"]) for each in answer["events"]}


@each_language
def test_orders_are_sales_once_and_forms_are_leads_once(language: str, serve: Serve, tmp_path: Path) -> None:
    url = serve(*EVENTS).url
    with shop(language, url, tmp_path) as sender, http_client(url) as http:
        order = {"id": 1001, "total": "49.90", "via": "launch"}
        assert [sold(sender, order) for _ in range(3)] == [204] * 3
        assert sold(sender, {"id": 1002, "total": "0.29", "via": "launch"}) == 204
        assert came_of(http, "launch")["sale"] == (2, 5_019)
        assert sold(sender, order, "a stranger's") == 401
        odd: list[object] = [{}, {"id": 1, "total": "free", "via": "launch"}, {"total": 1, "via": "launch"}, [], "x"]
        assert [sold(sender, each) for each in odd] == [400] * len(odd)
        page = sender.get("/form", params={"via": 'a"b'}).text
        hidden = {name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', page)}
        assert hidden["via"] == 'a"b' and len(hidden["id"]) == 16
        for _ in range(2):  # the button, twice
            assert sender.post("/form", data=hidden, headers=BROWSER).text == "Thank you."
        assert sender.post("/form", data={"name": "nobody"}).status_code == 200
        assert sold(sender, order) == 204  # what was reported before has been counted then
        assert came_of(http, "a%22b") == {"lead": (1, 0), "sale": (0, 0)}
        assert came_of(http, "launch") == {"lead": (0, 0), "sale": (2, 5_019)}
        assert http.get("/v1/total").json()["total"] == 0, "no event is a click"


@pytest.mark.slow
@each_language
def test_the_shop_sends_an_order_again_until_it_is_counted(language: str, serve: Serve, tmp_path: Path) -> None:
    port = free_port()
    order = {"id": 1001, "total": "49.90", "via": "launch"}
    with shop(language, f"http://127.0.0.1:{port}", tmp_path) as sender:
        assert sold(sender, order) == 502
        with http_client(serve(*EVENTS, port=port).url) as http:
            wait_until(lambda: sold(sender, order) == 204)
            assert came_of(http, "launch")["sale"] == (1, 4_990)
