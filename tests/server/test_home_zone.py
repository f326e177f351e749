"""A server whose people live in one zone: its page, pictures, mails and commands go by it; programs by UTC."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from clickcurve.buckets.errors import SettingInvalid
from dashboard.page.view import view_of
from dashboard.questions import in_zone
from query.zones import Zone, zone
from server.alerts.ledger import Ledger
from server.alerts.message import AlertMessage
from server.alerts.report import SENT_AT_S, PeriodicReport
from server.settings.alerts import parse_alerts
from server.settings.reading import read_settings
from server.settings.reports import Every, Report
from testing.client import http_client
from tests.conftest import Serve
from tests.server.alerts.test_watch import OVER
from tests.server.alerts.watched import WatchedNode
from tests.server.commands import said

KIRITIMATI = "Pacific/Kiritimati"  # 14 hours ahead: another day for most of the time


def test_the_setting_is_a_zone() -> None:
    assert read_settings({}, {}).home_tz == read_settings({"timezone": "Etc/UTC"}, {}).home_tz == ""
    assert read_settings({"timezone": "Europe/Vienna"}, {}).home_tz == "Europe/Vienna"
    with pytest.raises(SettingInvalid, match="it must be an IANA time zone"):
        read_settings({"timezone": "Vienna"}, {})


def test_an_address_that_names_a_zone_wins_and_no_address_holds_the_servers_own() -> None:
    view = view_of(b"last=7d", KIRITIMATI)
    assert b"tz=Pacific%2FKiritimati" in view.curve_query and "tz" not in view.address(step="1d")
    own = view_of(b"last=7d&tz=UTC", KIRITIMATI)
    assert own.zone_name == "UTC" and b"tz=UTC" in own.total_query and "tz=UTC" in own.address()
    assert in_zone(b"", KIRITIMATI) == b"tz=Pacific/Kiritimati"
    assert in_zone(b"last=7d&tz=UTC", KIRITIMATI) == b"last=7d&tz=UTC"
    assert in_zone(b"last=7d", "") == b"last=7d"


def test_page_pictures_and_commands_go_by_the_zone_and_programs_by_utc(serve: Serve) -> None:
    server = serve("--timezone", KIRITIMATI)
    with http_client(server.url) as http:
        http.post("/v1/hits/launch").raise_for_status()
        page = http.get("/links/launch").text
        assert f'placeholder="{KIRITIMATI}"' in page and "+14" in page
        assert 'placeholder="' + KIRITIMATI in http.get("/").text
        picture = http.get("/v1/links/launch/curve.svg?last=2d").text
        assert f"({KIRITIMATI})" in picture
        assert f"({KIRITIMATI})" not in http.get("/v1/links/launch/curve.svg?last=2d&tz=UTC").text
        assert http.get("/v1/links/launch/badge.json?last=1d").json()["message"] == "1"
        assert http.get("/v1/links/launch/curve?last=2d").json()["tz"] == "UTC"
        assert "tz=Pacific%2FKiritimati" in page
    settings = {"CLICKCURVE_TIMEZONE": KIRITIMATI}
    assert KIRITIMATI in said("total", "launch", "--url", server.url, env=settings)
    assert KIRITIMATI not in said("total", "launch", "--url", server.url, "--tz", "UTC", env=settings)
    curve = json.loads(said("curve", "launch", "--url", server.url, "--json", env=settings))
    assert curve["tz"] == KIRITIMATI


def test_the_weekly_report_comes_in_the_morning_of_the_zone() -> None:
    """Monday, 06:00 in Vienna, of the week from Monday to Sunday there; a changed zone repeats no report."""
    node, vienna = WatchedNode(OVER), zone("Europe/Vienna")
    monday = int(datetime(2026, 3, 2, tzinfo=ZoneInfo("Europe/Vienna")).timestamp())

    def visit(at: int, where: Zone = vienna) -> int:
        node.nodes.now = at
        ledger, clock = Ledger(node.store), lambda: float(node.nodes.now)
        report = PeriodicReport(
            Report(Every.week, ("a@example.org",)), node.nodes.queries, None, ledger, node.receiver.send, clock, where
        )
        asyncio.run(report.visit())
        return len(node.receiver.mails)

    node.nodes.now = monday
    node.nodes.hit("launch", monday - 1, 7)  # Sunday in Vienna, and still so in UTC
    node.nodes.hit("launch", monday, 1)  # Monday there, and Sunday in UTC
    assert visit(monday - 86_400) == 0
    assert visit(monday + SENT_AT_S - 1) == 0
    assert visit(monday + SENT_AT_S) == 1
    assert "from 23 February 2026 to 01 March 2026 (Europe/Vienna): 7;" in node.receiver.mails[0].text
    assert visit(monday + SENT_AT_S + 86_400, zone("America/New_York")) == 1
    assert visit(monday + SENT_AT_S + 86_400, zone("Asia/Tokyo")) == 1


def test_a_mail_of_an_alert_has_its_time_in_the_zone() -> None:
    message = AlertMessage(
        "id", "alert.fired", 1_772_323_200, parse_alerts([OVER | {"mail": ["a@example.org"]}])[0], (1, 1)
    )
    assert "since 2026-03-01T00:00:00Z." in message.text()
    assert "since 2026-03-01 01:00:00 CET." in message.text(zone("Europe/Vienna"))
