"""`clickcurve why` prints both totals, and what is certain of the change between them."""

from __future__ import annotations

import json

import pytest

from server import clock
from testing.client import Clickcurve
from testing.server import RunningServer, run

DAY = 86_400


@pytest.fixture(scope="module")
def changed(shared: RunningServer) -> RunningServer:
    """A server with a link that had 5 hits a day for a fortnight, and 300 more from one referrer on one."""
    today = int(clock.now()) // DAY * DAY
    with Clickcurve(shared.url) as client:
        client.send([{"key": "why", "ts": today - DAY * n, "count": 5, "ref": "a.example"} for n in range(1, 15)])
        client.send([{"key": "why", "ts": today - 2 * DAY, "count": 300, "ref": "news.example"}])
    return shared


def span() -> tuple[str, ...]:
    today = int(clock.now()) // DAY * DAY
    return "--from", str(today - 7 * DAY), "--to", str(today)


def test_it_names_what_is_certain(changed: RunningServer) -> None:
    lines = run("why", "why", *span(), "--url", changed.url).stdout.splitlines()
    assert lines[0].endswith(": 35")
    assert lines[1].endswith(": 335 (+300)")
    assert lines[2:4] == ["ref explains 100%", "  +300  news.example"]
    of_all = run("why", *span(), "--url", changed.url).stdout.splitlines()
    assert of_all[-2:] == ["links", "  +300  why"]


def test_json_and_csv_are_the_server_s_answers(changed: RunningServer) -> None:
    answer = json.loads(run("why", "why", *span(), "--json", "--url", changed.url).stdout)
    assert answer["total"] == {"before": 35, "after": 335, "change": 300}
    lines = run("why", "why", *span(), "--csv", "--url", changed.url).stdout.splitlines()
    assert lines[:2] == ["dimension,value,change,at_least,at_most,before,after", "ref,news.example,300,300,300,0,300"]


def test_a_comparison_is_passed_on(changed: RunningServer) -> None:
    asked = "why", "why", "--last", "8d", "--json", "--url", changed.url
    answers = [json.loads(run(*asked, *more).stdout) for more in ((), ("--compare", "before"))]
    moved_d = [round((answer["from"] - answer["before"]["from"]) / DAY) for answer in answers]
    assert moved_d == [8, 14]


def test_a_wrong_range_is_refused(changed: RunningServer) -> None:
    done = run("why", "why", "--before-from", "2026-01-01", "--url", changed.url)
    assert done.returncode != 0 and "before_to" in done.stderr
