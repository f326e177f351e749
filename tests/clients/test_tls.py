"""Clients and a server behind TLS: the certificate is checked, and hits are counted."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from testing.client import Clickcurve
from testing.program import running
from testing.server import ROOT, RunningServer, free_port

pytestmark = pytest.mark.needs("caddy", "node")

PYTHON = """
import sys
from clickcurve.client import Client
clicks = Client(sys.argv[1], gather_s=0)
clicks.hit("python", count=3)
print(clicks.flush(float(sys.argv[2])), clicks.delivered)
clicks.close(0)
"""
NODE = """
import { Client } from "%s";
const clicks = new Client(process.argv[2], { gatherMs: 0 });
clicks.hit("node", { count: 4 });
console.log(await clicks.flush(1000 * Number(process.argv[3])), clicks.delivered);
await clicks.close(0);
"""
CADDY = """
{
	admin off
	http_port %d
	skip_install_trust
}
https://localhost:%d {
	tls internal
	reverse_proxy %s
}
"""


def test_hits_go_through_tls_only_to_a_server_that_is_known(
    server: RunningServer, client: Clickcurve, tmp_path: Path
) -> None:
    port = free_port()
    (tmp_path / "Caddyfile").write_text(CADDY % (free_port(), port, server.url.removeprefix("http://")))
    (tmp_path / "program.mjs").write_text(NODE % (ROOT / "clients" / "js" / "clickcurve.js").as_uri())
    url = f"https://localhost:{port}"
    settings = {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    command = [shutil.which("caddy") or "", "run", "--config", str(tmp_path / "Caddyfile"), "--adapter", "caddyfile"]
    root = tmp_path / "caddy" / "pki" / "authorities" / "local" / "root.crt"
    python = [sys.executable, "-c", PYTHON, url]
    node = ["node", str(tmp_path / "program.mjs"), url]
    with running(command, tmp_path / "caddy.out", settings) as program:
        program.until(lambda: root.exists() and answers(url, root))
        assert said([*python, "0.5"], {"SSL_CERT_FILE": "/dev/null"}) == "False 0\n"
        assert said([*python, "60"], {"SSL_CERT_FILE": str(root)}) == "True 3\n"
        assert said([*node, "0.5"], {"NODE_EXTRA_CA_CERTS": ""}) == "false 0\n"
        assert said([*node, "60"], {"NODE_EXTRA_CA_CERTS": str(root)}) == "true 4\n"
    assert client.lifetimes(["python", "node"]) == {"python": 3, "node": 4}


def said(command: list[str], settings: dict[str, str]) -> str:
    environment = {**os.environ, **settings}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=True)
    return done.stdout


def answers(url: str, root: Path) -> bool:
    try:
        return httpx.get(f"{url}/healthz", verify=ssl.create_default_context(cafile=str(root))).status_code == 200
    except (httpx.TransportError, ssl.SSLError):
        return False
