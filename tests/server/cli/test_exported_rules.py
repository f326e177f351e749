"""Rules that call hits bots go with an export, and an import takes them: each answer is as it was."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from server.tokens.token import Scope
from testing.client import http_client
from testing.server import RunningServer
from testing.tokens import add_token
from tests.server.commands import said
from tests.server.conftest import wait_until

SPAM = {"ref": "spam.example"}
RULES = ("/v1/links/a%2F1/disavow", "/v1/groups/g/disavow", "/v1/disavow?prefix=b/")
PATHS = ("/v1/links", "/v1/links?bots=only", "/v1/total", "/v1/by/ref", "/v1/groups/g/total", "/v1/links/a%2F1/by/ref")


def answers(client: httpx.Client) -> list[object]:
    return [client.get(path).raise_for_status().json() for path in PATHS]


def rules(client: httpx.Client) -> list[Mapping[str, object]]:
    return list(client.get("/v1/disavow").raise_for_status().json()["rules"])


def settled(client: httpx.Client) -> bool:
    return all(rule["state"] == "settled" for rule in rules(client))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[object]]:
    """An export with rules, and the answers of its server."""
    folder = tmp_path_factory.mktemp("exported")
    with RunningServer(folder / "data", "--flush-s", "1") as server, http_client(server.url) as client:
        for key in ("a/1", "b/1", "b/2", "c"):
            for ref, count in (("https://spam.example/", 10), ("https://fine.example/", 3)):
                client.post("/v1/hits", json={"key": key, "ref": ref, "count": count, "groups": ["g"]})
        for path in RULES:
            client.post(path, json=SPAM).raise_for_status()
        wait_until(lambda: settled(client))
        before = answers(client)
    file = folder / "history.ndjson"
    said("export", "--data", str(folder / "data"), "--out", str(file))
    return file, before


def test_rules_are_the_last_lines_of_an_export(exported: tuple[Path, list[object]]) -> None:
    lines = [json.loads(line) for line in exported[0].read_text().splitlines()]
    assert sorted((line["disavow"] for line in lines[-3:]), key=lambda rule: rule["key"]) == [
        {"kind": "link", "dimension": "ref", "value": "spam.example", "key": "a/1"},
        {"kind": "prefix", "dimension": "ref", "value": "spam.example", "key": "b/"},
        {"kind": "group", "dimension": "ref", "value": "spam.example", "key": "g"},
    ]
    assert not any("disavow" in line for line in lines[:-3])


@pytest.mark.parametrize("into", ["server", "folder"])
def test_an_import_takes_the_rules_once(into: str, exported: tuple[Path, list[object]], tmp_path: Path) -> None:
    file, before = exported
    data = tmp_path / "data"
    packed = tmp_path / "history.ndjson.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    if into == "folder":
        assert "counted 52, late 0, refused 0" in said("import", str(packed), "--data", str(data))
    with RunningServer(data, "--flush-s", "1") as server, http_client(server.url) as client:
        if into == "server":
            assert "refused 0" in said("import", str(packed), "--url", server.url)
        wait_until(lambda: len(rules(client)) == 3 and settled(client))
        assert answers(client) == before
        client.post("/v1/hits", json={"key": "a/1", "count": 7, **SPAM}).raise_for_status()
        said("import", str(file), "--url", server.url)
        assert len(rules(client)) == 3
        assert client.get("/v1/links/a%2F1/total").json()["total"] == 3 + 7, "what came since is called by nobody"


def test_a_token_that_may_not_call_hits_bots_imports_the_hits_and_is_told(
    exported: tuple[Path, list[object]], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    tokens = {scope: add_token(data / "tokens.json", scope.value, (scope,), 0) for scope in (Scope.write, Scope.read)}
    with RunningServer(data) as server:
        words = ("import", str(exported[0]), "--url", server.url, "--token", tokens[Scope.write])
        shown = said(*words, code=1)
        assert "3 rules are not taken: " in shown and "scope admin" in shown
        with http_client(server.url) as client:
            total = client.get("/v1/total", headers={"Authorization": f"Bearer {tokens[Scope.read]}"})
            assert total.json()["total"] == 4 * 13
