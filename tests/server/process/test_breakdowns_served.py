"""A server that divides hits: what it answers while hits wait, after a flush and a restart, of several workers too."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from testing.client import Clickcurve
from testing.server import RunningServer, run
from tests.conftest import Serve

FLAGS = ("--flush-s", "3600", "--breakdown-dimensions", "ref,country,source,bot")
PEOPLE: list[dict[str, object]] = [
    {"key": "a", "ref": "https://www.News.example/x", "ip": "193.99.144.80", "ua": "Firefox/140.0", "groups": ["blue"]},
    {"key": "a", "ref": "news.example", "visitor": "ann", "groups": ["blue", "green"], "count": 2},
    {"key": "a", "source": "qr", "id": "one"},
    {"key": "a"},
]
BOT: dict[str, object] = {"key": "a", "ua": "Googlebot/2.1", "ref": "news.example", "groups": ["blue"]}


def divided(server: RunningServer, what: str = "/v1/links/a", dimension: str = "ref") -> dict[str, int]:
    """The exact values of a dimension."""
    with Clickcurve(server.url, fresh=True) as client:
        answer = client.http.get(f"{what}/by/{dimension}").json()
    assert answer["exact"], answer
    assert answer["other"] == answer["unrecorded"] == answer["not_shown"]["count"] == 0
    assert sum(value["at_least"] for value in answer["values"]) == answer["total"]
    return {value["value"]: value["at_least"] for value in answer["values"]}


def picture(server: RunningServer) -> Iterator[Any]:
    """All that it answers."""
    yield divided(server)
    yield divided(server, dimension="country")
    yield divided(server, dimension="source")
    yield divided(server, dimension="bot")
    yield divided(server, "/v1")
    yield divided(server, "/v1/groups/blue")
    yield divided(server, "/v1/groups/green", "country")
    with Clickcurve(server.url, fresh=True) as client:
        for what in ("links/a", "groups/blue", "groups/green"):
            days = client.http.get(f"/v1/{what}/visitors").json()["days"]
            yield [(day["visitors"], day["exact"]) for day in days]
        for group in ("blue", "green"):
            glance = client.http.get(f"/v1/groups/{group}").json()
            yield glance["lifetime"], glance["bots"]


EXPECTED = [
    {"news.example": 3, "": 2},
    {"DE": 1, "": 4},
    {"qr": 1, "": 4},
    {"Googlebot": 1},
    {"news.example": 3, "": 2},
    {"news.example": 3},
    {"": 2},
    [(2, True)],
    [(2, True)],
    [(1, True)],
    (3, 1),
    (2, 0),
]


def test_a_value_is_asked_for_by_any_host_of_its_site(serve: Serve) -> None:
    server = serve(*FLAGS)
    with Clickcurve(server.url) as client:
        assert client.send([{"key": "a", "ref": "https://t.co/x", "count": 3}])["counted"] == 3
    with Clickcurve(server.url, fresh=True) as client:
        for value in ("t.co", "x.com"):
            answer = client.http.get(f"/v1/links/a/by/ref?value={value}").json()["values"]
            assert answer == [{"value": "x.com", "at_least": 3, "at_most": 3}]
            curve = client.http.get(f"/v1/links/a/by/ref/curve?value={value}&last=1h").json()
            assert (curve["value"], curve["at_least"]) == ("x.com", 3)


def test_without_aliases_each_host_is_a_value_in_hits_imports_and_questions(serve: Serve, tmp_path: Path) -> None:
    server = serve(*FLAGS, "--breakdown-ref-aliases", "off")
    log = tmp_path / "access.log"
    log.write_text(
        '192.0.2.1 - - [25/Feb/2026:06:14:00 +0000] "GET /a HTTP/1.1" 302 12 "https://twitter.com/x" "Firefox"\n'
    )
    with Clickcurve(server.url) as client:
        assert client.send([{"key": "a", "ref": "https://t.co/x", "count": 3}])["counted"] == 3
    assert run("import", str(log), "--url", server.url).returncode == 0
    assert divided(server) == {"t.co": 3, "twitter.com": 1}
    with Clickcurve(server.url, fresh=True) as client:
        for value, count in (("t.co", 3), ("twitter.com", 1), ("x.com", 0)):
            answer = client.http.get(f"/v1/links/a/by/ref?value={value}").json()["values"]
            assert answer == [{"value": value, "at_least": count, "at_most": count}]


def test_answers_are_the_same_while_hits_wait_after_a_kill_and_when_they_are_stored(serve: Serve, data: Path) -> None:
    server = serve(*FLAGS, data=data)
    with Clickcurve(server.url) as client:
        assert client.send([*PEOPLE, BOT])["counted"] == 6
        assert client.send([PEOPLE[2]])["duplicate"] == 1
    assert list(picture(server)) == EXPECTED
    server.kill()
    server = serve(*FLAGS, data=data)
    assert list(picture(server)) == EXPECTED
    assert server.stop() == 0
    assert run("verify", "--data", str(data)).returncode == 0
    server = serve(*FLAGS, data=data)
    assert list(picture(server)) == EXPECTED
    with Clickcurve(server.url) as client:
        assert client.erase("a") == 204
        answer = client.http.get("/v1/links/a/by/ref").json()
        assert (answer["total"], answer["values"]) == (0, [])
        assert client.http.get("/v1/links/a/visitors").json()["visitor_days"] == 0
        assert client.http.get("/v1/by/ref").json()["total"] == 5, "all links together are not reduced"
        assert client.http.get("/v1/groups/blue").json()["lifetime"] == 3


def test_several_workers_answer_for_each_other(serve: Serve, data: Path) -> None:
    server = serve(*FLAGS, "--workers", "3", data=data)
    server.wait_until(lambda: server.output().count('"event":"fold"') == 3)  # each flushes first
    for hit in [*PEOPLE, BOT] * 2:
        with Clickcurve(server.url, fresh=True) as client:
            client.send([{**hit, "id": "one"} if "id" in hit else hit])
    for _ in range(6):
        assert divided(server) == {"news.example": 6, "": 2}, "an id is decided by a flush"
        with Clickcurve(server.url, fresh=True) as client:
            (day,) = client.http.get("/v1/links/a/visitors").json()["days"]
        assert (day["at_least"] <= 2 <= day["at_most"]) and day["visitors"] >= 2
    assert server.stop() == 0
    assert divided(serve(*FLAGS, data=data)) == {"news.example": 6, "": 3}


@pytest.mark.slow
def test_what_came_before_a_dimension_was_on_is_unrecorded(serve: Serve, data: Path) -> None:
    server = serve("--breakdown-dimensions", "ref", data=data)
    with Clickcurve(server.url) as client:
        client.send([{"key": "a", "ref": "news.example"}, {"key": "a"}])
    server.stop()
    both = serve("--breakdown-dimensions", "ref,source", data=data)
    assert divided(both) == {"news.example": 1, "": 1}
    with Clickcurve(both.url) as client:
        client.send([{"key": "a", "source": "qr"}])
        answer = client.http.get("/v1/links/a/by/source").json()
    assert (answer["total"], answer["unrecorded"]) == (3, 2)
    assert [value for value in answer["values"] if value["value"]] == [{"value": "qr", "at_least": 1, "at_most": 1}]
    both.stop()
    none = serve("--breakdown-dimensions", "off", data=data)
    with Clickcurve(none.url) as client:
        for path in ("by/ref", "by/ref/curve", "links/a/by/ref", "links/a/by/ref/curve?value=", "groups/g/by/ref"):
            problem = client.http.get(f"/v1/{path}")
            assert (problem.status_code, problem.json()["title"]) == (404, "switched off")
            assert problem.json()["field"] == "breakdown_dimensions"
            assert "breaks down no hits" in problem.json()["detail"] and "ref,country" in problem.json()["rule"]
        assert client.http.get("/v1/links/a/visitors").json()["field"] == "breakdown_dimensions"
        assert client.http.head("/v1/links/a/by/ref").status_code == 404
        assert "/v1/by/{dimension}" not in client.http.get("/openapi.json").json()["paths"]
    none.stop()
    assert notes(data) == {}
    again = serve("--breakdown-dimensions", "ref", data=data)
    with Clickcurve(again.url) as client:
        answer = client.http.get("/v1/links/a/by/ref").json()
    assert answer["unrecorded"] == 1, "what said nothing before, of any dimension; nobody recorded anything for a while"


def notes(data: Path) -> dict[str, str]:
    with closing(sqlite3.connect(data / "clickcurve.db")) as db:
        found = db.execute("SELECT name, value FROM meta WHERE name LIKE 'note:since:%'")
        return {name.removeprefix("note:since:"): value for name, value in found}


@pytest.mark.parametrize("visitors", ["on", "off"])
def test_visitors_are_counted_where_the_settings_say_so(serve: Serve, data: Path, visitors: str) -> None:
    server = serve("--breakdown-dimensions", "ref", "--breakdown-visitors", visitors, data=data)
    with Clickcurve(server.url) as client:
        client.send([{"key": "a", "visitor": "ann"}, {"key": "a", "visitor": "ann"}, {"key": "a", "ref": "x.example"}])
        client.send([{"key": "a"}, {"key": "a", "bot": True}, {"key": "b", "count": 3}])
        answer = client.http.get("/v1/links/a/visitors")
        silent = client.http.get("/v1/links/b/visitors")
        ignored = client.metrics().get('clickcurve_ignored_fields_total{field="visitor",journal="journal-1"}')
    if visitors == "on":
        assert answer.json()["days"][0]["visitors"] == 1
        assert answer.json()["unknown"] == 2, "one said too little and one nothing; bots are no visitors"
        assert (silent.json()["visitor_days"], silent.json()["unknown"]) == (0, 3)
        assert ignored is None
    else:
        assert (answer.status_code, answer.json()["field"]) == (404, "breakdown_visitors")
        assert ignored == 2
