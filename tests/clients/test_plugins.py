"""The examples for other shorteners, run as these run them: YOURLS under PHP, Kutt under Node, a worker."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

import httpx
import pytest

from server.tokens.token import Scope
from testing.client import Clickcurve, http_client
from testing.program import Program, running
from testing.server import ROOT, RunningServer, free_port
from testing.tokens import add_token
from tests.clients.scripted import NEVER, Reply, scripted
from tests.conftest import Serve

pytestmark = pytest.mark.needs("php", "node", "browser")

EXAMPLES = ROOT / "examples"
BROWSER = {"User-Agent": "Mozilla/5.0", "Referer": "https://news.example/"}

# What YOURLS does of its plugins' interface around a redirect: an action gives its arguments as one array.
YOURLS = """<?php
define('YOURLS_ABSPATH', __DIR__);
define('CLICKCURVE_URL', getenv('URL'));
define('CLICKCURVE_SPOOL', getenv('SPOOL'));
if (getenv('READ_TOKEN')) define('CLICKCURVE_READ_TOKEN', getenv('READ_TOKEN'));
$actions = [];
function yourls_add_action($hook, $function) { global $actions; $actions[$hook] = $function; }
function yourls_get_IP() { return $_SERVER['REMOTE_ADDR']; }
require getenv('PLUGIN');
if (str_starts_with($_SERVER['REQUEST_URI'], '/stats/')) {
    $actions['pre_yourls_info_stats']([rawurldecode(substr($_SERVER['REQUEST_URI'], 7))]);
    return;
}
$keyword = ltrim(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), '/');
if ($keyword === 'none') { http_response_code(404); return; }
$actions['redirect_shorturl'](['https://example.org/', $keyword]);
header('Location: https://example.org/', true, 301);
"""


class Yourls:
    """PHP's own server with the plugin, reporting to a port."""

    def __init__(self, folder: Path, clicks_port: int) -> None:
        self.spool = folder / "clicks"
        self.port = free_port()
        (folder / "index.php").write_text(YOURLS)
        plugin = EXAMPLES / "yourls" / "clickcurve" / "plugin.php"
        self.settings = {"URL": f"http://127.0.0.1:{clicks_port}", "SPOOL": str(self.spool), "PLUGIN": str(plugin)}
        self.told_file = folder / "clicks.adjusted"
        self.command = ["php", "-S", f"127.0.0.1:{self.port}", str(folder / "index.php")]

    def told(self) -> str:
        return self.told_file.read_text() if self.told_file.exists() else ""


@pytest.fixture
def clicks_port() -> int:
    return free_port()


@pytest.fixture
def yourls(tmp_path: Path, clicks_port: int) -> Iterator[tuple[Yourls, Program, httpx.Client]]:
    made = Yourls(tmp_path, clicks_port)
    browser = httpx.Client(base_url=f"http://127.0.0.1:{made.port}", headers=BROWSER, trust_env=False)
    with running(made.command, tmp_path / "php.log", made.settings) as program, browser:
        program.until(lambda: answers(browser, "/none", 404))
        yield made, program, browser


class Visitor:
    """Asks for redirects, as one agent. Each takes along what waits; if the server is late, that waits for the next."""

    def __init__(self, browser: httpx.Client, headers: dict[bytes, bytes]) -> None:
        self.redirects = 0
        self._browser, self._headers = browser, headers

    def ask(self) -> None:
        assert self._browser.get("/launch", headers=self._headers).status_code == 301
        self.redirects += 1

    def until(self, program: Program, spool: Path, came: Callable[[], bool]) -> None:
        """Asks once, and again whenever hits wait, until they came."""
        self.ask()

        def came_at_last() -> bool:
            if spool.exists():
                self.ask()
            return came()

        program.until(came_at_last)


def answers(browser: httpx.Client, path: str, status: int) -> bool:
    try:
        return browser.get(path).status_code == status
    except httpx.TransportError:
        return False


