"""A server without tokens beside a browser: it answers to its own names, and no page of another site writes to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from clickcurve.buckets.errors import ClickcurveError
from server.http.host_and_origin_guard import ForeignHost, ForeignPage, HostAndOriginGuard
from server.tokens.token import Scope
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token


def verdict(door: HostAndOriginGuard, method: str, *, path: str = "/", **fields: str) -> type[ClickcurveError] | None:
    headers = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in fields.items()]
    try:
        door.check({"type": "http", "method": method, "path": path, "headers": headers})
    except ClickcurveError as error:
        return type(error)
    return None


LOOPBACK = (
    "localhost", "localhost:8080", "LOCALHOST", "127.0.0.1", "127.0.0.1:8080", "127.8.9.10:1", "[::1]", "[::1]:8080",
)  # fmt: skip
FOREIGN = (
    "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:80",
    "0.0.0.0", "localhost:x", "localhost:80:80", "[::1].evil.example", "127.0.0.1@evil.example", "\xb2", "127.1",
    "[fe80::1]", "1", "localhost ", "sub.localhost", "[::1", "::1.evil",
)  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
def test_only_names_of_this_machine_are_answered(method: str) -> None:
    door = HostAndOriginGuard()
    for _ in range(2):  # a name that is known to be good must not make another one good
        assert {host: verdict(door, method, host=host) for host in LOOPBACK} == dict.fromkeys(LOOPBACK)
        assert {host: verdict(door, method, host=host) for host in FOREIGN} == dict.fromkeys(FOREIGN, ForeignHost)


def test_further_names_are_a_setting() -> None:
    door = HostAndOriginGuard(allowed_hosts=("clicks.example",))
    assert verdict(door, "GET", host="clicks.example:81") is None
    assert verdict(door, "GET", host="Clicks.Example") is None
    assert verdict(door, "GET", host="evil.clicks.example") is ForeignHost


def test_beyond_loopback_every_name_is_good_unless_some_are_given() -> None:
    assert verdict(HostAndOriginGuard("0.0.0.0"), "GET", host="any.example") is None
    assert verdict(HostAndOriginGuard("0.0.0.0", ("a.example",)), "GET", host="any.example") is ForeignHost


def test_many_names_are_not_all_remembered() -> None:
    door = HostAndOriginGuard()
    for port in range(1, 5_000):
        assert verdict(door, "GET", host=f"localhost:{port}") is None
    assert len(door._known) < 200


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({}, False),
        ({"origin": "http://evil.example"}, True),
        ({"origin": "null"}, True),
        ({"origin": "http://localhost:8080"}, False),
        ({"origin": "https://LOCALHOST:8080"}, False),
        ({"origin": "http://localhost:3000"}, True),
        ({"origin": "http://localhost"}, True),
        ({"sec_fetch_site": "cross-site"}, True),
        ({"sec_fetch_site": "same-origin"}, False),
        ({"sec_fetch_site": "none"}, False),
        ({"sec_fetch_site": "same-site"}, True),
        ({"sec_fetch_site": "CROSS-SITE"}, True),
        ({"sec_fetch_site": "same-origin, cross-site"}, True),
        ({"sec_fetch_site": ""}, True),
        ({"origin": "http://localhost:8080", "sec_fetch_site": "same-site"}, False),
        ({"origin": "http://evil.example", "sec_fetch_site": "same-origin"}, True),
    ],
)
def test_a_page_of_another_site_writes_nothing(fields: dict[str, str], refused: bool) -> None:
    for method in ("POST", "DELETE", "PUT", "PATCH"):
        assert verdict(HostAndOriginGuard(), method, host="localhost:8080", **fields) is (
            ForeignPage if refused else None
        )
    for method in ("GET", "HEAD"):
        assert verdict(HostAndOriginGuard(), method, host="localhost:8080", **fields) is None


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("fields", [{"origin": "http://evil.example"}, {"sec_fetch_site": "cross-site"}])
def test_a_page_of_another_site_uses_up_no_limit_but_a_proxy_asks_for_it(method: str, fields: dict[str, str]) -> None:
    """A proxy asks with the header fields of the request that it got, which may be a page's."""
    path = "/v1/limit/login/check"
    assert verdict(HostAndOriginGuard(), method, path=path, host="localhost", **fields) is ForeignPage
    assert verdict(HostAndOriginGuard(), method, path="/v1/limits", host="localhost", **fields) is None
    for of_proxy in ("x_forwarded_for", "x_forwarded_uri", "x_original_uri", "x_real_ip", "forwarded"):
        asked = {**fields, of_proxy: "192.0.2.1"}
        assert verdict(HostAndOriginGuard(), method, path=path, host="localhost", **asked) is None
    ours = {"origin": "http://localhost", "sec_fetch_site": "same-origin"}
    assert verdict(HostAndOriginGuard(), method, path=path, host="localhost", **ours) is None


