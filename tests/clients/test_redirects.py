"""Middleware: which answers of an application are hits, and what is said of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from starlette.types import Receive, Scope, Send

from clickcurve.client import AsyncClient, Client, RedirectCounter
from clickcurve.client.asgi import ClickMiddleware
from clickcurve.client.wsgi import ClickWsgi
from testing.asgi import ask_app
from testing.client import Clickcurve
from testing.server import RunningServer

WITHIN_S = 600.0
BROWSER = {"User-Agent": "Mozilla/5.0", "Referer": "https://news.example/a", "Accept-Language": "de-AT,en;q=0.8"}


class Recorder:
    """Stands for a client."""

    def __init__(self) -> None:
        self.hits: list[dict[str, Any]] = []

    def hit(self, key: str, **fields: Any) -> None:
        self.hits.append({"key": key, **fields})


def shortener() -> FastAPI:
    app = FastAPI()

    @app.get("/{key:path}")
    def follow(key: str, status: int = 302) -> RedirectResponse:
        return RedirectResponse("https://example.org/", status)

    @app.post("/{key:path}")
    def post(key: str) -> RedirectResponse:
        return RedirectResponse("https://example.org/", 303)

    return app


def visit(app: Any, path: str, method: str = "GET", peer: str = "203.0.113.7", **headers: str) -> int:
    named = {**BROWSER, **headers}
    return ask_app(app, method, path, url="http://short.example", peer=peer, headers=named).status_code


def test_a_redirect_is_a_hit_with_what_the_browser_says() -> None:
    recorder = Recorder()
    app = shortener()
    app.add_middleware(ClickMiddleware, counter=RedirectCounter(recorder))
    assert visit(app, "/launch?utm_source=mail&utm_medium=&source=qr&x=1") == 302
    assert recorder.hits == [
        {
            "key": "launch",
            "ua": "Mozilla/5.0",
            "ref": "https://news.example/a",
            "lang": "de-AT,en;q=0.8",
            "ip": "203.0.113.7",
            "source": "qr",
            "utm": {"source": "mail"},
        }
    ]


@pytest.mark.parametrize(
    ("method", "path", "keys"),
    [
        ("GET", "/a%2Fb", ["a/b"]),
        ("GET", "/a/b", ["a/b"]),
        ("GET", "/caf%C3%A9", ["café"]),
        ("GET", "/%6caunch", ["launch"]),
        ("GET", "/%252F%F0%9F%9A%80", ["%2F🚀"]),
        ("GET", "/caf%e9%", ["caf%E9%"]),
        ("GET", "/", []),
        ("GET", "/launch?status=301", ["launch"]),
        ("GET", "/launch?status=308", ["launch"]),
        ("GET", "/launch?status=304", []),
        ("GET", "/launch?status=404", []),
        ("POST", "/launch", []),
    ],
)
def test_a_key_is_the_path_of_a_get_that_is_redirected(method: str, path: str, keys: list[str]) -> None:
    recorder = Recorder()
    visit(ClickMiddleware(shortener(), RedirectCounter(recorder)), path, method)
    assert [hit["key"] for hit in recorder.hits] == keys


def test_what_counts_and_what_is_said_can_be_chosen() -> None:
    recorder = Recorder()
    app = ClickMiddleware(shortener(), RedirectCounter(recorder, statuses=[404], prefix="/r/", fields=["ref"]))
    for path in ("/r/launch?status=404&utm_source=x", "/launch?status=404", "/r/launch", "/r/?status=404"):
        visit(app, path)
    assert recorder.hits == [{"key": "launch", "ref": "https://news.example/a"}]
    with pytest.raises(ValueError, match="'shoe'"):
        RedirectCounter(recorder, fields=["shoe"])


@pytest.mark.parametrize(
    ("trusted", "forwarded", "ip"),
    [
        ("", "198.51.100.1", "203.0.113.7"),
        ("203.0.113.0/24", "198.51.100.1", "198.51.100.1"),
        ("203.0.113.0/24", "192.0.2.1, 198.51.100.1", "198.51.100.1"),
        ("203.0.113.0/24", "2001:db8::1", "2001:db8::1"),
        ("203.0.113.0/24", "nonsense", None),
    ],
)
def test_an_address_is_believed_only_from_ones_own_proxy(trusted: str, forwarded: str, ip: str | None) -> None:
    recorder = Recorder()
    app = ClickMiddleware(shortener(), RedirectCounter(recorder, trusted_proxies=trusted))
    visit(app, "/launch", **{"X-Forwarded-For": forwarded})
    assert recorder.hits[0].get("ip") == ip


def test_a_peer_without_an_address_says_none() -> None:
    recorder = Recorder()
    visit(ClickMiddleware(shortener(), RedirectCounter(recorder)), "/launch", peer="testclient")
    assert "ip" not in recorder.hits[0]


def test_no_word_of_a_visitor_loses_the_hit(server: RunningServer, client: Clickcurve) -> None:
    """What the server would refuse a hit for is cut or left out."""
    hostile = {"Referer": b"https://x.example/" + b"\xc3\x84" * 2000, "Accept-Language": b"\t" + b"de," * 1000}
    query = "source=" + "q" * 200 + "&utm_source=a%0Ab&utm_medium=%ED%A0%80&utm_campaign=" + "c" * 3000

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 302, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask(clicks: AsyncClient) -> None:
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": "/launch",
            "raw_path": b"/launch",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value) for name, value in hostile.items()],
            "client": None,
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request"}

        async def send(message: Any) -> None:
            pass

        await ClickMiddleware(app, RedirectCounter(clicks))(scope, receive, send)

    async def run() -> tuple[int, int]:
        async with AsyncClient(server.url) as clicks:
            await ask(clicks)
            assert await clicks.flush(WITHIN_S)
            return clicks.delivered, clicks.dropped

    assert asyncio.run(run()) == (1, 0)
    assert client.total("launch")["total"] == 1


def test_other_scopes_pass_through() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def nothing(*message: Any) -> Any: ...

    asyncio.run(ClickMiddleware(app, RedirectCounter(Recorder()))({"type": "lifespan"}, nothing, nothing))
    assert seen == ["lifespan"]


AHEAD = [
    {"Sec-Purpose": "prefetch"},
    {"Sec-Purpose": "prefetch;prerender"},
    {"sec-purpose": "Prefetch;anonymous-client-ip"},
    {"Purpose": "prefetch"},
    {"X-Purpose": "preview"},
    {"X-Moz": "prefetch"},
]


@pytest.mark.parametrize("headers", AHEAD)
def test_a_browser_that_fetches_ahead_is_no_person(headers: dict[str, str]) -> None:
    asgi, wsgi = Recorder(), Recorder()
    visit(ClickMiddleware(shortener(), RedirectCounter(asgi)), "/launch", **headers)
    named = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in headers.items()}
    answered(ClickWsgi(redirecting, RedirectCounter(wsgi)), **named)
    assert [hit.get("bot") for hit in asgi.hits + wsgi.hits] == [True, True]


@pytest.mark.parametrize(
    "headers", [{}, {"Sec-Purpose": "x-prefetch"}, {"Purpose": "prefetching"}, {"X-Moz": "microsummary"}]
)
def test_a_browser_that_says_nothing_of_the_kind_is_a_person(headers: dict[str, str]) -> None:
    recorder = Recorder()
    visit(ClickMiddleware(shortener(), RedirectCounter(recorder)), "/launch", **headers)
    assert "bot" not in recorder.hits[0]


# --- WSGI -------------------------------------------------------------------------------------------------------------
def answered(app: Any, **environ: str) -> str:
    """The status that a WSGI application answers with."""
    said: list[str] = []

    def start(status: str, headers: Any, error: Any = None) -> Callable[[bytes], None]:
        said.append(status)
        return lambda body: None

    given = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": "/launch", "QUERY_STRING": "", **environ}
    assert b"".join(app(given, start)) == b"body"
    return said[0]


def redirecting(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("302 Found", [("Location", "https://example.org/")])
    return [b"body"]


@pytest.mark.parametrize(
    ("environ", "key"),
    [
        ({"PATH_INFO": "/launch"}, "launch"),
        ({"PATH_INFO": "/caf\xc3\xa9"}, "café"),
        ({"PATH_INFO": "/caf\xe9"}, "caf%E9"),
        ({"PATH_INFO": "/x", "RAW_URI": "/caf\xc3\xa9"}, "café"),
        ({"PATH_INFO": "/a/b", "RAW_URI": "/a%2Fb?x=1"}, "a/b"),
        ({"PATH_INFO": "/b", "REQUEST_URI": "/r/b", "SCRIPT_NAME": "/r"}, "r/b"),
        ({"PATH_INFO": "/b", "SCRIPT_NAME": "/r"}, "r/b"),
    ],
)
def test_a_wsgi_application_is_counted_alike(environ: dict[str, str], key: str) -> None:
    recorder = Recorder()
    app = ClickWsgi(redirecting, RedirectCounter(recorder))
    more = {
        "HTTP_USER_AGENT": "Mozilla/5.0",
        "HTTP_REFERER": "https://caf\xc3\xa9.example/",
        "REMOTE_ADDR": "203.0.113.7",
    }
    assert answered(app, **environ, **more, QUERY_STRING="utm_source=mail") == "302 Found"
    assert recorder.hits == [
        {
            "key": key,
            "ua": "Mozilla/5.0",
            "ref": "https://café.example/",
            "ip": "203.0.113.7",
            "utm": {"source": "mail"},
        }
    ]


def test_a_wsgi_answer_that_is_no_redirect_is_no_hit() -> None:
    def found(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response("200 OK", [], None)
        return [b"body"]

    recorder = Recorder()
    assert answered(ClickWsgi(found, RedirectCounter(recorder))) == "200 OK"
    assert answered(ClickWsgi(redirecting, RedirectCounter(recorder)), REQUEST_METHOD="HEAD") == "302 Found"
    assert recorder.hits == []


def test_hits_of_middleware_reach_the_server(server: RunningServer, client: Clickcurve) -> None:
    with Client(server.url) as clicks:
        app = ClickWsgi(redirecting, RedirectCounter(clicks))
        for _ in range(20):
            answered(app, HTTP_USER_AGENT="Mozilla/5.0")
        answered(app, HTTP_USER_AGENT="curl/8.5.0")
        assert clicks.flush(WITHIN_S)
    assert client.total("launch")["total"] == 20
    assert client.total("launch", bots="only")["total"] == 1