def test_yourls_logs_words_that_were_cut_once_a_minute(yourls: tuple[Yourls, Program, httpx.Client]) -> None:
    made, program, browser = yourls

    item = {"index": 0, "status": "adjusted", "field": "ref", "value": "x", "reason": "ref is cut"}
    receipt = {"counted": 1, "duplicate": 0, "late": 0, "refused": 0, "items": [item], "adjusted": 1}
    cut = Reply(200, json.dumps(receipt).encode())
    with scripted(cut, cut, cut) as server:
        program.stop()
        made.settings["URL"] = server.url
        with running(made.command, made.spool.parent / "php2.log", made.settings) as again:
            again.until(lambda: answers(browser, "/none", 404))
            for _ in range(3):
                assert browser.get("/launch").status_code == 301
            again.until(lambda: len(server.posts) == 3 and made.told().split()[:1] == ["2"])
            assert again.output().count("hits counted without a word") == 1
            assert "clickcurve: 1 hits counted without a word of theirs: ref is cut" in again.output()


def test_yourls_reports_each_redirect_once_also_what_came_while_the_server_was_away(
    yourls: tuple[Yourls, Program, httpx.Client], serve: Serve, clicks_port: int
) -> None:
    made, program, browser = yourls
    for _ in range(5):
        answer = browser.get("/launch")
        assert (answer.status_code, answer.headers["location"], answer.content) == (301, "https://example.org/", b"")
    program.until(lambda: made.spool.exists() and made.spool.read_text().count("\n") == 5)
    kept = [json.loads(line) for line in made.spool.read_text().splitlines()]
    assert {hit["key"] for hit in kept} == {"launch"}
    assert len({hit["id"] for hit in kept}) == 5
    assert not any("ip" in hit for hit in kept)
    assert kept[0]["ref"] == "https://news.example/"
    server = serve(port=clicks_port)
    with Clickcurve(server.url) as client:
        curl = Visitor(browser, {b"User-Agent": b"curl/8"})
        curl.until(program, made.spool, lambda: client.total("launch", bots="only")["total"] == curl.redirects)
        assert client.total("launch")["total"] == 5
        program.until(lambda: not Path(f"{made.spool}.sending").exists())
        for hit in kept:  # whatever a crash sends again has its id
            client.send(hit)
        assert client.total("launch")["total"] == 5
    assert not made.spool.exists()
    assert "refused" not in program.output()


def test_yourls_loses_no_hit_to_what_a_browser_says(
    yourls: tuple[Yourls, Program, httpx.Client], serve: Serve, clicks_port: int
) -> None:
    made, program, browser = yourls
    server = serve(port=clicks_port)
    hostile = {
        b"Referer": b"https://x.example/" + b"\xff" * 3000,
        b"Accept-Language": b"\xc2\x85" * 800,
        b"User-Agent": b"M\t\xe4",
    }
    with Clickcurve(server.url) as client:
        visitor = Visitor(browser, hostile)
        visitor.until(program, made.spool, lambda: client.total("launch")["total"] == visitor.redirects)
        assert browser.head("/launch").status_code == 301
        assert browser.get("/ahead", headers={"Sec-Purpose": "prefetch;prerender"}).status_code == 301
        program.until(lambda: client.total("ahead", bots="only")["total"] == 1)
        assert client.total("ahead")["total"] == 0
    assert "refused" not in program.output()


def test_yourls_shows_the_curve_in_its_statistics_and_no_token(tmp_path: Path, clicks_port: int) -> None:
    tokens = tmp_path / "data" / "tokens.json"
    read, write = (add_token(tokens, name, (Scope(name),)) for name in ("read", "write"))
    made = Yourls(tmp_path, clicks_port)
    browser = httpx.Client(base_url=f"http://127.0.0.1:{made.port}", headers=BROWSER, trust_env=False)
    with running(made.command, tmp_path / "php.log", made.settings | {"READ_TOKEN": read}) as program, browser:
        program.until(lambda: answers(browser, "/none", 404))
        assert "does not answer" in browser.get("/stats/launch").text
        with RunningServer(tmp_path / "data", port=clicks_port) as server, http_client(server.url) as http:
            named = {"Authorization": f"Bearer {write}"}
            assert http.post("/v1/hits", json={"key": "a/ü'<", "count": 41}, headers=named).json()["counted"] == 41
            page = browser.get("/stats/" + quote("a/ü'<", safe="")).text
        assert "<strong>41</strong> hits of people in all" in page
        picture = base64.b64decode(page.partition("base64,")[2].partition("'")[0])
        assert ElementTree.fromstring(picture).tag.endswith("svg")
        assert read not in page


