"""What an empty server says to run is run, as it stands there, and counts."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import httpx
import pytest

from testing.client import Clickcurve
from testing.server import ROOT
from tests.conftest import Serve


def code_of(page: str, tab: str) -> str:
    """The code of a tab, as text."""
    found = re.search(rf'<section class="pane" aria-label="{tab}">.*?<pre[^>]*><code>(.*?)</code>', page, re.DOTALL)
    assert found is not None, tab
    return unescape(re.sub("<.*?>", "", found[1]))


@pytest.mark.parametrize(
    ("tab", "command"),
    [
        pytest.param("curl", ["bash", "-c"], marks=pytest.mark.needs("bash", "curl")),
        ("Python", [sys.executable, "-c"]),
        pytest.param("JavaScript", ["node", "--input-type=module", "-e"], marks=pytest.mark.needs("node")),
        pytest.param("PHP, WordPress", ["php", "-r"], marks=pytest.mark.needs("php")),
    ],
)
def test_what_an_empty_server_says_to_run_counts(serve: Serve, tab: str, command: list[str]) -> None:
    server = serve()
    code = code_of(httpx.get(server.url, trust_env=False).text, tab)
    code = code.replace('"clickcurve-client"', f'"{(ROOT / "clients" / "js" / "clickcurve.js").as_uri()}"')
    subprocess.run([*command, code], check=True, capture_output=True, timeout=60, cwd=ROOT)
    with Clickcurve(server.url) as client:
        assert client.total()["total"] == 1


def test_the_log_that_an_empty_server_says_to_follow_is_counted(serve: Serve, tmp_path: Path) -> None:
    server, log = serve(), tmp_path / "access.log"
    said = code_of(httpx.get(server.url, trust_env=False).text, "nginx log")
    assert said == f"clickcurve import --follow /var/log/nginx/access.log --url {server.url}"
    log.write_text(
        '- - - [28/Nov/2025:10:00:00 +0000] "GET /launch HTTP/1.1" 302 0 "-" "Mozilla/5.0 (X11) Firefox/140.0"\n'
    )
    arguments = said.replace("/var/log/nginx/access.log", str(log)).replace("--follow ", "").split()[1:]
    subprocess.run(
        [sys.executable, "-m", "clickcurve", *arguments], check=True, capture_output=True, timeout=60, cwd=ROOT
    )
    with Clickcurve(server.url) as client:
        assert client.total()["total"] == 1
