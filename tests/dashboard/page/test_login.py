"""Signing in where tokens are in use: what the cookie is, what it may do, and that no other site can use it."""

from __future__ import annotations

from collections.abc import Iterator
from http.cookies import SimpleCookie

import httpx
import pytest

from dashboard.page.login_routes import login_address, within
from server.tokens.token import Scope, TokenRequest
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token, token_book

PAGES = (
    "/",
    "/links/launch?last=7d",
    "/links/a%2Fb",
    "/groups/g",
    "/limits",
    "/system",
    "/links?sort=key",
    "/compare?key=a&group=g",
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, dict[str, str]]]:
    """A server that asks for tokens, and one token of each scope."""
    data = tmp_path_factory.mktemp("guarded") / "data"
    data.mkdir()
    tokens = {scope.value: add_token(data / "tokens.json", scope.value, (scope,), 0) for scope in Scope}
    with RunningServer(data) as server:
        yield server, tokens


@pytest.fixture
def http(guarded: tuple[RunningServer, dict[str, str]]) -> Iterator[httpx.Client]:
    with http_client(guarded[0].url) as client:
        yield client


def sign_in(http: httpx.Client, token: str, following: str = "", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return http.post("/login", data={"token": token, "next": following}, headers=named)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_without_a_token_leads_to_the_form_and_back(
    guarded: tuple[RunningServer, dict[str, str]], http: httpx.Client, path: str
) -> None:
    answer = http.get(path)
    assert answer.status_code == 303
    form = http.get(path, follow_redirects=True)
    assert form.status_code == 200 and 'name="token"' in form.text and "launch" not in form.text.partition("<form")[0]
    following = httpx.URL(answer.headers["location"]).params.get("next", "")
    signed = sign_in(http, guarded[1]["read"], following)
    assert signed.status_code == 303
    landed = httpx.URL(f"{guarded[0].url}/login").join(signed.headers["location"])
    assert landed.raw_path.decode() == path
    assert http.get(landed).status_code == 200


def test_the_cookie_is_for_this_site_alone_and_no_script_sees_it(
    guarded: tuple[RunningServer, dict[str, str]], http: httpx.Client
) -> None:
    answer = sign_in(http, guarded[1]["read"])
    (cookie,) = SimpleCookie(answer.headers["set-cookie"]).values()
    assert cookie["httponly"] and cookie["samesite"] == "strict" and cookie["path"] == "/" and not cookie["secure"]
    host = guarded[0].url.removeprefix("http://")
    (over_tls,) = SimpleCookie(
        sign_in(http, guarded[1]["read"], origin=f"https://{host}").headers["set-cookie"]
    ).values()
    assert over_tls["secure"], "the page came over TLS, though a proxy ended it"


def test_the_cookie_reads_and_never_writes(guarded: tuple[RunningServer, dict[str, str]], http: httpx.Client) -> None:
    """Even that of a token that may do everything: a cookie goes along by itself, a header does not."""
    sign_in(http, guarded[1]["admin"])
    for path in ("/", "/system", "/v1/links/launch", "/v1/links/launch/curve.svg", "/metrics"):
        assert http.get(path).status_code == 200, path
    for method, path in (("POST", "/v1/hits/launch"), ("DELETE", "/v1/links/launch"), ("POST", "/v1/limit/x")):
        assert http.request(method, path).status_code == 401, path
    http.post("/logout")
    assert http.get("/").status_code == 303


@pytest.mark.parametrize("token", ["", "wrong", "cc_00000000_x", "é" * 10, "x" * 7_000, "a\r\nSet-Cookie: b=c"])
def test_a_wrong_token_is_refused_in_the_form(http: httpx.Client, token: str) -> None:
    answer = sign_in(http, token)
    assert answer.status_code == 401 and "set-cookie" not in answer.headers
    assert "not known here" in answer.text and 'role="alert"' in answer.text
    assert token not in answer.text or token in ("", "wrong")


def test_a_token_that_may_not_read_is_refused(
    guarded: tuple[RunningServer, dict[str, str]], http: httpx.Client
) -> None:
    answer = sign_in(http, guarded[1]["write"])
    assert answer.status_code == 403 and "scope read" in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-origin"}, 303),
        ({}, 303),
    ],
)
def test_a_form_of_another_site_signs_nobody_in_or_out(
    guarded: tuple[RunningServer, dict[str, str]], http: httpx.Client, headers: dict[str, str], status: int
) -> None:
    assert sign_in(http, guarded[1]["read"], **headers).status_code == status
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    assert http.post("/logout", headers=named).status_code == status


