"""The example redirector for real: visitors get their 302 at once, and every hit counts once, whatever happens."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from testing.client import Clickcurve
from testing.program import Program, running
from testing.server import free_port
from tests.conftest import Serve

BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
ROBOT = {"User-Agent": "Mozilla/5.0 (compatible; Googlebot/2.1)"}


@contextmanager
def redirector(url: str, folder: Path) -> Iterator[tuple[httpx.Client, Program]]:
    """The redirector, reporting to `url`, and a browser that talks to it and does not follow redirects."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "examples.redirector.app:app", "--port", str(port)]
    settings = {"CLICKCURVE_URL": url, "no_proxy": "127.0.0.1"}
    with (
        running(command, folder / "redirector.log", settings) as program,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=BROWSER, trust_env=False) as browser,
    ):
        program.until(lambda: answers(browser))
        yield browser, program


def answers(browser: httpx.Client) -> bool:
    try:
        return browser.get("/").status_code == 404
    except httpx.TransportError:
        return False


def end(program: Program) -> None:
    """Tell it to end; what is queued is sent first. uvicorn ends by the signal that it was told by."""
    assert program.stop() in (0, -signal.SIGTERM)
    assert "Application shutdown complete" in program.output()


def visit(browser: httpx.Client, path: str, times: int, **headers: str) -> None:
    for _ in range(times):
        answer = browser.get(path, headers=headers)
        assert (answer.status_code, answer.headers["location"][:20]) == (302, "https://example.org/")


def test_every_visit_is_reported(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    with redirector(server.url, tmp_path) as (browser, program), Clickcurve(server.url) as client:
        visit(browser, "/launch", 30)
        visit(browser, "/a/b?utm_source=x", 5)
        visit(browser, "/launch", 4, **ROBOT)
        assert browser.head("/launch").status_code == 302
        assert browser.get("/none").status_code == 404
        end(program)
        assert client.lifetimes(["launch", "a/b", "none"]) == {"launch": 30, "a/b": 5, "none": 0}
        assert client.total("launch", bots="only")["total"] == 4


@pytest.mark.slow
def test_visitors_do_not_notice_that_the_counter_is_away(serve: Serve, tmp_path: Path) -> None:
    port = free_port()
    with redirector(f"http://127.0.0.1:{port}", tmp_path) as (browser, program):
        visit(browser, "/launch", 20)
        program.until(lambda: "hits wait: no connection" in program.output())
        server = serve(port=port)
        visit(browser, "/launch", 20)
        with Clickcurve(server.url) as client:
            program.until(lambda: bool(client.total("launch")["total"] == 40))


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2])
def test_a_counter_that_is_killed_counts_every_visit_once(serve: Serve, tmp_path: Path, kills: int) -> None:
    server = serve()
    with redirector(server.url, tmp_path) as (browser, program):
        for _ in range(kills):
            visit(browser, "/launch", 50)
            server.kill()
            visit(browser, "/launch", 50)
            server.start()
        end(program)
        with Clickcurve(server.url) as client:
            assert client.total("launch")["total"] == 100 * kills


@pytest.mark.slow
def test_what_cannot_be_reported_at_the_end_is_told(tmp_path: Path) -> None:
    with redirector(f"http://127.0.0.1:{free_port()}", tmp_path) as (browser, program):
        visit(browser, "/docs", 7)
        end(program)
        assert "7 hits could not be reported" in program.output()
