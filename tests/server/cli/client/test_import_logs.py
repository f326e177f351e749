"""`clickcurve import` of logs that are not combined: what the summary tells, and what the flags do."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from server.cli.main import main
from testing.client import Clickcurve
from testing.server import RunningServer
from tests.ingest.imports.logs.kit import AT, FORMATS
from tests.server.cli.client.test_import import imported, line

OWN = '[$time_local]|$remote_addr|"$request"|$status|$request_id'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


def test_the_format_is_told(shared: RunningServer, log: Path) -> None:
    log.write_text(f"{FORMATS['IIS'].lines}\n".replace("/launch", "/told") * 2 + f"{FORMATS['Caddy'].lines}\n")
    text = imported(str(log), "--url", shared.url)
    assert "read as W3C (2), Caddy JSON (1)" in text
    told = CliRunner().invoke(main, ["import", str(log), "--label", "again", "--url", shared.url, "--json"])
    assert json.loads(told.output)["formats"] == {"W3C": 2, "Caddy JSON": 1}


def test_a_file_that_is_no_log_is_told_and_can_be_imported_by_its_format(shared: RunningServer, log: Path) -> None:
    log.write_text("".join(f'[20/May/2025:21:00:15 +0000]|10.0.0.1|"GET /own HTTP/1.1"|302|{n}\n' for n in range(9)))
    text = imported(str(log), "--url", shared.url, code=1)
    assert "9 bad" in text
    assert "no line could be read; the first one looks like a format of its own: name it by --format" in text
    assert "9 hits of people" in imported(str(log), "--format", OWN, "--url", shared.url)
    with Clickcurve(shared.url) as client:
        assert client.total("own")["total"] == 9


def test_what_nobody_shortens_is_proposed_and_left_out_on_demand(shared: RunningServer, log: Path) -> None:
    log.write_text("".join(line(path, minute=3) for path in ("/asked", "/favicon.ico", "/wp-login.php", "/caf%C3%A9")))
    text = imported(str(log), "--url", shared.url)
    assert "nobody shortens some of these; leave them out by --exclude favicon.ico --exclude 'wp-*'" in text
    flags = ("--exclude", "favicon.ico", "--exclude", "wp-*", "--label", "excluded", "--keys", "as-sent")
    text = imported(str(log), "--url", shared.url, *flags)
    assert "2 excluded" in text and "leave them out" not in text
    with Clickcurve(shared.url) as client:
        assert [client.total(key)["total"] for key in ("favicon.ico", "café", "caf%C3%A9")] == [1, 1, 1]


def test_a_name_for_the_client_that_the_format_has_not_is_told(shared: RunningServer, log: Path) -> None:
    log.write_text(line("/named", minute=7))
    text = imported(str(log), "--client-field", "http_x_forwarded_for", "--url", shared.url)
    assert "fields of combined have no names: give the number of the field, or last" in text


def test_a_zone_and_one_hit_a_click(shared: RunningServer, log: Path) -> None:
    haproxy = FORMATS["HAProxy"].lines.replace("/launch", "/zoned")
    log.write_text(f"{haproxy}\n{haproxy.replace(':05:03.584', ':05:04.001')}\n")
    text = imported(str(log), "--tz", "Europe/Vienna", "--once-per-click", "--url", shared.url)
    assert "2 lines read, 1 hit of people, 0 of bots" in text and "1 second line of a click" in text
    link = httpx.get(f"{shared.url}/v1/links/zoned").json()
    assert link["first_hit"] == AT - 2 * 3600


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--format", "combined"), "--format: the format has neither $names nor %letters; write nginx's log_format"),
        (("--format", '$status "$request"'), "no field for a time"),
        (("--format", OWN, "--client-field", "X-Real-IP"), "--client-field: the format has no field X-Real-IP"),
        (("--client-field", "0"), "fields are counted from 1"),
        (("--tz", "Vienna"), "--tz: tz 'Vienna' is not a time zone"),
        (("--from", "shlink", "--exclude", "x"), "of the flags for logs, --from takes --tz alone"),
    ],
)
def test_a_wrong_flag_is_refused_with_what_is_right(flags: tuple[str, ...], says: str, log: Path) -> None:
    log.write_text(line("/x"))
    assert says in imported(str(log), *flags, code=2)
