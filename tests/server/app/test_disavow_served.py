"""`/v1/.../disavow` of a real server: dry run, call, list, undo, and what every answer says meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from clickcurve.buckets.breakdowns.parts import decode_parts, separate_parts
from clickcurve.keys import ALL_LINKS, breakdown_of, group_key, moved_key
from server import clock
from server.corrections.rules import DisavowBook
from storage.from_uri import open_store
from testing.client import http_client
from testing.server import RunningServer
from tests.conftest import Serve
from tests.server.commands import said
from tests.server.conftest import wait_until

HOUR_S, DAY_S = 3_600, 86_400


def send(client: httpx.Client, key: str, ref: str, count: int, **more: Any) -> None:
    client.post("/v1/hits", json={"key": key, "ref": ref, "count": count, **more}).raise_for_status()


def answers(client: httpx.Client) -> list[Any]:
    """What the server says of the link, the group and all links; pictures, lists and exports too."""
    paths = [
        *("/v1/links/a", "/v1/links/b", "/v1/links/a/total", "/v1/total", "/v1/groups/g", "/v1/links"),
        *("/v1/links?sort=key", "/v1/links?last=7d", "/v1/groups", "/v1/links/a/total?last=7d&bots=only"),
        *("/v1/links/a/by/ref", "/v1/by/ref", "/v1/by/country?last=7d", "/v1/links/a/curve?last=7d&step=1d"),
        *("/v1/links/a/badge.json", "/metrics/links", "/v1/links/a/curve.svg?last=30d&step=1d"),
    ]
    return [client.get(path).raise_for_status().text for path in paths]


def test_hits_are_called_bots_listed_and_called_back(serve: Serve) -> None:
    server = serve("--flush-s", "3600")
    with http_client(server.url) as client:
        send(client, "a", "https://spam.example/x", 40, groups=["g"])
        send(client, "a", "https://news.example/", 2, groups=["g"])
        send(client, "b", "https://spam.example/", 5)
        before = answers(client)
        spam = {"ref": "spam.example"}
        dry = client.post("/v1/links/a/disavow?dry_run=true", json=spam).raise_for_status().json()
        assert (dry["state"], dry["at_least"], dry["at_most"], dry["moved"]) == ("dry_run", 40, 40, 0)
        assert client.get("/v1/disavow").json() == {"rules": []}
        assert answers(client) == before
        rule = client.post("/v1/links/a/disavow", json=spam).raise_for_status().json()
        assert (rule["id"], rule["key"], rule["dimension"], rule["value"]) == (dry["id"], "a", "ref", "spam.example")
        assert (rule["state"], rule["moved"], rule["at_least"], rule["waiting"]) == ("settled", 40, 0, [])
        assert client.post("/v1/links/a/disavow", json=spam).json() == rule, "sent again it is the same rule"
        for bots, total in (("exclude", 2), ("include", 42), ("only", 40)):
            assert client.get(f"/v1/links/a/total?bots={bots}").json()["total"] == total
        assert client.get("/v1/total").json()["total"] == 7
        assert client.get("/v1/groups/g/total").json()["total"] == 42, "a link's rule reduces no group"
        assert [each["key"] for each in client.get("/v1/links").json()["links"]] == ["b", "a"]
        assert client.get("/v1/links/a/badge.json").json()["message"] == "2"
        assert 'clickcurve_hits_total{key="a"} 2' in client.get("/metrics/links").text
        group = client.post("/v1/groups/g/disavow", json=spam).raise_for_status().json()
        assert (group["key"], group["moved"]) == ("g", 40)
        assert client.get("/v1/groups/g/total").json()["total"] == 2
        listed = client.get("/v1/disavow").json()["rules"]
        assert {each["id"] for each in listed} == {rule["id"], group["id"]}
        assert client.get(f"/v1/disavow/{rule['id']}").json() == rule
        server.kill()
    server = serve("--flush-s", "3600")
    with http_client(server.url) as client:
        assert client.get("/v1/links/a/total").json()["total"] == 2, "the first answer knows the rules"
        for each in (group, rule):
            undone = client.delete(f"/v1/disavow/{each['id']}").raise_for_status().json()
            assert (undone["state"], undone["moved"]) == ("undone", 0)
        assert client.get("/v1/disavow").json() == {"rules": []}
        assert client.get(f"/v1/disavow/{rule['id']}").status_code == 404
        assert answers(client) == before
        entries = [(each["what"], each["subject"]) for each in client.get("/v1/audit").json()["entries"]]
        assert ("disavowed", "a: ref spam.example") in entries
        assert ("disavowal undone", "a: ref spam.example") in entries
    assert server.stop() == 0
    said("verify", "--data", str(server.data))


def test_hits_of_all_links_or_of_a_prefix_are_called_bots_at_once(serve: Serve) -> None:
    server = serve("--flush-s", "3600")
    with http_client(server.url) as client:
        for key, count in (("a", 40), ("acme/1", 5), ("acme/2", 6), ("other", 0)):
            if count:
                send(client, key, "https://spam.example/x", count, groups=["g"])
            send(client, key, "https://news.example/", 2)
        before = answers(client)
        spam = {"ref": "spam.example"}
        dry = client.post("/v1/disavow?dry_run=true", json=spam).raise_for_status().json()
        assert (dry["kind"], dry["key"], dry["state"], dry["at_least"], dry["moved"]) == ("all", None, "dry_run", 51, 0)
        assert (dry["links"], dry["left_out"], answers(client)) == (4, 0, before)
        some = client.post("/v1/disavow?prefix=acme/", json=spam)
        rule = some.raise_for_status().json()
        assert (some.status_code, rule["kind"], rule["key"], rule["state"]) == (200, "prefix", "acme/", "settled")
        assert (rule["links"], rule["moved"]) == (2, 11)
        assert [client.get(f"/v1/links/{key}/total").json()["total"] for key in ("a", "acme%2F1")] == [42, 2]
        everything = client.post("/v1/disavow", json=spam).raise_for_status().json()
        assert (everything["id"], everything["moved"], everything["state"]) == (dry["id"], 51, "settled")
        assert client.get("/v1/total").json()["total"] == 8
        assert client.get("/v1/groups/g/total").json()["total"] == 51, "groups do not follow"
        assert [(each["key"], each["count"]) for each in client.get("/v1/links").json()["links"]] == [
            (key, 2) for key in ("a", "acme/1", "acme/2", "other")
        ]
        assert [each["id"] for each in client.get("/v1/disavow").json()["rules"]] == [rule["id"], everything["id"]]
        assert client.delete(f"/v1/disavow/{everything['id']}").json()["state"] == "undone"
        assert client.get("/v1/total").json()["total"] == 48, "what the other rule calls stays called"
        assert client.delete(f"/v1/disavow/{rule['id']}").json()["state"] == "undone"
        assert answers(client) == before
        entries = [each["subject"] for each in client.get("/v1/audit").json()["entries"] if each["what"] == "disavowed"]
        assert set(entries) == {"keys with acme/: ref spam.example", "all links: ref spam.example"}
        for query in ("prefix=" + "x" * 1_025, "from=2020-01-05&to=2020-01-20"):
            assert client.post(f"/v1/disavow?{query}", json=spam).status_code == 422


def test_a_deleted_link_takes_its_corrections_along(serve: Serve) -> None:
    server = serve("--flush-s", "3600")
    with http_client(server.url) as client:
        send(client, "a", "https://spam.example/", 9)
        rule = client.post("/v1/links/a/disavow", json={"ref": "spam.example"}).raise_for_status().json()
        client.delete("/v1/links/a").raise_for_status()
        send(client, "a", "https://spam.example/", 4)

        def totals(path: str) -> list[int]:
            return [client.get(f"{path}/total?bots={bots}").json()["total"] for bots in ("exclude", "only")]

        assert (totals("/v1/links/a"), totals("/v1")) == ([4, 0], [4, 9])
        assert client.delete(f"/v1/disavow/{rule['id']}").json()["state"] == "undone"
        assert (totals("/v1/links/a"), totals("/v1")) == ([4, 0], [4, 9]), "nobody knows any more what was the link's"


def test_an_export_takes_its_rules_along_and_gives_the_same_answers(serve: Serve, data: Path, tmp_path: Path) -> None:
    server = serve("--flush-s", "3600", data=data)
    with http_client(server.url) as client:
        for key in "ab":
            send(client, key, "https://spam.example/", 9, groups=["g"])
            send(client, key, "https://news.example/", 2, ts=int(clock.now()) - 40 * DAY_S)
        for path in ("/v1/links/a/disavow", "/v1/groups/g/disavow", "/v1/disavow"):
            client.post(path, json={"ref": "spam.example"}).raise_for_status()
        before = answers(client)
    server.stop()
    said("export", "--out", str(tmp_path / "out.ndjson"), "--data", str(data))
    said("backup", str(tmp_path / "backup.db"), "--data", str(data))
    store = open_store(f"sqlite:///{tmp_path}/backup.db")
    assert len(DisavowBook(store).all()) == 3, "a backup has the rules, and their corrections"
    store.close()
    server = serve("--flush-s", "3600", data=tmp_path / "other")
    with http_client(server.url) as client:
        said("import", str(tmp_path / "out.ndjson"), "--url", server.url)
        assert len(client.get("/v1/disavow").json()["rules"]) == 3
        assert [text for text in answers(client) if '"from"' not in text] == [
            text for text in before if '"from"' not in text
        ]


@pytest.mark.parametrize("stored", ["\0moved:a", "\0by:\0moved:a"])
def test_a_damaged_correction_is_named_as_any_damaged_row(stored: str, serve: Serve, data: Path) -> None:
    server = serve("--flush-s", "3600", data=data)
    with http_client(server.url) as client:
        for key in "ab":
            send(client, key, "https://spam.example/", 9)
        spam = {"ref": "spam.example"}
        rules = [client.post(f"/v1/links/{key}/disavow", json=spam).raise_for_status().json() for key in "ab"]
    server.stop()
    with closing(sqlite3.connect(data / "clickcurve.db")) as db, db:
        changed = db.execute("UPDATE rows SET data = substr(data, 1, length(data) - 3) WHERE key = ?", (stored,))
        assert changed.rowcount == 1
    server = serve("--flush-s", "3600", data=data)
    paths = ["/v1/links/a", "/v1/links/a/total", "/v1/links/a/curve?last=7d", "/v1/links/a/by/ref", "/v1/links/a/why"]
    paths += ["/v1/links/a/badge.svg", "/metrics/links", "/v1/links", "/v1/links?sort=key", "/v1/links?last=7d", "/"]
    paths += ["/links/a", "/v1/disavow", f"/v1/disavow/{rules[0]['id']}", "/v1/links/a/total?bots=include"]
    with http_client(server.url) as client:
        named = 0
        for path in paths:
            answer = client.get(path)
            assert answer.status_code in (200, 503), (path, answer.text)
            if answer.status_code == 503 and "json" in answer.headers["content-type"]:
                problem = answer.json()
                assert (problem["title"], problem["value"]) == ("damaged row", "a"), path
                assert "this link's" in problem["detail"] and "correction" in problem["detail"], problem["detail"]
                named += 1
        assert named >= 4
        for path in ("/v1/links/b/total", f"/v1/disavow/{rules[1]['id']}", "/v1/total"):
            assert client.get(path).status_code == 200, path
        send(client, "b", "https://spam.example/", 1)
        answer = client.post("/v1/links/b/disavow", json=spam).raise_for_status().json()
        assert (answer["state"], answer["moved"]) == ("settled", 10), "rules of other links go on"
        assert client.post("/v1/links/a/disavow", json=spam).status_code == 503
        assert client.delete(f"/v1/disavow/{rules[0]['id']}").status_code == 503
        assert client.delete(f"/v1/disavow/{rules[1]['id']}").json()["state"] == "undone"
        many = client.post("/v1/disavow", json=spam).raise_for_status().json()
        assert (many["state"], many["links"], many["left_out"], many["moved"]) == ("settled", 2, 1, 10)


def test_what_no_rule_can_be_is_refused_by_name(serve: Serve) -> None:
    server = serve("--flush-s", "3600")
    with http_client(server.url) as client:
        for path, body, status, field in (
            ("/v1/links/a/disavow", {"ref": "a", "country": "DE"}, 422, "body"),
            ("/v1/links/a/disavow", {}, 422, "body"),
            ("/v1/links/a/disavow", {"ref": ""}, 422, "ref"),
            ("/v1/links/a/disavow", {"browser": "x"}, 422, "dimension"),
            ("/v1/links/a/disavow", {"ref": 7}, 400, None),
            ("/v1/links/a/disavow", [1], 400, None),
            ("/v1/links/a/disavow?dry_run=maybe", {"ref": "a"}, 422, "dry_run"),
            ("/v1/links/a/disavow?last=x", {"ref": "a"}, 422, "last"),
            ("/v1/links/a/disavow?step=1d", {"ref": "a"}, 422, "step"),
            ("/v1/links/a/disavow?from=2020-01-05&to=2020-01-20", {"ref": "a"}, 422, "from"),
        ):
            answer = client.post(path, json=body)
            assert (answer.status_code, answer.json().get("field")) == (status, field), path
        assert "no whole bucket" in answer.json()["detail"]
        assert client.delete("/v1/disavow/none").status_code == 404


def test_workers_know_rules_of_one_another(serve: Serve) -> None:
    server = serve("--workers", "2", "--flush-s", "1")
    for _ in range(20):
        with http_client(server.url, fresh=True) as client:
            send(client, "a", "https://spam.example/", 1)
    with http_client(server.url, fresh=True) as client:
        client.post("/v1/links/a/disavow", json={"ref": "spam.example"}).raise_for_status()
        wait_until(lambda: client.get("/v1/disavow").json()["rules"][0]["state"] == "settled")
        wait_until(lambda: [client.get("/v1/links/a/total").json()["total"] for _ in range(8)] == [0] * 8)
        rule = client.get("/v1/disavow").json()["rules"][0]
        assert rule["moved"] == 20
        for _ in range(10):
            with http_client(server.url, fresh=True) as other:
                send(other, "a", "https://spam.example/", 1)
        client.post("/v1/links/a/disavow", json={"ref": "spam.example"}).raise_for_status()
        wait_until(lambda: client.get("/v1/disavow").json()["rules"][0]["moved"] == 30)
        wait_until(lambda: [client.get("/v1/links/a/total").json()["total"] for _ in range(8)] == [0] * 8)
        client.delete(f"/v1/disavow/{rule['id']}").raise_for_status()
        wait_until(lambda: client.get("/v1/disavow").json()["rules"] == [])
        wait_until(lambda: [client.get("/v1/links/a/total").json()["total"] for _ in range(8)] == [30] * 8)


def test_a_store_that_counts_in_wider_buckets_than_values_takes_no_rule(serve: Serve) -> None:
    server = serve("--flush-s", "3600", "--ladder", "3600:1,week:400,month")
    with http_client(server.url) as client:
        send(client, "a", "https://spam.example/", 9)
        answer = client.post("/v1/links/a/disavow", json={"ref": "spam.example"})
        assert (answer.status_code, answer.json()["field"]) == (422, "ladder")
        assert answer.json()["value"] == "3600:1,week:400,month"
        assert client.get("/v1/disavow").json() == {"rules": []}


def called_in(server: RunningServer, stored: str) -> set[str]:
    """The values that the stored correction of a row names, of a server that has stopped."""
    store = open_store(f"sqlite:///{server.data}/clickcurve.db")
    rows = asyncio.run(store.rows(breakdown_of(moved_key(stored)))).rows
    store.close()
    breakdowns = [decode_parts(separate_parts(row.data)) for row in rows]
    return {
        value
        for breakdown in breakdowns
        for tiers in breakdown.dimensions.values()
        for tier in tiers
        for counts in tier.values()
        for value in counts.values
    }


def test_the_value_of_a_rule_stays_in_its_correction_until_the_link_is_deleted(serve: Serve) -> None:
    server = serve("--flush-s", "3600")
    with http_client(server.url) as client:
        send(client, "a", "https://spam.example/", 9, groups=["g"])
        rule = client.post("/v1/links/a/disavow", json={"ref": "spam.example"}).raise_for_status().json()
        client.delete(f"/v1/disavow/{rule['id']}").raise_for_status()
    assert server.stop() == 0
    assert called_in(server, "a") == called_in(server, ALL_LINKS) == {"spam.example"}
    server = serve("--flush-s", "3600")
    with http_client(server.url) as client:
        client.delete("/v1/links/a").raise_for_status()
        send(client, "a", "https://spam.example/", 9, groups=["g"])
    assert server.stop() == 0
    assert called_in(server, "a") == set(), "also of a rule that was undone before"
    server = serve("--flush-s", "3600")
    with http_client(server.url) as client:
        client.post("/v1/links/a/disavow", json={"ref": "spam.example"}).raise_for_status()
        client.post("/v1/groups/g/disavow", json={"ref": "spam.example"}).raise_for_status()
        assert client.get("/v1/groups/g/total").json()["total"] == 0
        for path in ("/v1/links/a", "/v1/groups/g"):
            client.delete(path).raise_for_status()
        kept = {each["key"]: each["moved"] for each in client.get("/v1/disavow").json()["rules"]}
        assert kept == {"a": 0, "g": 0}, "the rules themselves stay"
    assert server.stop() == 0
    assert called_in(server, "a") == called_in(server, group_key("g")) == set()
    assert called_in(server, ALL_LINKS) == {"spam.example"}


def test_a_rule_that_is_sent_again_also_calls_the_hits_that_came_since(serve: Serve) -> None:
    server = serve("--flush-s", "3600")
    with http_client(server.url) as client:
        spam = {"ref": "spam.example"}
        for sent, moved in ((40, 40), (5, 45)):
            send(client, "a", "https://spam.example/", sent)
            dry = client.post("/v1/links/a/disavow?dry_run=true", json=spam).json()
            assert (dry["at_least"], dry["moved"]) == (sent, moved - sent)
            rule = client.post("/v1/links/a/disavow", json=spam).raise_for_status().json()
            assert (rule["id"], rule["state"], rule["moved"]) == (dry["id"], "settled", moved)
        assert len(client.get("/v1/disavow").json()["rules"]) == 1
        client.delete(f"/v1/disavow/{rule['id']}").raise_for_status()
        assert client.get("/v1/links/a/total").json()["total"] == 45
