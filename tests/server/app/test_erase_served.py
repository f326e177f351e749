"""`/v1/words/erase` of a real server: no file, table, log or answer has the value then, and totals are as before."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx

from clickcurve.buckets.codec import decode
from clickcurve.keys import ALL_LINKS
from storage.from_uri import open_store
from testing.client import http_client
from testing.server import RunningServer
from tests.conftest import Serve
from tests.server.commands import said
from tests.server.conftest import wait_until

WORD = "ann.smith.example"
DIMENSIONS = ("--breakdown-dimensions", "ref,country,source,tag.team", "--breakdown-visitors", "off")


def send(client: httpx.Client, key: str, count: int, ref: str = WORD, **more: Any) -> None:
    client.post("/v1/hits", json={"key": key, "ref": ref, "count": count, **more}).raise_for_status()


def erase(client: httpx.Client, value: str = WORD, **more: str) -> Any:
    answer = client.post("/v1/words/erase", json={"dimension": "ref", "value": value, **more})
    assert answer.status_code == 202, answer.text
    return answer.json()


def done(client: httpx.Client, erasure: str) -> Any:
    path = f"/v1/words/erase/{erasure}"
    wait_until(lambda: client.get(path).raise_for_status().json()["state"] == "done", 30)
    return client.get(path).json()


def places_of(word: str, data: Path) -> list[str]:
    """The files that have a word in them as bytes."""
    return [path.name for path in data.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def answers(client: httpx.Client) -> list[str]:
    paths = [
        *("/v1/links/a", "/v1/links/a/total", "/v1/total", "/v1/groups/g", "/v1/links", "/v1/links/a/by/ref"),
        *("/v1/by/ref", "/v1/groups/g/by/ref", "/v1/links/a/why?last=7d", "/v1/disavow"),
        *("/v1/audit", "/v1/export", "/links/a", "/", "/metrics", "/links/a?last=7d"),
    ]
    return [client.get(path).raise_for_status().text for path in paths]


def totals(client: httpx.Client) -> list[Any]:
    paths = "/v1/links/a/total", "/v1/links/a/total?bots=include", "/v1/links/a/total?bots=only", "/v1/total"
    return [client.get(path).json()["total"] for path in (*paths, "/v1/groups/g/total", "/v1/links/b/total")]


def values(client: httpx.Client, path: str = "/v1/links/a/by/ref") -> tuple[dict[str, int], int]:
    answer = client.get(path).raise_for_status().json()
    return {each["value"]: each["at_least"] for each in answer["values"]}, answer["other"]


def test_an_erased_value_is_in_no_file_table_log_or_answer(serve: Serve) -> None:
    server = serve("--flush-s", "1", *DIMENSIONS)
    with http_client(server.url) as client:
        send(client, "a", 40, groups=["g"])
        send(client, "a", 2, ref="fine.example", groups=["g"])
        send(client, "b", 5)
        wait_until(lambda: "clickcurve.db-wal" in places_of(WORD, server.data))
        rule = client.post("/v1/links/a/disavow", json={"ref": WORD}).raise_for_status().json()
        assert rule["moved"] == 40
        before = totals(client)
        send(client, "a", 3, id="later")  # in the journal and the buffer
        before = [total + more for total, more in zip(before, (3, 3, 0, 3, 0, 0), strict=True)]
        assert places_of(WORD, server.data), "the search looks where hits are"
        assert any(WORD in answer for answer in answers(client))

        erasure = erase(client)
        assert (erasure["dimension"], erasure["key"], erasure["group"]) == ("ref", None, None)
        assert WORD not in json.dumps(erasure)
        after = done(client, erasure["id"])
        assert (after["waiting"], after["reasons"]) == ([], {})
        assert after["hits"] in (45, 48) and after["rows"] >= 4
        assert totals(client) == before
        assert values(client) == ({"fine.example": 2}, 3)
        assert values(client, "/v1/by/ref")[1] == 8
        asked = client.get(f"/v1/links/a/by/ref?ref={WORD}")
        assert not any(WORD in answer for answer in answers(client)), asked.text
        assert places_of(WORD, server.data) == []

        send(client, "a", 7)  # comes late
        assert values(client) == ({"fine.example": 2}, 10), "what comes later is `other` before it is flushed, too"
        wait_until(lambda: places_of(WORD, server.data) == [], 20)
        assert values(client) == ({"fine.example": 2}, 10)
        assert client.post("/v1/links/a/disavow", json={"ref": WORD}).status_code == 409, "no rule may name it again"
        (renamed,) = client.get("/v1/disavow").json()["rules"]
        assert (renamed["value"], renamed["moved"]) == (f"erased:{erasure['id']}", 40)
        undone = client.delete(f"/v1/disavow/{renamed['id']}").raise_for_status().json()
        assert undone["state"] == "undone"
        assert client.get("/v1/links/a/total").json()["total"] == 52
        assert values(client) == ({"fine.example": 2}, 50)
        again = done(client, erase(client)["id"])
        assert (again["id"], again["rows"], again["hits"]) == (erasure["id"], 0, 0), "twice is once"
    assert server.stop() == 0
    assert places_of(WORD, server.data) == []
    assert WORD not in server.output()
    said("verify", "--data", str(server.data))


def test_what_cannot_be_erased_is_refused_by_name(serve: Serve) -> None:
    server = serve("--flush-s", "3600")
    with http_client(server.url) as client:
        for body, status, field in (
            ({"dimension": "ref"}, 400, None),
            ({"dimension": "ref", "value": "a", "more": "b"}, 400, None),
            ({"dimension": "ref", "value": 7}, 400, None),
            ([1], 400, None),
            ({"dimension": "colour", "value": "a"}, 422, "dimension"),
            ({"dimension": "bot", "value": "a"}, 422, "dimension"),
            ({"dimension": "ref", "value": ""}, 422, "value"),
            ({"dimension": "ref", "value": "a", "key": ""}, 422, "key"),
            ({"dimension": "ref", "value": "a", "group": ""}, 422, "group"),
            ({"dimension": "ref", "value": "a", "group": "g" * 65}, 422, "group"),
            ({"dimension": "ref", "value": "a", "key": "k", "group": "g"}, 422, "group"),
        ):
            answer = client.post("/v1/words/erase", json=body)
            assert (answer.status_code, answer.json().get("field")) == (status, field), body
        assert client.get("/v1/words/erase/none").status_code == 404
        send(client, "a", 4)
        client.post("/v1/links/a/disavow", json={"ref": WORD}).raise_for_status()
        answer = client.post("/v1/words/erase", json={"dimension": "ref", "value": WORD, "key": "a"})
        assert answer.status_code == 409 and "undo it first" in answer.json()["rule"]


def stored_hits(server: RunningServer) -> int:
    """Counts the hits of the rows of all links, all owners together."""
    store = open_store(f"sqlite:///{server.data}/clickcurve.db", None)
    try:
        return sum(decode(row.data).lifetime for row in asyncio.run(store.rows(ALL_LINKS)).rows)
    finally:
        store.close()


def test_workers_erase_each_in_its_own_rows(serve: Serve) -> None:
    server = serve("--workers", "2", "--flush-s", "1", *DIMENSIONS)
    for _ in range(20):
        with http_client(server.url, fresh=True) as client:
            send(client, "a", 1, tags={"team": WORD})
    with http_client(server.url, fresh=True) as client:
        wait_until(lambda: stored_hits(server) == 20, 20)
        erasure = client.post("/v1/words/erase", json={"dimension": "tag.team", "value": WORD}).json()
        assert sorted(erasure["waiting"]) == [1, 2]
        after = done(client, erasure["id"])
        assert after["hits"] == 20
        assert client.get("/v1/links/a/by/tag.team").json()["other"] == 20
        assert values(client)[0] == {WORD: 20}, "another dimension keeps the word"
        done(client, erase(client)["id"])
    assert server.stop() == 0
    assert places_of(WORD, server.data) == []
    said("verify", "--data", str(server.data))
