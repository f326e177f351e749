"""Grafana's example: each of its requests, as the data sources would send it, is answered by a real server."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from server.app.parts import FAMILIES
from testing.client import Clickcurve
from testing.server import ROOT, RunningServer
from tests.server.conftest import wait_until

EXAMPLE = ROOT / "examples" / "grafana"
DASHBOARDS = {file.stem: json.loads(file.read_text()) for file in sorted((EXAMPLE / "dashboards").glob("*.json"))}
SAID = {"ref": "https://news.example/", "country": "AT"}
# What Grafana puts in the place of its variables.
VARIABLES = {
    "$link": "{launch,spring%2Esale}",
    "$event": "sale",
    "$__range": "86400s",
    "$__interval": "300s",
    "$__rate_interval": "300s",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clickcurve]:
    settings = {"CLICKCURVE_EVENTS_NAMES": "sale"}
    folder = tmp_path_factory.mktemp("grafana") / "data"
    with RunningServer(folder, settings=settings) as running, Clickcurve(running.url) as client:
        sale = {"key": "launch", "event": "sale", "value": 4990, "count": 2}
        client.send([{"key": "launch", "count": 3, **SAID}, {"key": "spring.sale", "count": 4}, sale])
        yield client


def source_types() -> dict[str, str]:
    """The data sources that are provisioned: uid -> type."""
    provisioned = yaml.safe_load((EXAMPLE / "provisioning" / "datasources" / "clickcurve.yaml").read_text())
    return {source["uid"]: source["type"] for source in provisioned["datasources"]}


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels of a board, also those of a row that is shut: Grafana asks for these when it is opened."""
    return [each for panel in board["panels"] for each in (panel["panels"] if panel["type"] == "row" else [panel])]


def targets(uid: str) -> list[dict[str, Any]]:
    return [
        target
        for board in DASHBOARDS.values()
        for panel in panels(board)
        if panel["datasource"]["uid"] == uid
        for target in panel["targets"]
    ]


def filled(text: str) -> str:
    for name in sorted(VARIABLES, key=len, reverse=True):
        text = text.replace(name, VARIABLES[name])
    assert "$" not in text, f"a variable that nobody fills: {text}"
    return text


def hits_in(answer: httpx.Response) -> list[float]:
    assert answer.status_code == 200, answer.text
    return [sum(value for value, _ in series["datapoints"] if value is not None) for series in answer.json()]


def test_the_boards_use_sources_that_are_provisioned() -> None:
    types = source_types()
    for board in DASHBOARDS.values():
        for panel in [*panels(board), *board["templating"]["list"]]:
            assert types[panel["datasource"]["uid"]] == panel["datasource"]["type"], panel
        rows = [panel for panel in board["panels"] if panel["type"] == "row"]
        ids = [panel["id"] for panel in (*panels(board), *rows)]
        assert sorted(set(ids)) == sorted(ids)
    provider = yaml.safe_load((EXAMPLE / "provisioning" / "dashboards" / "clickcurve.yaml").read_text())
    assert provider["providers"][0]["type"] == "file"


def test_the_health_checks_pass(served: Clickcurve) -> None:
    form = {"target": "constantLine(100)", "from": "-1h", "until": "now", "format": "json", "maxDataPoints": "300"}
    assert served.http.post("/render", data=form).status_code == 200
    asked = served.http.post("/api/v1/query", data={"query": "1+1", "time": "4"})
    assert asked.json()["data"] == {"resultType": "scalar", "result": [4, "2"]}


@pytest.mark.parametrize("wrapped", [False, True], ids=["by Grafana's server", "in the browser"])
def test_every_graphite_target_of_the_boards_is_answered(served: Clickcurve, wrapped: bool) -> None:
    asked = [filled(target["target"]) for target in targets("clickcurve-graphite")]
    assert len(asked) >= 6
    for target in asked:
        sent = f'aliasSub({target}, "(^.*$)", "\\1 A")' if wrapped else target
        form = {"target": sent, "from": "-24h", "until": "now", "format": "json", "maxDataPoints": "1100"}
        answer = served.http.post("/render", data=form)
        expected = 0 if "timeShift" in target else 2 if "events." in target else 7
        assert sum(hits_in(answer)) == expected, target
        if wrapped:
            assert all(series["target"].endswith(" A") for series in answer.json())


def test_the_boards_variables_list_the_links_and_the_events(served: Clickcurve) -> None:
    link, event = DASHBOARDS["links"]["templating"]["list"]
    answer = served.http.post("/metrics/find?from=-24h&until=now", data={"query": link["query"]}).json()
    assert [node["text"] for node in answer] == ["launch", "spring%2Esale"]
    (asked,) = re.findall(r"label_values\((\w+),(\w+)\)", event["query"]["query"])
    answer = served.http.get(f"/api/v1/label/{asked[1]}/values", params={"match[]": asked[0]}).json()
    assert answer == {"status": "success", "data": ["sale"]}


