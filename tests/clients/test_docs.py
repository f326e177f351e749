"""What docs/clients.md shows is what happens."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest

from clickcurve.client.client import CLOSE_S, FLUSH_S, GATHER_S, MAX_BYTES, TIMEOUT_S
from clickcurve.client.outbox import BATCH_BYTES, BATCH_LINES
from clickcurve.client.sender import FIRST_PAUSE_S, LONGEST_ASKED_PAUSE_S, LONGEST_PAUSE_S, REPEATABLE_S
from testing.client import Clickcurve
from testing.program import running
from testing.server import ROOT, RunningServer, free_port, run

PAGE = (ROOT / "docs" / "clients.md").read_text()
ADDRESS = "http://127.0.0.1:8080"
BROWSER = {"User-Agent": "Mozilla/5.0"}


def shown(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_python_program_does_what_it_says(server: RunningServer, client: Clickcurve, tmp_path: Path) -> None:
    program = shown("python")[0].replace(ADDRESS, server.url).replace("/var/lib/shortener", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout == "4 0 0 0 {}\n"
    assert client.total("launch")["total"] == 4


def test_the_middleware_is_named_as_it_is() -> None:
    program = shown("python")[1]
    before = (
        "import asyncio\nclass App:\n    wsgi_app = add_middleware = staticmethod(lambda *a, **k: None)\napp = App()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", before + program], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "MIDDLEWARE" in program


@pytest.mark.needs("node")
def test_the_javascript_program_does_what_it_says(server: RunningServer, client: Clickcurve, tmp_path: Path) -> None:
    folder = tmp_path / "node_modules"
    folder.mkdir()
    (folder / "clickcurve-client").symlink_to(ROOT / "clients" / "js")
    program = shown("js")[0].replace(ADDRESS, server.url).replace("/var/lib/shortener", str(tmp_path))
    before = 'import express from "express";\nconst app = express();\n'
    (tmp_path / "program.mjs").write_text(before.replace('"express"', '"/usr/share/nodejs/express/index.js"') + program)
    done = subprocess.run(
        ["node", str(tmp_path / "program.mjs")],
        env={**os.environ, "NODE_PATH": "/usr/share/nodejs"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1 0 0 0 {}\n"), done.stderr
    assert client.total("launch")["total"] == 1


@pytest.mark.needs("caddy")
def test_caddy_s_log_is_counted(server: RunningServer, client: Clickcurve, tmp_path: Path) -> None:
    port = free_port()
    (text,) = shown("caddy")
    site = text.replace("short.example", f"http://127.0.0.1:{port}").replace("/var/log/caddy", str(tmp_path))
    (tmp_path / "Caddyfile").write_text("{\n\tadmin off\n}\n" + site)
    settings = {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    command = [shutil.which("caddy") or "", "run", "--config", str(tmp_path / "Caddyfile"), "--adapter", "caddyfile"]
    log = tmp_path / "access.log"
    with (
        running(command, tmp_path / "caddy.out", settings) as program,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=BROWSER, trust_env=False) as browser,
    ):
        program.until(lambda: redirects(browser))
        for _ in range(5):
            assert redirects(browser)
        program.until(lambda: log.exists() and log.read_text().count('"status":302') >= 6)
    visits = log.read_text().count('"status":302')
    done = run("import", str(log), CLICKCURVE_URL=server.url)
    assert done.returncode == 0, done.stderr
    assert client.total("launch")["total"] == visits


def redirects(browser: httpx.Client) -> bool:
    try:
        return browser.get("/launch").status_code == 302
    except httpx.TransportError:
        return False


def test_the_numbers_are_those_of_the_source() -> None:
    said = {
        f"at most {BATCH_LINES:,} lines or {BATCH_BYTES // 1024} KiB",
        f"else {FIRST_PAUSE_S} seconds, doubling up to {LONGEST_PAUSE_S:.0f}",
        f"after {REPEATABLE_S // 3600} hours",
        f"`max_bytes`, {MAX_BYTES // 2**20} MiB",
        f"| `gather_s` | how long a hit waits for others, in seconds | {GATHER_S:.0f} |",
        f"| `timeout_s` | of one try, in seconds | {TIMEOUT_S:.0f} |",
    }
    assert {text for text in said if text not in PAGE} == set()
    assert (LONGEST_ASKED_PAUSE_S, FLUSH_S, CLOSE_S) == (600, 10, 5)
    assert "(ten minutes at most)" in PAGE
    assert "ten seconds at most" in PAGE
    assert "five seconds at most" in PAGE


def test_both_languages_have_the_program_s_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert json.loads((ROOT / "clients" / "js" / "package.json").read_text())["version"] == version
    plugin = (ROOT / "examples" / "yourls" / "clickcurve" / "plugin.php").read_text()
    assert f"Version: {version}\n" in plugin


def test_both_languages_have_the_same_numbers() -> None:
    sources = "".join((ROOT / "clients" / "js" / name).read_text() for name in ("clickcurve.js", "outbox.js"))
    numbers = {
        "BATCH_LINES": BATCH_LINES,
        "FIRST_PAUSE_MS": FIRST_PAUSE_S * 1000,
        "LONGEST_PAUSE_MS": LONGEST_PAUSE_S * 1000,
        "LONGEST_ASKED_PAUSE_MS": LONGEST_ASKED_PAUSE_S * 1000,
    }
    for name, value in numbers.items():
        (found,) = re.findall(rf"const {name} = ([\d_]+);", sources)
        assert int(found) == value, name
    assert "const REPEATABLE_S = 47 * 3600;" in sources
    assert "const BATCH_CHARACTERS = 256 * 1024;" in sources
