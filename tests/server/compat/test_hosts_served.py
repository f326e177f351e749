"""A server where hosts are in keys: events, logs and takeovers of two domains are links of their own, by every way."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.client import Clickcurve
from testing.server import run
from tests.conftest import Serve
from tests.ingest.imports.test_access_log import line

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
VISITS = "Date,Visited URL,Potential bot\n2026-01-01T00:00:00Z,https://b.example/launch,\n"


def log_of(*hosts: str) -> str:
    return "".join(f"{line('GET /launch HTTP/1.1', head=f'{host} 203.0.113.9 - - ')}\n" for host in hosts)


@pytest.mark.parametrize("hosts", ["in_key", "ignored"])
def test_two_domains_are_two_links_or_one(serve: Serve, tmp_path: Path, hosts: str) -> None:
    server = serve("--hosts", hosts)
    (tmp_path / "access.log").write_text(log_of("a.example", "A.example:80", "b.example"))
    (tmp_path / "visits.csv").write_text(VISITS)
    with Clickcurve(server.url) as client:
        for host in ("a.example", "b.example"):
            event = {"name": "pageview", "url": f"https://{host}/launch", "domain": host}
            assert client.http.post("/api/event", json=event, headers={"User-Agent": BROWSER}).status_code == 202
        for arguments in ((str(tmp_path / "access.log"),), ("--from", "shlink", str(tmp_path / "visits.csv"))):
            done = run("import", "--url", server.url, *arguments)
            assert done.returncode == 0, done.stdout + done.stderr
        under = {"a.example/launch": 3, "b.example/launch": 3} if hosts == "in_key" else {"launch": 6}
        assert client.lifetimes(["launch", "a.example/launch", "b.example/launch"]) == {
            **dict.fromkeys(("launch", "a.example/launch", "b.example/launch"), 0),
            **under,
        }
        path = "/v4/bitlinks/A.example/launch/clicks/summary"
        assert client.http.get(path).json()["total_clicks"] == max(under.values())
        listed = client.http.get("/v1/links", params={"sort": "key", "prefix": "a.example/"}).json()["links"]
        assert [each["key"] for each in listed] == (["a.example/launch"] if hosts == "in_key" else [])


def test_a_log_without_hosts_is_counted_under_the_one_that_is_given(serve: Serve, tmp_path: Path) -> None:
    server = serve("--hosts", "in_key")
    (tmp_path / "access.log").write_text(f"{line('GET /launch HTTP/1.1')}\n")
    skipped = run("import", "--url", server.url, str(tmp_path / "access.log"))
    assert "no host" in skipped.stdout
    run("import", "--url", server.url, "--label", "again", "--host", "A.example", str(tmp_path / "access.log"))
    with Clickcurve(server.url) as client:
        assert client.lifetimes(["launch", "a.example/launch"]) == {"launch": 0, "a.example/launch": 1}
    assert run("import", "--host", "a b", str(tmp_path / "access.log")).returncode == 2


def test_an_import_into_a_folder_goes_by_its_setting(tmp_path: Path, serve: Serve) -> None:
    data = tmp_path / "data"
    (tmp_path / "access.log").write_text(log_of("a.example"))
    done = run("import", "--data", str(data), str(tmp_path / "access.log"), CLICKCURVE_HOSTS="in_key")
    assert done.returncode == 0, done.stderr
    with Clickcurve(serve(data=data).url) as client:
        assert client.lifetimes(["launch", "a.example/launch"]) == {"launch": 0, "a.example/launch": 1}
