"""An import of an access log divides what it counts, as the hits themselves would be."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer, run
from tests.conftest import Serve
from tests.ingest.imports.test_log_attributes import BOT, line

LINES = [
    line(),
    line(address="8.8.8.8", ref="https://t.co/abc"),
    line("b?qr=1", ref="-"),
    line(agent=BOT),
    '193.99.144.80 - - [25/Feb/2026:06:14:00 +0000] "GET /a HTTP/1.1" 302 12',
]


def by(server: RunningServer, dimension: str, key: str = "a") -> dict[str, int]:
    with Clickcurve(server.url, fresh=True) as client:
        answer = client.http.get(f"/v1/links/{key}/by/{dimension}").json()
    return {value["value"]: value["at_least"] for value in answer["values"] if value["at_least"]}


@pytest.mark.parametrize("into", ["server", "folder"])
def test_an_import_divides_what_it_counts(serve: Serve, data: Path, tmp_path: Path, into: str) -> None:
    log, config = tmp_path / "access.log", tmp_path / "settings.toml"
    log.write_text("\n".join(LINES) + "\n")
    config.write_text('[breakdown]\ndimensions = ["ref", "country", "device", "source", "bot"]\n')
    flags = ("--config", str(config))
    if into == "server":
        server = serve(*flags, data=data)
        output = run("import", "--url", server.url, str(log))
    else:
        output = run("import", "--data", str(data), *flags, str(log))
        server = serve(*flags, data=data)
    assert output.returncode == 0, output.stderr
    assert "5 lines read, 4 hits of people, 1 of bots, 0 bad" in output.stdout
    assert by(server, "ref") == {"news.example": 1, "x.com": 1, "": 1}
    assert by(server, "country") == {"DE": 2, "US": 1}
    assert by(server, "device") == {"phone": 2, "": 1}
    assert by(server, "bot") == {"Googlebot": 1}
    assert by(server, "source", "b") == {"qr": 1}


def test_an_import_may_leave_dimensions_out(serve: Serve, data: Path, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("\n".join(LINES) + "\n")
    server = serve("--breakdown-dimensions", "ref,country,source", data=data)
    output = run("import", "--url", server.url, "--dimensions", "source", "--no-visitors", str(log))
    assert output.returncode == 0, output.stderr
    assert (by(server, "ref"), by(server, "source", "b")) == ({"": 3}, {"qr": 1})
    assert run("import", "--url", server.url, "--dimensions", "colour", str(log)).returncode == 2
