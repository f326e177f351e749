"""The page for a customer, signed in with the token of a prefix: the token's group and links, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from server.tokens.token import Scope
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token

ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def signed_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A browser that the customer acme has signed in with, on a server that counts for others too."""
    data: Path = tmp_path_factory.mktemp("page") / "data"
    both = Scope.write, Scope.read
    tokens = {name: add_token(data / "tokens.json", name, both, prefix=f"{name}/") for name in ("acme", "beta")}
    with RunningServer(data) as server, http_client(server.url) as http:
        for name, count in (("acme", 41), ("beta", 977)):
            hits = [{"key": f"{name}/{key}", "count": count, "ref": f"https://{name}.example/"} for key in ("x", "y")]
            sent = http.post("/v1/hits", json=hits, headers={"Authorization": f"Bearer {tokens[name]}"})
            assert sent.json()["counted"] == 2 * count
        entered = http.post("/login", data={"token": tokens["acme"]}, headers=ORIGIN)
        assert (entered.status_code, entered.headers["location"]) == (303, "./")
        yield http


@pytest.mark.parametrize("path", ["/", "/?last=7d", "/links", "/links?sort=key", "/groups/acme", "/links/acme%2Fx"])
def test_it_shows_the_customers_part(signed_in: httpx.Client, path: str) -> None:
    answer = signed_in.get(path)
    assert answer.status_code == 200
    shown = re.sub(r"<[^>]*>", " ", answer.text)
    assert re.search(r"\b41\b" if path.startswith("/links") else r"\b82\b", shown), "of the group, or of a link"
    assert "977" not in answer.text and "1,954" not in answer.text and "2,036" not in answer.text
    assert "beta" not in answer.text
    assert "Sign out" in answer.text
    assert 'href="system"' not in answer.text and '/share"' not in answer.text and "Share</a></p>" not in answer.text


def test_search_finds_the_customers_links_alone(signed_in: httpx.Client) -> None:
    assert "acme/x" in signed_in.get("/links?q=x").text
    assert "beta" not in signed_in.get("/links?q=b").text.replace("?q=b", "")


@pytest.mark.parametrize("path", ["/groups/beta", "/links/beta%2Fx", "/links/beta%2Fnever", "/system", "/limits"])
def test_other_pages_are_refused(signed_in: httpx.Client, path: str) -> None:
    answer = signed_in.get(path, headers={"Accept": "text/html"})
    assert (answer.status_code, "977" in answer.text) == (403, False)
