"""Cookies that are long or full of backslashes: no parser of a library sees them, on any route."""

from __future__ import annotations

import json
import socket
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from dashboard.page.login_routes import COOKIE
from server.http.gateway import cookie_of
from server.http.request_head import COOKIE_BYTES
from tests.hostile.loop_watch import WatchedServer

BACKSLASHES = 'a="' + "\\" * 8_000 + '"'


def ask(port: int, path: str, *fields: str) -> tuple[int, dict[str, object]]:
    """Status and document of an answer, and whether the connection was closed after it."""
    head = "\r\n".join((f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *fields, "", ""))
    with socket.create_connection(("127.0.0.1", port), timeout=600) as wire:
        wire.sendall(head.encode())
        answer = b""
        while piece := wire.recv(1 << 16):
            answer += piece
    shown, _, body = answer.partition(b"\r\n\r\n")
    return int(shown[9:12]), json.loads(body) if b"problem+json" in shown else {}


# Measured again: OtherThreads waits for a processor, too, and may miss that the thread which held the interpreter did.
@pytest.mark.flaky(reruns=2)
def test_cookies_that_a_library_reads_in_quadratic_time_hold_nobody_up(tmp_path: Path) -> None:
    with WatchedServer(tmp_path / "data") as server, server.watch() as seen:
        for path in ("/healthz", "/v1/links", "/", "/v1/nothing", "/docs"):
            status, problem = ask(server.port, path, f"Cookie: {BACKSLASHES}")
            assert (status, problem["field"]) == (400, "Cookie")
            assert "backslash" in str(problem["rule"])
            several = [f"Cookie: {'x' * 1_000}={'y' * 1_000}"] * 5
            status, problem = ask(server.port, path, *several)
            assert (status, problem["field"]) == (431, "Cookie")
            assert f"{COOKIE_BYTES:,} bytes" in str(problem["rule"])
    seen.check()


def test_cookies_of_other_programs_on_this_host_are_let_in(tmp_path: Path) -> None:
    notebook = (
        'Cookie: username-localhost-8888="2|1:0|10:1795414397|23:username|44:YWJjZGVm|9f"; _xsrf=2|a|b; theme=dark'
    )
    with WatchedServer(tmp_path / "data") as server:
        assert ask(server.port, "/healthz", notebook)[0] == 200
        assert ask(server.port, "/", notebook)[0] == 200
        assert ask(server.port, "/healthz", "Cookie: a=" + "b" * (COOKIE_BYTES - 2))[0] == 200


@pytest.mark.parametrize(
    ("sent", "token"),
    [
        ([], None),
        ([b""], None),
        ([b"clickcurve=cc_1a2b_x-Y_9"], b"cc_1a2b_x-Y_9"),
        ([b"a=b; clickcurve=cc_1; c=d"], b"cc_1"),
        ([b"a=b;clickcurve=cc_1;c"], b"cc_1"),
        ([b"a=b", b" clickcurve = cc_1 "], b"cc_1"),
        ([b"clickcurve=cc_1; clickcurve=cc_2"], b"cc_2"),
        ([b"xclickcurve=cc_1"], None),
        ([b"clickcurvex=cc_1"], None),
        ([b"a=clickcurve=cc_1"], None),
        ([b"Clickcurve=cc_1"], None),
        ([b"clickcurve="], None),
        ([b'clickcurve="cc_1"'], None),
        ([b"clickcurve=cc_1\xff"], None),
        ([b"clickcurve=" + b"x" * 300], None),
    ],
)
def test_the_token_is_read_from_our_own_cookie_alone(sent: list[bytes], token: bytes | None) -> None:
    headers = [(b"host", b"localhost"), *((b"cookie", value) for value in sent)]
    assert cookie_of({"headers": headers}) == (None if token is None else b"Bearer " + token)


def test_the_cookie_that_the_page_sets_is_read_again() -> None:
    made: SimpleCookie = SimpleCookie()
    made[COOKIE] = "cc_1a2b3c4d_" + "aZ09-_" * 7
    sent = made[COOKIE].OutputString()
    assert cookie_of({"headers": [(b"cookie", sent.encode())]}) == b"Bearer " + made[COOKIE].value.encode()
