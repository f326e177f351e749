"""`GET /v1/export`: the lines that the command writes, within a prefix, and they import again to the same answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.tokens.token import Scope
from storage.from_uri import open_store
from testing.client import Clickcurve, http_client
from testing.server import RunningServer
from testing.tokens import add_token
from tests.server.commands import said

HITS = [
    {"key": "acme/a", "count": 3, "ref": "https://news.example/", "ts": "2026-01-02T03:04:05Z", "source": "qr"},
    {"key": "acme/a", "count": 2, "bot": True},
    {"key": "acme/ü", "count": 4, "groups": ["spring"]},
    {"key": "acme", "count": 5},
    {"key": "beta/secret", "count": 6, "groups": ["beta"], "ref": "https://beta.example/"},
    {"key": "\0nul", "count": 7},
    {"key": "z", "count": 8, "groups": ["spring"]},
]


class Exported:
    """A server with hits, of which none is flushed yet, and tokens."""

    def __init__(self, server: RunningServer, tokens: dict[str, str]) -> None:
        self.server = server
        self.tokens = tokens

    def ask(self, query: str = "", token: str = "admin") -> list[dict[str, Any]]:
        with http_client(self.server.url) as http:
            answer = http.get(f"/v1/export{query}", headers={"Authorization": f"Bearer {self.tokens[token]}"})
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson"), answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    def names(self, query: str = "", token: str = "admin") -> list[str]:
        return [str(each.get("key", each.get("group"))) for each in self.ask(query, token)]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    data = tmp_path_factory.mktemp("exported") / "data"
    both = Scope.write, Scope.read
    tokens = {
        "acme": add_token(data / "tokens.json", "acme", both, prefix="acme/"),
        "admin": add_token(data / "tokens.json", "admin", (Scope.admin,)),
    }
    with RunningServer(data) as server:
        made = Exported(server, tokens)
        with Clickcurve(server.url) as client:
            client.http.headers["Authorization"] = f"Bearer {tokens['admin']}"
            client.send(HITS)
            client.http.headers["Authorization"] = f"Bearer {tokens['acme']}"
            client.send({"key": "acme/own", "count": 9, "ref": "https://news.example/"})
        yield made


@pytest.mark.parametrize(
    ("query", "token", "names"),
    [
        ("", "admin", ["\0nul", "acme", "beta", "spring", "acme", "acme/a", "acme/own", "acme/ü", "beta/secret", "z"]),
        ("?prefix=acme/", "admin", ["acme/a", "acme/own", "acme/ü"]),
        ("?prefix=acme", "admin", ["acme", "acme/a", "acme/own", "acme/ü"]),
        ("?prefix=nothing", "admin", []),
        ("?after=acme/own", "admin", ["acme/ü", "beta/secret", "z"]),
        (
            "?after=%00nul",
            "admin",
            ["acme", "beta", "spring", "acme", "acme/a", "acme/own", "acme/ü", "beta/secret", "z"],
        ),
        ("?prefix=acme/&after=acme/a", "admin", ["acme/own", "acme/ü"]),
        ("?prefix=acme/&after=z", "admin", []),
        ("?prefix=b&after=a", "admin", ["beta/secret"]),
        ("", "acme", ["acme", "acme/a", "acme/own", "acme/ü"]),  # its group, then its links
        ("?prefix=acme/o", "acme", ["acme/own"]),
        ("?prefix=a", "acme", ["acme/a", "acme/own", "acme/ü"]),
        ("?prefix=beta", "acme", []),
        ("?after=acme/own", "acme", ["acme/ü"]),
    ],
)
def test_lines_come_in_the_order_of_keys_and_none_of_others(
    exported: Exported, query: str, token: str, names: list[str]
) -> None:
    assert exported.names(query, token) == names


def test_the_lines_are_those_of_the_command(exported: Exported) -> None:
    lines = exported.ask()
    written = [json.loads(line) for line in said("export", "--data", str(exported.server.data)).splitlines()]
    assert sorted(map(json.dumps, lines)) == sorted(map(json.dumps, written))
    assert [line["total"] for line in exported.ask(token="acme") if "group" in line] == [9]


@pytest.mark.parametrize(("query", "field"), [("?key=a", "key"), ("?after=a&after=b", "after"), ("?limit=1", "limit")])
def test_a_wrong_question_names_the_field(exported: Exported, query: str, field: str) -> None:
    with http_client(exported.server.url) as http:
        answer = http.get(f"/v1/export{query}", headers={"Authorization": f"Bearer {exported.tokens['admin']}"})
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_an_export_imports_again_to_the_same_answers(exported: Exported, tmp_path: Path) -> None:
    lines = exported.ask("?prefix=acme/")
    file = tmp_path / "acme.ndjson"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with RunningServer(tmp_path / "again") as again:
        said("import", str(file), "--url", again.url)
        paths = [
            f"/v1/links/{name}{what}"
            for name in ("acme%2Fa", "acme%2Fown", "acme%2F%C3%BC")
            for what in ("", "/total?bots=include", "/curve?from=2026-01-01&to=2027-01-01", "/by/ref", "/by/source")
        ]
        with http_client(exported.server.url) as one, http_client(again.url) as other:
            one.headers["Authorization"] = f"Bearer {exported.tokens['admin']}"
            for path in paths:
                assert one.get(path).json() == other.get(path).json(), path
            assert other.get("/v1/export?prefix=acme/").text == one.get("/v1/export?prefix=acme/").text


def test_many_links_come_in_pieces_each_once(tmp_path: Path) -> None:
    keys = [f"k{n:04}" for n in range(1_234)]
    with RunningServer(tmp_path / "data") as server, Clickcurve(server.url) as client:
        client.send([{"key": key, "count": 2, "tags": {}} for key in keys])
        text = client.http.get("/v1/export").text
        assert [json.loads(line)["key"] for line in text.splitlines()] == keys
        half = client.http.get("/v1/export?after=k0599").text
        assert text.endswith(half) and half.count("\n") == 634


def test_a_damaged_link_is_named_and_refused_by_an_import(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with RunningServer(data) as server, Clickcurve(server.url) as client:
        client.send([{"key": "a"}, {"key": "b"}])
    store = open_store(f"sqlite:///{data}/clickcurve.db")
    try:
        with store._connections.open().transaction() as db:  # type: ignore[attr-defined]  # as a broken disk does
            db.execute("UPDATE rows SET data = x'ff' WHERE key = 'a'")
    finally:
        store.close()
    with RunningServer(data) as server, Clickcurve(server.url) as client:
        text = client.http.get("/v1/export").text
        damaged, sound = map(json.loads, text.splitlines())
        assert damaged.keys() == {"damaged"} and "link 'a'" in damaged["damaged"]
        assert sound["key"] == "b"
        headers = {"Content-Type": "application/x-ndjson"}
        receipt = client.http.post(f"/v1/import/x?from=0&to={len(text)}", content=text, headers=headers).json()
        assert (receipt["counted"], receipt["refused"]) == (1, 1)
