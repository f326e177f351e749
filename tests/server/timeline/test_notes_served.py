"""`/v1/notes` of real servers: who may write and see what, what the server notes by itself, and where notes go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.tokens.token import Scope
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token
from tests.conftest import Serve
from tests.server.commands import said
from tests.server.conftest import events, wait_until

NOW = 1_772_366_400


def noted(http: httpx.Client, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get(f"/v1/notes?{query}").raise_for_status().json()["notes"]
    return found


def write(http: httpx.Client, **note: Any) -> httpx.Response:
    return http.post("/v1/notes", json=note)


def test_notes_are_written_listed_and_stand_beside_curves(serve: Serve) -> None:
    with http_client(serve().url) as http:
        http.post("/v1/hits", json={"key": "k", "groups": ["g"]}).raise_for_status()
        made = write(http, at="2026-03-01T13:00+01:00", text=" Newsletter ", key="k")
        assert made.status_code == 201
        note = made.json()
        assert note == {
            "id": note["id"],
            "at": NOW,
            "kind": "note",
            "text": "Newsletter",
            "key": "k",
            "group": None,
        }
        write(http, at=NOW, text="all", key=None).raise_for_status()
        write(http, at=NOW + 1, text="g", group="g").raise_for_status()
        window = f"from={NOW}&to={NOW + 60}&step=1m"
        for path, texts in (
            ("/v1/links/k/curve", ["Newsletter", "all"]),
            ("/v1/groups/g/curve", ["all", "g"]),
            ("/v1/curve", ["all"]),
            ("/v1/links/other/curve", ["all"]),
        ):
            curve = http.get(f"{path}?{window}&notes=true").json()
            assert sorted(each["text"] for each in curve["notes"]) == sorted(texts)
            assert "notes" not in http.get(f"{path}?{window}&notes=false").json()
        picture = http.get(f"/v1/links/k/curve.svg?{window}&notes=true").text
        assert 'class="note"' in picture and "Newsletter" in picture
        assert "Newsletter" not in http.get(f"/v1/links/k/curve.svg?{window}").text
        assert [each["text"] for each in noted(http, "key=k")] == ["Newsletter"]
        assert [each["text"] for each in noted(http, f"from={NOW + 1}&to={NOW + 2}")] == ["g"]
        assert noted(http, "last=1d") == []
        assert http.delete(f"/v1/notes/{note['id']}").status_code == 204
        assert noted(http, "key=k") == []
        assert http.delete(f"/v1/notes/{note['id']}").status_code == 404
        before = [each["text"] for each in noted(http)]
        assert len(http.get("/v1/audit").json()["entries"]) == 4
        assert before == [each["text"] for each in noted(http)]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{", 400, None),
        (b"[]", 422, "body"),
        (b'{"text": 7}', 422, "body"),
        (b'{"text": "x", "more": 1}', 422, "body"),
        (b'{"text": " "}', 422, "text"),
        (json.dumps({"text": "x" * 251}).encode(), 422, "text"),
        (b'{"text": "a\\nb"}', 422, "text"),
        (b'{"text": "\\ud800"}', 422, "text"),
        (b'{"text": "x", "at": "soon"}', 422, "at"),
        (b'{"text": "x", "at": -1}', 422, "at"),
        (b'{"text": "x", "at": 2026}', 422, "at"),
        (b'{"text": "x", "at": true}', 422, "body"),
        (b'{"text": "x", "key": "k", "group": "g"}', 422, "group"),
        (b'{"text": "x", "key": ""}', 422, "key"),
        (b'{"text": "x", "group": ""}', 422, "group"),
        (json.dumps({"text": "x", "group": "g" * 65}).encode(), 422, "group"),
    ],
)
def test_what_is_no_note_is_refused(shared: RunningServer, body: bytes, status: int, field: str | None) -> None:
    with http_client(shared.url) as http:
        answer = http.post("/v1/notes", content=body)
        problem = answer.json()
        if b"ud800" in body and answer.status_code == 400:
            return  # no JSON text at all
        assert (answer.status_code, problem.get("field")) == (status, field), answer.text


def test_a_customer_sees_and_writes_its_own_alone(tmp_path: Path) -> None:
    file = tmp_path / "data" / "tokens.json"
    both = Scope.write, Scope.read
    tokens = {
        "acme": add_token(file, "acme", both, prefix="acme/"),
        "reader": add_token(file, "reader", (Scope.read,)),
        "writer": add_token(file, "writer", (Scope.write,)),
        "all": add_token(file, "all", both),
    }
    with RunningServer(tmp_path / "data") as server, http_client(server.url) as http:

        def ask(token: str, method: str, path: str, **body: Any) -> httpx.Response:
            headers = {"Authorization": f"Bearer {tokens[token]}"}
            return http.request(method, path, headers=headers, json=body or None)

        made = {
            key: ask("all", "POST", "/v1/notes", text=f"about {key}", key=key).json()["id"]
            for key in ("acme/a", "beta/b")
        }
        assert ask("all", "POST", "/v1/notes", text="about all").status_code == 201
        assert ask("acme", "POST", "/v1/notes", text="mine", key="acme/a").status_code == 201
        assert ask("acme", "POST", "/v1/notes", text="ours", group="acme").status_code == 201
        for where in ({}, {"key": "beta/b"}, {"group": "beta"}):
            assert ask("acme", "POST", "/v1/notes", text="no", **where).status_code == 403
        listed = ask("acme", "GET", "/v1/notes").json()["notes"]
        assert sorted(each["text"] for each in listed) == ["about acme/a", "mine", "ours"]
        assert ask("acme", "GET", "/v1/notes?key=beta/b").status_code == 403
        assert ask("acme", "DELETE", f"/v1/notes/{made['beta/b']}").status_code == 404
        assert ask("acme", "DELETE", f"/v1/notes/{made['acme/a']}").status_code == 204
        assert ask("reader", "POST", "/v1/notes", text="x").status_code == 403
        assert ask("reader", "DELETE", f"/v1/notes/{made['beta/b']}").status_code == 403
        assert ask("writer", "GET", "/v1/notes").status_code == 403
        curve = ask("acme", "GET", "/v1/curve?last=1d&notes=true").json()
        assert [each["text"] for each in curve["notes"]] == ["ours"]


def test_the_server_notes_what_it_does(serve: Serve) -> None:
    server = serve("--flush-s", "1")
    with http_client(server.url) as http:
        http.post(
            "/v1/hits", json=[{"key": "k", "ref": "spam.example", "groups": ["g"]}, {"key": "x/1"}, {"key": "x/2"}]
        )
        rule = http.post("/v1/links/k/disavow?last=1d", json={"ref": "spam.example"}).raise_for_status().json()
        (note,) = noted(http, "key=k")
        assert (note["kind"], note["at"]) == ("disavow", rule["from"])
        assert (note["from"], note["to"]) == (rule["from"], rule["to"])
        assert rule["id"] in note["text"] and "spam" not in note["text"]
        http.delete(f"/v1/disavow/{rule['id']}").raise_for_status()
        assert noted(http, "key=k") == [], "undone"

        write(http, text="Bought hits at spam.example", key="k").raise_for_status()
        erasure = http.post("/v1/words/erase", json={"dimension": "ref", "value": "spam.example"}).json()
        everything = noted(http)
        assert not any("spam" in each["text"] for each in everything)
        assert [each["text"] for each in everything if each["kind"] == "erase"] == [
            f"A value of ref is forgotten (erasure {erasure['id']})"
        ]

        headers = {"Content-Type": "application/x-ndjson"}
        for start, end in ((0, 40), (40, 80)):
            path = f"/v1/import/log?from={start}&to={end}"
            http.post(path, content=b'{"key": "old", "ts": 1767225600}\n', headers=headers).raise_for_status()
        assert [each["text"] for each in noted(http) if each["kind"] == "import"] == ["Import of log"]

        write(http, text="gone with it", group="g").raise_for_status()
        for path in ("/v1/links/k", "/v1/groups/g", "/v1/links?prefix=x/"):
            assert http.delete(path).is_success
        for query in ("key=k", "group=g"):
            (note,) = noted(http, query)
            assert note["kind"] == "delete"
        deleted = [each["text"] for each in noted(http) if each["kind"] == "delete" and each["key"] is None]
        assert "Deleted: 2 links whose keys begin with x/" in deleted


def test_an_alert_that_fires_is_noted_once(tmp_path: Path) -> None:
    config = tmp_path / "clickcurve.toml"
    config.write_text(
        '[[alerts]]\nname = "hot"\nlink = "launch"\nwhen = "over 2 in 1h"\n'
        'url = "http://127.0.0.1:9/"\nsecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"\n'
    )
    server = RunningServer(tmp_path / "data", "--config", str(config), module="tests.server.alerts.quick")
    with server, http_client(server.url) as http:
        http.post("/v1/hits", json={"key": "launch", "count": 3}).raise_for_status()
        wait_until(lambda: bool(noted(http)))
        wait_until(lambda: bool(events(server, "alert not delivered")))
        server.kill()
        server.start()
        (note,) = noted(http, "key=launch")
        assert (note["kind"], note["text"]) == ("alert", "hot: over 2 in 1h, 3")
        assert note["to"] - note["from"] == 3_600 and 0 < note["to"] - note["at"] <= 60
        wait_until(lambda: len(events(server, "alert not delivered")) > 1)
        assert len(noted(http)) == 1


def test_every_worker_and_another_server_know_and_copies_have_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with RunningServer(data, "--workers", "2") as server:
        with http_client(server.url) as http:
            note = write(http, text="kept", key="k").raise_for_status().json()

        def is_known() -> bool:
            with http_client(server.url, fresh=True) as fresh:
                return all(noted(fresh) == [note] for _ in range(10))

        wait_until(is_known, 5)
        said("backup", str(tmp_path / "backup.db"), "--data", str(data))
    copied = f"sqlite:///{tmp_path}/copy.db"
    said("copy", "--from", f"sqlite:///{tmp_path}/backup.db", "--to", copied)
    with RunningServer(tmp_path / "other", "--store", copied) as server, http_client(server.url) as http:
        assert noted(http) == [note]


def test_pages_draw_notes_and_what_strangers_see_has_none(serve: Serve, data: Path) -> None:
    server = serve(data=data)
    with http_client(server.url) as http:
        http.post("/v1/hits", json={"key": "k"}).raise_for_status()
        write(http, text="Newsletter <b>", key="k").raise_for_status()
        write(http, text="Launch").raise_for_status()
        page = http.get("/links/k").text
        assert "Newsletter &lt;b&gt;" in page and "Launch" in page and '"note"' in page
        assert "1: Launch" in http.get("/").text
        shared = said("share", "k", "--data", str(data), "--url", server.url).strip()
        for path in ("", "/curve.svg", "/curve"):
            answer = http.get(shared + path)
            assert answer.status_code == 200
            assert "Newsletter" not in answer.text and "Launch" not in answer.text
        for name in ("notes", "n%6Ftes"):
            for path in ("/curve.svg", "/curve"):
                answer = http.get(f"{shared}{path}?{name}=true")
                assert answer.status_code == 422 and "Newsletter" not in answer.text