def test_a_visitor_of_yourls_does_not_wait_for_a_server_that_never_answers(tmp_path: Path) -> None:
    with scripted(NEVER) as server:
        made = Yourls(tmp_path, int(server.url.rpartition(":")[2]))
        browser = httpx.Client(base_url=f"http://127.0.0.1:{made.port}", headers=BROWSER, trust_env=False)
        with running(made.command, tmp_path / "php.log", made.settings) as program, browser:
            program.until(lambda: answers(browser, "/none", 404))
            assert browser.get("/launch").status_code == 301
            assert not made.spool.exists(), "the plugin gives up after two seconds, long after the visitor went on"
            program.until(lambda: made.spool.exists())
            assert len(server.wait_for(1)) == 1


# Kutt's routes as far as redirects go, on Express, which Kutt stands on.
KUTT = """
const express = require("express");
const app = express();
app.get("/login", (req, res) => res.redirect("/"));
app.get("/api/:id", (req, res) => res.redirect("https://example.org/api"));
app.get("/:id", (req, res) => res.redirect(req.params.id === "none" ? "/404" : "https://example.org/"));
app.listen(Number(process.env.PORT), "127.0.0.1");
"""


def test_kutt_is_reported_by_what_node_says_of_its_answers(
    server: RunningServer, client: Clickcurve, tmp_path: Path
) -> None:
    (tmp_path / "server.js").write_text(KUTT)
    port = free_port()
    settings = {
        "PORT": str(port),
        "NODE_PATH": "/usr/share/nodejs",
        "CLICKCURVE_URL": server.url,
        "CLICKCURVE_SPOOL": str(tmp_path / "clicks"),
        "NODE_OPTIONS": f"--import {EXAMPLES / 'kutt' / 'clickcurve-kutt.mjs'}",
    }
    with (
        running(["node", str(tmp_path / "server.js")], tmp_path / "kutt.log", settings) as program,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=BROWSER, trust_env=False) as browser,
    ):
        program.until(lambda: answers(browser, "/login", 302))
        for path in ["/launch"] * 7 + ["/none", "/api/x", "/caf%C3%A9?utm_source=mail"]:
            assert browser.get(path).status_code == 302
        assert browser.head("/launch").status_code == 302
        assert program.stop() == -15, program.output()
    assert client.lifetimes(["launch", "none", "login", "api/x", "café"]) == {
        "launch": 7,
        "none": 0,
        "login": 0,
        "api/x": 0,
        "café": 1,
    }
    assert not (tmp_path / "clicks").exists()


WORKER = """
import worker from "%s";
const links = { get: async (key) => (key === "launch" ? "https://example.org/" : null) };
const env = { LINKS: links, CLICKCURVE_URL: process.argv[2], CLICKCURVE_TOKEN: "" };
const after = [];
const context = { waitUntil: (promise) => after.push(promise) };
const ask = async (path, method, country) => {
  const request = new Request(`https://short.example${path}`, { method, headers: { "User-Agent": "Mozilla/5.0" } });
  request.cf = { country };
  return (await worker.fetch(request, env, context)).status;
};
const said = [await ask("/launch", "GET", "AT"), await ask("/launch", "GET", "T1"), await ask("/launch", "GET", "XX")];
said.push(await ask("/launch", "HEAD"), await ask("/none", "GET"), await ask("/", "GET"));
console.log(JSON.stringify(said));
await Promise.all(after);
"""


def test_a_worker_answers_first_and_reports_then(server: RunningServer, client: Clickcurve, tmp_path: Path) -> None:
    (tmp_path / "ask.mjs").write_text(WORKER % (EXAMPLES / "worker" / "worker.js").as_uri())
    command = ["node", str(tmp_path / "ask.mjs"), server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert json.loads(done.stdout) == [302, 302, 302, 302, 404, 404], done.stderr
    assert client.total("launch")["total"] == 3
    assert done.stderr == "" or "MODULE_TYPELESS" in done.stderr
