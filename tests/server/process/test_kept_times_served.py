"""Values that a real server keeps for a time: its answers, its exports, and the bytes of every file."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from testing.client import http_client
from testing.server import run
from tests.conftest import Serve
from tests.server.commands import said
from tests.server.conftest import wait_until

DAY_S = 86_400
MARKED, OTHERS = "marked-old.example", "marked-new.example"


def send_old_and_new(url: str) -> None:
    now = int(time.time())
    hits = [
        {"key": "a", "ref": MARKED, "ts": now - 200 * DAY_S, "count": 3, "groups": ["g"]},
        {"key": "a", "ref": OTHERS, "ts": now - 20 * DAY_S, "count": 2, "groups": ["g"]},
    ]
    with http_client(url) as client:
        assert client.post("/v1/hits", json=hits).raise_for_status().json()["counted"] == 5


FEW = ("--breakdown-dimensions", "ref,country,device,source")  # rows of more are deflated, and no file shows its words


def values(url: str, path: str = "/v1/links/a/by/ref") -> tuple[dict[str, int], dict[str, Any]]:
    with http_client(url) as client:
        answer = client.get(path).raise_for_status().json()
    return {each["value"]: each["at_least"] for each in answer["values"]}, answer


def files_with(data: Path, marked: str) -> list[str]:
    return sorted(path.name for path in data.rglob("*") if path.is_file() and marked.encode() in path.read_bytes())


def test_values_that_are_kept_no_more_leave_every_answer_and_every_file(serve: Serve, data: Path) -> None:
    server = serve("--flush-s", "3600", *FEW, data=data)
    send_old_and_new(server.url)
    assert values(server.url)[0] == {MARKED: 3, OTHERS: 2}
    assert server.stop() == 0
    assert files_with(data, MARKED) == files_with(data, OTHERS) == ["clickcurve.db"], "the search looks where they are"
    server = serve("--flush-s", "3600", *FEW, "--breakdown-keep", "ref=30d", data=data)
    wait_until(lambda: notes(data) == ["ref=30d"])
    for path in ("/v1/links/a/by/ref", "/v1/groups/g/by/ref", "/v1/by/ref"):
        shown, answer = values(server.url, path)
        assert (shown, answer["other"], answer["total"]) == ({OTHERS: 2}, 3, 5)
        assert time.time() - 33 * DAY_S < answer["kept_since"] <= time.time() - 29 * DAY_S
    send_old_and_new(server.url)
    shown, answer = values(server.url)
    assert (shown, answer["other"], answer["total"]) == ({OTHERS: 4}, 6, 10), "a late hit is kept no longer"
    with http_client(server.url) as client:
        asked = client.get(f"/v1/links/a/by/ref?value={MARKED}").json()
        assert asked["values"] == [{"value": MARKED, "at_least": 0, "at_most": 6}]
        exported = client.get("/v1/export").text
        assert MARKED not in exported and OTHERS in exported
    assert server.stop() == 0
    assert files_with(data, MARKED) == []
    assert files_with(data, OTHERS) == ["clickcurve.db"]
    said("verify", "--data", str(data))
    assert run("export", "--data", str(data)).stdout.count(OTHERS) == 2, "a link and a group"


def test_a_changed_time_reaches_quiet_rows_without_a_server_too(serve: Serve, data: Path) -> None:
    server = serve("--flush-s", "3600", *FEW, data=data)
    send_old_and_new(server.url)
    assert server.stop() == 0
    config = data.parent / "clickcurve.toml"
    config.write_text('[breakdown.keep]\nref = "30d"\n')
    exported = said("export", "--data", str(data), "--config", str(config))
    assert MARKED not in exported and OTHERS in exported, "an export needs no pass"
    assert files_with(data, MARKED), "it changes nothing"
    told = json.loads(said("fold", "--json", "--data", str(data), "--config", str(config)))
    assert told["rows"] == 3, "the link, its group and all links"
    assert files_with(data, MARKED) == []
    again = json.loads(said("fold", "--json", "--data", str(data), "--config", str(config)))
    assert again["rows"] == 0, "once is enough"
    assert notes(data) == ["ref=30d"]
    said("fold", "--data", str(data))
    assert notes(data) == [], "without the setting values are kept for ever"


def notes(data: Path) -> list[str]:
    with closing(sqlite3.connect(data / "clickcurve.db")) as db:
        return [value for (value,) in db.execute("SELECT value FROM meta WHERE name LIKE '%kept-times:%'")]


@pytest.mark.parametrize("workers", [2])
def test_every_worker_renews_its_own_rows(serve: Serve, data: Path, workers: int) -> None:
    server = serve("--workers", str(workers), *FEW, data=data)
    for _ in range(12):
        send_old_and_new(server.url)
    assert server.stop() == 0
    assert files_with(data, MARKED)
    server = serve("--workers", str(workers), *FEW, "--breakdown-keep", "ref=30d", data=data)
    shown, answer = values(server.url)
    assert (shown, answer["other"]) == ({OTHERS: 24}, 36)
    wait_until(lambda: notes(data) == ["ref=30d"] * workers)
    assert server.stop() == 0
    said("verify", "--data", str(data))  # workers that stop at one moment may leave the write-ahead log to the next
    assert files_with(data, MARKED) == []