def test_a_form_that_is_too_large_is_not_read(http: httpx.Client) -> None:
    assert http.post("/login", content=b"token=" + b"x" * 100_000).status_code == 413
    assert http.post("/login", content=b"&".join([b"a=b"] * 17)).status_code == 422


EVIL_ADDRESSES = [
    "//evil.example", "https://evil.example", "\\\\evil.example", "/\\evil.example", "javascript:alert(1)",
    "a\r\nSet-Cookie: x=y", "///evil.example", "%2F%2Fevil.example", "links/%2e%2e",
]  # fmt: skip


@pytest.mark.parametrize("following", EVIL_ADDRESSES)
def test_the_way_back_never_leaves_this_server(
    guarded: tuple[RunningServer, dict[str, str]], http: httpx.Client, following: str
) -> None:
    location = sign_in(http, guarded[1]["read"], following).headers["location"]
    assert location.startswith("./") and "\r" not in location and "\n" not in location
    landed = httpx.URL("http://here.example/login").join(location)
    assert (landed.scheme, landed.host) == ("http", "here.example")


def test_addresses_of_the_form_work_below_a_path_of_a_proxy() -> None:
    assert login_address(b"/links/" + b"%41" * 4_000, b"") == "../login"
    assert len(login_address(b"/" * 60_000, b"")) < 1_000
    assert login_address(b"/links/a%2Fb", b"last=7d") == "../login?next=links%2Fa%252Fb%3Flast%3D7d"
    assert login_address(b"/", b"") == "login"
    assert within("links/a%2Fb?last=7d") == "./links/a%2Fb?last=7d"


def test_a_header_still_counts_and_a_wrong_one_is_not_saved_by_a_cookie(
    guarded: tuple[RunningServer, dict[str, str]], http: httpx.Client
) -> None:
    sign_in(http, guarded[1]["read"])
    assert http.get("/v1/links", headers={"Authorization": "Bearer wrong"}).status_code == 401
    http.cookies.clear()
    assert http.get("/v1/links", headers={"Authorization": f"Bearer {guarded[1]['read']}"}).status_code == 200
    for cookie in ("clickcurve=wrong", "clickcurve=\x22", "clickcurve", "=;;=", "a=b; clickcurve=\xff"):
        assert http.get("/v1/links", headers=[(b"Cookie", cookie.encode("latin-1"))]).status_code == 401


def test_what_needs_no_token_still_needs_none(http: httpx.Client) -> None:
    for path in ("/healthz", "/docs", "/help", "/help/page", "/static/page.css", "/login"):
        assert http.get(path).status_code == 200
    assert http.get("/healthz", headers={"Origin": "http://other.example"}).status_code == 200


def test_a_revoked_token_is_out(guarded: tuple[RunningServer, dict[str, str]], http: httpx.Client) -> None:
    server, _ = guarded
    with token_book(server.data) as book:
        kept, token = book.add(TokenRequest("short", (Scope.read,)), 0)
        server.wait_until(lambda: sign_in(http, token).status_code == 303)  # noticed within five seconds
        assert book.remove(kept.id) == kept
    server.wait_until(lambda: http.get("/").status_code == 303)


def test_without_tokens_there_is_nothing_to_sign_in_to(pages: RunningServer) -> None:
    with http_client(pages.url) as http:
        assert http.get("/login").headers["location"] == "./"
        assert "set-cookie" not in sign_in(http, "whatever").headers
        assert "Sign out" not in http.get("/").text


def test_only_the_folders_owner_reads_what_is_kept(guarded: tuple[RunningServer, dict[str, str]]) -> None:
    server, _ = guarded
    assert (server.data / "tokens-copy.json").stat().st_mode & 0o777 == 0o600
