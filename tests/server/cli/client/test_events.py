"""`clickcurve events` prints what came of clicks, in the unit that the settings name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from testing.client import Clickcurve
from testing.server import RunningServer, run

HITS = [
    {"key": "launch", "count": 40, "ref": "news.example"},
    {"key": "launch", "count": 10},
    {"key": "launch", "event": "sale", "value": 154_690, "ref": "news.example"},
    {"key": "launch", "event": "lead", "count": 5},
    {"key": "new", "event": "lead", "groups": ["spring"]},
]
SETTINGS = '[events]\nnames = ["lead", "sale"]\n[events.sale]\nunit = "EUR"\ndecimals = 2\n'


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("settings") / "settings.toml"
    file.write_text(SETTINGS)
    return file


@pytest.fixture(scope="module")
def asked(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("events") / "data", "--config", str(config)) as server:
        with Clickcurve(server.url) as client:
            client.send(HITS)
        yield server


def lines(server: RunningServer, *words: str) -> list[str]:
    done = run("events", *words, "--url", server.url)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_each_event_has_count_value_and_rate(asked: RunningServer, config: Path) -> None:
    assert lines(asked, "launch", "--config", str(config)) == [
        "launch: 50 hits of people, all time",
        "event  count         value  rate",
        "lead       5             0  10 %",
        "sale       1  1,546.90 EUR   2 %",
    ]
    assert lines(asked, "of", "launch")[-1] == "sale       1  154,690   2 %", "a unit that is not known here"
    assert lines(asked)[0] == "all links: 50 hits of people, all time"
    assert lines(asked, "--group", "spring")[2] == "lead       1      0     -", "no click, so no rate"


def test_by_a_dimension(asked: RunningServer, config: Path) -> None:
    found = lines(asked, "launch", "--by", "ref", "--limit", "1", "--config", str(config))
    assert found == [
        "launch: 50 hits of people by ref, all time",
        "value         clicks  event  count        amount   rate",
        "news.example      40   lead      0             0    0 %",
        "news.example      40   sale      1  1,546.90 EUR  2.5 %",
        "(not given)       10   lead      5             0   50 %",
        "(not given)       10   sale      0      0.00 EUR    0 %",
    ]


def test_json_and_csv_are_the_servers_answers(asked: RunningServer) -> None:
    with httpx.Client(base_url=asked.url) as http:
        assert json.loads(lines(asked, "launch", "--json")[0]) == http.get("/v1/links/launch/events").json()
        by_ref = http.get("/v1/events/by/ref", headers={"Accept": "text/csv"})
    assert lines(asked, "--by", "ref", "--csv") == by_ref.text.splitlines()


def test_what_is_wrong_is_said(asked: RunningServer) -> None:
    for words, said in (
        (("launch", "--by", "size"), "not broken down by 'size'"),
        (("launch", "--limit", "3"), "limit"),
        (("launch", "--group", "spring"), "one KEY or one --group"),
        (("launch", "--csv", "--json"), "one of --json and --csv"),
    ):
        done = run("events", *words, "--url", asked.url)
        assert done.returncode != 0 and said in done.stdout + done.stderr, done


def test_without_events_it_says_how_to_count_some(server: RunningServer) -> None:
    assert lines(server)[-1] == "no event is counted: name some in the settings, events_names"