def test_sites_of_the_setting_write() -> None:
    for origins in (("https://dash.example",), ("*",)):
        door = HostAndOriginGuard(cors_origins=origins)
        fields = {"origin": "https://dash.example", "sec_fetch_site": "cross-site"}
        assert verdict(door, "POST", host="localhost", **fields) is None
    assert (
        verdict(HostAndOriginGuard(cors_origins=("https://dash.example",)), "POST", origin="http://dash.example")
        is ForeignPage
    )


# --- served ---------------------------------------------------------------------------------------------------------
EVIL = {"Host": "evil.example"}


def test_a_name_of_a_page_is_refused_with_the_reason(shared: RunningServer) -> None:
    with http_client(shared.url) as http:
        for method, path in (("GET", "/v1/links"), ("POST", "/v1/hits/a"), ("DELETE", "/v1/links/a"), ("GET", "/docs")):
            answer = http.request(method, path, headers=EVIL)
            assert (answer.status_code, answer.json()["field"]) == (403, "Host")
            assert "rebinding" in answer.json()["detail"] and "allowed_hosts" in answer.json()["detail"]
        answer = http.post("/v1/hits/a", headers={"Origin": "http://evil.example"})
        assert (answer.status_code, answer.json()["field"]) == (403, "Origin")
        assert "access-control-allow-origin" not in answer.headers
        assert http.get("/v1/links/a").json()["lifetime"] == 0
        assert 'status="403",title="host not allowed"' in http.get("/metrics").text


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A page of a site that may call, at a server that asks for tokens once there is one."""
    data = tmp_path_factory.mktemp("cors") / "data"
    settings = {"CLICKCURVE_CORS_ORIGINS": "https://dash.example"}
    with RunningServer(data, settings=settings) as server, http_client(server.url) as http:
        yield http


def test_pages_of_the_setting_call_and_read(page: httpx.Client) -> None:
    wish = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    asked = page.options("/v1/hits", headers={"Origin": "https://dash.example", **wish})
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == "https://dash.example"
    assert "POST" in asked.headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in asked.headers
    for found in (
        page.post("/v1/hits", json={"key": "a"}, headers={"Origin": "https://dash.example"}),
        page.get("/v1/links/a", headers={"Origin": "https://dash.example"}),
        page.get("/v1/links?limit=x", headers={"Origin": "https://dash.example"}),
    ):
        assert found.headers["access-control-allow-origin"] == "https://dash.example"
        assert "retry-after" in found.headers["access-control-expose-headers"].lower()


def test_what_an_answer_says_to_a_page_is_in_no_later_answer(page: httpx.Client) -> None:
    before = page.post("/v1/hits/a", headers={"X": "1"}).headers
    for _ in range(3):
        answer = page.post("/v1/hits/a", headers={"Origin": "https://dash.example"}).headers
        assert (answer["access-control-allow-origin"], answer["vary"]) == ("https://dash.example", "Origin")
    after = page.post("/v1/hits/a", headers={"X": "2"}).headers
    assert {**after, "date": ""} == {**before, "date": ""}


def test_other_pages_do_not(page: httpx.Client) -> None:
    evil = {"Origin": "https://evil.example"}
    asked = page.options("/v1/hits", headers={**evil, "Access-Control-Request-Method": "POST"})
    assert (asked.status_code, asked.headers["content-type"]) == (400, "application/problem+json")
    assert asked.json()["title"] == "preflight refused" and "origin" in asked.json()["detail"]
    assert 'status="400",title="preflight refused"' in page.get("/metrics").text
    for found in (asked, page.get("/v1/links", headers=evil), page.post("/v1/hits/a", headers=evil)):
        assert "access-control-allow-origin" not in found.headers
    assert page.post("/v1/hits/a", headers=evil).status_code == 403


def test_with_tokens_any_name_is_good_since_no_page_has_a_token(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    token = add_token(tmp_path / "data" / "tokens.json", "all", (Scope.admin,), 0)
    with RunningServer(tmp_path / "data") as server, http_client(server.url) as http:
        with_token = {**EVIL, "Origin": "https://evil.example", "Authorization": f"Bearer {token}"}
        assert http.post("/v1/hits/a", headers=with_token).status_code == 200
        assert http.post("/v1/hits/a", headers=EVIL).status_code == 401
