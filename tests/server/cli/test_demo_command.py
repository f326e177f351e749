"""`clickcurve demo`: a year to look at within seconds, visitors of now, and nothing left behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clickcurve.buckets.errors import SettingInvalid
from server.app.serve import bind
from server.cli.serve import open_port
from server.settings.reading import read_settings
from testing.client import Clickcurve
from testing.program import running
from testing.server import RunningServer, command, free_port
from tests.server.conftest import wait_until


def test_a_demo_has_a_year_and_visitors_and_leaves_nothing(tmp_path: Path) -> None:
    port = free_port()
    log = tmp_path / "out"
    settings = {"TMPDIR": str(tmp_path)}
    with running(command("demo", "--port", str(port)), log, settings) as demo:
        demo.until(lambda: '"listening"' in log.read_text())
        assert [folder.name for folder in tmp_path.glob("clickcurve-demo-*")]
        with Clickcurve(f"http://127.0.0.1:{port}") as client:
            year = client.total(last="12mo")
            assert year["at_least"] > 300_000
            assert client.top(last="30d", limit=5)["links"][0]["count"] > 1_000
            best = client.http.get("/v1/links?event=sale&measure=value&last=30d").raise_for_status().json()["links"]
            assert len(best) >= 3 and all(link["value"] >= 1_900 * link["count"] > 0 for link in best)
            assert " EUR" in client.http.get("/v1/links/home/badge.json?event=sale&measure=value").json()["message"]
            before = client.total()["total"]
            wait_until(lambda: client.total()["total"] > before)
            countries = client.http.get("/v1/by/country", params={"last": "60m"}).raise_for_status().json()
            assert countries["values"]
            kinds = client.http.get("/v1/by/bot_kind", params={"last": "30d"}).raise_for_status().json()
            assert {"ai_crawler", "search", "preview"} <= {each["value"] for each in kinds["values"]}
        assert demo.stop() == 0
    assert list(tmp_path.glob("clickcurve-demo-*")) == []


def test_a_demo_in_a_folder_of_ones_own_is_filled_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    totals = []
    for _ in range(2):
        port = free_port()
        log = tmp_path / f"out-{port}"
        with running(command("demo", "--quiet", "--data", str(data), "--port", str(port)), log) as demo:
            demo.until(lambda: '"listening"' in log.read_text())  # noqa: B023  # called before the next round
            with Clickcurve(f"http://127.0.0.1:{port}") as client:
                totals.append(client.total()["total"])
            assert demo.stop() == 0
    assert totals[0] == totals[1] > 0


def test_a_demo_beside_a_server_on_the_usual_port_takes_a_free_one() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        unnamed = open_port(replace(read_settings({}, {}), port=port))
        assert unnamed not in (0, port)
        with pytest.raises(SettingInvalid, match="--port names another port"):
            open_port(read_settings({"port": str(port)}, {}))


def test_a_folder_that_a_server_holds_is_refused(shared: RunningServer, tmp_path: Path) -> None:
    log = tmp_path / "out"
    with running(command("demo", "--data", str(shared.data), "--port", str(free_port())), log) as demo:
        wait_until(lambda: "is held by" in log.read_text())
        assert demo.output().startswith("Error:")