def test_every_question_in_promql_is_answered(served: Clickcurve) -> None:
    wanted = {
        ("clicks", "key"): {"launch": "3", "spring.sale": "4"},
        ("clicks", "ref"): {"news.example": "3", "": "4"},
        ("clicks", "country"): {"AT": "3", "": "4"},
        ("events", "key"): {"launch": "2"},
        ("event_values", "key"): {"launch": "9980"},
    }

    def is_found(expression: str, metric: str, label: str) -> bool:
        answer = served.http.post("/api/v1/query", data={"query": filled(expression)})
        assert answer.status_code == 200, answer.text
        result = answer.json()["data"]["result"]
        return {one["metric"].get(label, ""): one["value"][1] for one in result} == wanted[metric, label]

    found = set()
    for target in targets("clickcurve-promql"):
        label = re.findall(r"by \((\w+)\)", target["expr"] + "by (key)")[0]
        (metric,) = re.findall(r"increase\((\w+)", target["expr"])
        # A range ends with the whole second, so in the first one of a minute it has nothing of this minute.
        wait_until(partial(is_found, target["expr"], metric, label))
        found.add((metric, label))
    assert found == set(wanted)


def test_what_the_editors_of_queries_ask_is_answered(served: Clickcurve) -> None:
    """Lists to choose from; `buildinfo` and tags are missing, which the data sources take for an older server."""
    hour = {"start": "1767225600", "end": "1767229200"}
    for path, params in {
        "/functions": {},
        "/version": {},
        "/metrics/expand": {"query": "clicks.*"},
        "/api/v1/labels": hour,
        "/api/v1/label/key/values": hour,
        "/api/v1/series": {"match[]": "clicks", **hour},
        "/api/v1/metadata": {},
    }.items():
        assert served.http.get(path, params=params).status_code == 200, path
    assert served.http.get("/api/v1/status/buildinfo").status_code == 404


def test_infinity_reads_rows_and_csv_as_they_are(served: Clickcurve) -> None:
    """Infinity takes the root of an answer for its rows if that is a list of flat objects."""
    readme = (EXAMPLE / "README.md").read_text()
    (url,) = re.findall(r"`http://127\.0\.0\.1:8080(/v1/\S+format=rows)`", readme)
    answer = served.http.get(url, headers={"Accept": "application/json;q=0.9,text/plain"})
    assert answer.headers["content-type"] == "application/json"
    rows = answer.json()
    assert len(rows) == 30 and sum(row["count"] for row in rows) == 3
    assert all(datetime.fromisoformat(row[name]).tzinfo for row in rows for name in ("time", "end"))
    assert all(isinstance(value, str | int) for row in rows for value in row.values()), "flat"
    lines = list(csv.DictReader(StringIO(served.http.get(url.replace("=rows", "=csv")).text)))
    assert [int(line["count"]) for line in lines] == [row["count"] for row in rows]
    (health,) = re.findall(r"`http://127\.0\.0\.1:8080(/readyz\S+)`", readme)
    assert served.http.get(health).status_code == 200


@pytest.mark.needs("prometheus")
def test_prometheus_reads_every_question_of_the_nodes_board(tmp_path: Path) -> None:
    asked = [filled(target["expr"]) for target in targets("clickcurve-prometheus")]
    rules = [{"record": f"asked:{number}", "expr": expression} for number, expression in enumerate(asked)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "rules.yml")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0 and f"{len(rules)} rules found" in done.stdout, done.stdout + done.stderr


def test_the_nodes_board_names_numbers_that_there_are(served: Clickcurve) -> None:
    """Checks names and labels of /metrics; `exported_job` is Prometheus' name for a label `job` of the page's own."""
    known = {**{name: family.labels for name, family in FAMILIES.items()}, "process_resident_memory_bytes": ()}
    page = served.http.get("/metrics").text
    for target in targets("clickcurve-prometheus"):
        for name in re.findall(r"\b(?:clickcurve|process)_\w+", filled(target["expr"])):
            assert name in known, name
            assert f"# TYPE {name.removesuffix('_total')}" in page
            for label in re.findall(r"by \((\w+)\)", target["expr"]):
                assert label.removeprefix("exported_") in known[name], target["expr"]


def test_the_page_names_what_is_in_the_folder() -> None:
    page = (EXAMPLE / "README.md").read_text()
    files = [file.relative_to(EXAMPLE).as_posix() for file in EXAMPLE.rglob("*") if file.is_file()]
    assert [file for file in files if Path(file).name != "README.md" and f"`{file}`" not in page] == []
