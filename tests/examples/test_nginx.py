"""The example nginx for real: its log is followed, rotated, and imported again; each redirect counts once."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from testing.client import Clickcurve
from testing.program import Program, running
from testing.server import ROOT, RunningServer, command, free_port, run

pytestmark = pytest.mark.needs("nginx")

BROWSER = {"User-Agent": 'Mozilla/5.0 (X11; Linux x86_64) "quoted" Firefox/140.0'}
ROBOT = {"User-Agent": "Mozilla/5.0 (compatible; Googlebot/2.1)"}
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"


class Nginx:
    """nginx on a free port, with the example's configuration in a folder of its own."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.access_log = folder / "logs" / "access.log"
        (folder / "logs").mkdir(parents=True)
        example = ROOT / "examples" / "nginx"
        shutil.copy(example / "links.map", folder)
        text = (example / "nginx.conf").read_text()
        assert "127.0.0.1:9001" in text
        (folder / "nginx.conf").write_text(text.replace("127.0.0.1:9001", f"127.0.0.1:{port}"))
        self.browser = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=BROWSER, trust_env=False)

    @property
    def command(self) -> list[str]:
        # As root its workers would be nobody, who may not open a log in a test's folder again.
        user = "" if os.geteuid() else "user root;"
        return [NGINX, "-p", str(self.folder), "-c", "nginx.conf", "-g", f"daemon off; {user}"]

    def answers(self) -> bool:
        try:
            return self.browser.get("/").status_code == 404
        except httpx.TransportError:
            return False

    def visit(self, path: str, times: int, **headers: str) -> None:
        for _ in range(times):
            assert self.browser.get(path, headers=headers).status_code == 302


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[tuple[Nginx, Program]]:
    shortener = Nginx(tmp_path / "nginx", free_port())
    with running(shortener.command, tmp_path / "nginx.out") as program:
        program.until(shortener.answers)
        yield shortener, program
    shortener.browser.close()


def imported(path: Path, server: RunningServer) -> str:
    output = run("import", str(path), "--url", server.url)
    assert output.returncode == 0, output.stderr
    return output.stdout


def test_the_log_is_followed_through_a_rotation(
    nginx: tuple[Nginx, Program], server: RunningServer, client: Clickcurve, tmp_path: Path
) -> None:
    shortener, program = nginx
    follow = command("import", "--follow", str(shortener.access_log), "--url", server.url)
    with running(follow, tmp_path / "follow.out") as follower:
        shortener.visit("/launch", 20)
        shortener.visit("/a/b?x=1", 3)
        shortener.visit("/launch", 4, **ROBOT)
        assert shortener.browser.head("/launch").status_code == 302
        assert shortener.browser.get("/none").status_code == 404
        follower.until(lambda: bool(client.total("launch", bots="include")["total"] == 24))

        moved = shortener.access_log.rename(shortener.access_log.with_name("access.log.1"))
        shortener.visit("/launch", 5)  # nginx still writes into the file that was moved
        program.tell(signal.SIGUSR1)
        program.until(shortener.access_log.exists)
        shortener.visit("/docs", 6)
        follower.until(lambda: client.lifetimes(["launch", "docs"]) == {"launch": 25, "docs": 6})

        follower.kill()
        shortener.visit("/docs", 2)
    packed = moved.with_suffix(".gz")
    packed.write_bytes(gzip.compress(moved.read_bytes()))
    moved.unlink()
    assert "counted 0" in imported(packed, server)
    assert "counted 2" in imported(shortener.access_log, server)
    assert client.lifetimes(["launch", "a/b", "docs", "none"]) == {"launch": 25, "a/b": 3, "docs": 8, "none": 0}
    assert client.total("launch", bots="only")["total"] == 4


def test_the_combined_format_counts_the_same(
    nginx: tuple[Nginx, Program], server: RunningServer, client: Clickcurve
) -> None:
    shortener, program = nginx
    conf = shortener.folder / "nginx.conf"
    conf.write_text(conf.read_text().replace("access.log clickcurve", "combined.log combined"))
    program.tell(signal.SIGHUP)
    combined = shortener.access_log.with_name("combined.log")
    program.until(combined.exists)
    program.until(lambda: shortener.answers() and combined.stat().st_size > 0)  # the new workers have taken over
    shortener.visit("/launch", 7)
    assert program.stop(signal.SIGQUIT) == 0
    imported(shortener.access_log, server)
    imported(combined, server)
    assert client.total("launch")["total"] == 7
