"""A real server asked by the programs that the routes are for (promtool, Prometheus), and with tokens."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import httpx
import pytest

from server.clock import now
from server.tokens.token import Scope
from testing.client import Clickcurve, http_client
from testing.program import running
from testing.server import RunningServer, free_port
from testing.tokens import add_token
from tests.conftest import Serve
from tests.server.conftest import wait_until

pytestmark = pytest.mark.needs("prometheus")

HITS = [{"key": "launch", "count": 3, "country": "DE", "ref": "https://news.example/"}, {"key": 'sp"ring', "count": 4}]


@pytest.fixture
def asked(shared: RunningServer) -> RunningServer:
    with Clickcurve(shared.url) as client:
        if not client.top()["links"]:
            client.send(HITS)
    return shared


def promtool(server: RunningServer, *arguments: str) -> str:
    done = subprocess.run(["promtool", "query", *arguments], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_promtool_reads_every_answer(asked: RunningServer) -> None:
    assert 'launch"} => 3 @' in promtool(asked, "instant", asked.url, 'increase(clicks{key="launch"}[1h])')
    greatest = "instant", asked.url, "topk(2, increase(clicks[1h]))"
    wait_until(lambda: 'sp\\"ring' in promtool(asked, *greatest))  # a ranking is kept for 20 times as long as it took
    found = promtool(asked, *greatest)
    assert found.index('sp\\"ring') < found.index("launch")
    assert "=> 7" in promtool(asked, "instant", asked.url, "sum(increase(clicks[1d]))")
    minute = int(now()) // 60 * 60
    of_an_hour = ("--start", str(minute - 3_600), "--end", str(minute + 60), "--step", "1m")
    along = promtool(asked, "range", *of_an_hour, asked.url, "sum by (key) (increase(clicks[1m]))")
    assert '{key="launch"} =>' in along
    assert "3 @[" in along
    assert "clicks" in promtool(asked, "series", "--match", 'clicks{key=~"l.*"}', asked.url)
    assert promtool(asked, "labels", asked.url, "key").split("\n")[0] == "launch"


def test_promtool_reads_hits_by_country_and_referrer(asked: RunningServer) -> None:
    by_country = promtool(asked, "instant", asked.url, 'sum by (country) (increase(clicks{key="launch"}[1d]))')
    assert by_country.startswith('{country="DE"} => 3 @')
    greatest = promtool(asked, "instant", asked.url, "topk(5, sum by (ref) (increase(clicks[1d])))")
    assert '{ref="news.example"} => 3 @' in greatest and "{} => 4 @" in greatest
    one = promtool(asked, "instant", asked.url, 'increase(clicks{key="launch",country="DE"}[1d])')
    assert 'country="DE"' in one and 'key="launch"' in one and "=> 3 @" in one
    hour = int(now()) // 3_600 * 3_600
    of_a_day = ("--start", str(hour - 82_800), "--end", str(hour + 3_600), "--step", "1h")
    along = promtool(asked, "range", *of_a_day, asked.url, "sum by (country) (increase(clicks[1h]))")
    assert '{country="DE"} =>' in along and "3 @[" in along
    assert "DE" in promtool(asked, "labels", asked.url, "country").split("\n")
    assert 'country="DE"' in promtool(asked, "series", "--match", 'clicks{key="launch",country=~".+"}', asked.url)


def test_promtool_shows_the_sentence_of_a_refusal(asked: RunningServer) -> None:
    refused = subprocess.run(
        ["promtool", "query", "instant", asked.url, "rate(clicks[5m])"], capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0
    assert "understood are: clicks{key=" in refused.stderr


def test_a_prometheus_scrapes_the_greatest_links(asked: RunningServer, tmp_path: Path) -> None:
    job = {
        "job_name": "links",
        "metrics_path": "/metrics/links",
        "params": {"top": ["200"]},
        "static_configs": [{"targets": [asked.url.removeprefix("http://")]}],
    }
    (tmp_path / "prometheus.yml").write_text(
        json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]})
    )  # JSON is YAML
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/tsdb",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with http_client(f"http://127.0.0.1:{port}") as prometheus, running(command, tmp_path / "out") as program:
        found: dict[str, str] = {}

        def scraped() -> bool:
            try:
                answer = prometheus.get("/api/v1/query", params={"query": "clickcurve_hits_total"})
            except httpx.TransportError:
                return False
            for one in answer.json()["data"]["result"] if answer.is_success else ():
                found[one["metric"]["key"]] = one["value"][1]
            return bool(found)

        program.until(scraped)
        assert found == {"launch": "3", 'sp"ring': "4"}


def test_a_question_by_post_needs_the_scope_read_and_is_no_write(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    tokens = {scope: add_token(data / "tokens.json", scope.value, (scope,), 0) for scope in Scope}
    settings = tmp_path / "limits.toml"
    settings.write_text('[limits.write]\nby = ["token", "ip"]\nrates = "2/h"\n')
    server = serve("--config", str(settings), data=data)
    with http_client(server.url) as http:

        def status(path: str, scope: Scope, form: dict[str, str]) -> int:
            return http.post(path, data=form, headers={"Authorization": f"Bearer {tokens[scope]}"}).status_code

        questions = [("/render", {"target": "total"}), ("/metrics/find", {"query": "*"}), ("/api/v1/labels", {})]
        for path, form in questions:
            assert status(path, Scope.write, form) == 403
            assert [status(path, Scope.read, form) for _ in range(3)] == [200] * 3
        assert http.post("/api/v1/query", data={"query": "1"}).status_code == 401
