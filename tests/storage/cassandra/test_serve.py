"""The server over a real node: started before it, several on it, and through the node's bad times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testing.cassandra.node import Node
from testing.cassandra.ring import place_one
from testing.cassandra.tables import make_tables
from testing.client import Clickcurve
from testing.server import RunningServer
from tests.conftest import Serve
from tests.server.commands import said
from tests.server.conftest import events, wait_until


@pytest.fixture
def late_node(cassandra_program: None, tmp_path: Path) -> Iterator[Node]:
    """A node that is not started yet."""
    node = Node(place_one(tmp_path / "node"))
    yield node
    node.kill()


def total(server: RunningServer, key: str = "launch") -> int | None:
    """None while the store is down. A fresh connection may meet any worker."""
    with Clickcurve(server.url) as client:
        answer = client.http.get(f"/v1/links/{key}/total")
    return int(answer.json()["total"]) if answer.status_code == 200 else None


def counts(server: RunningServer, expected: int) -> bool:
    return total(server) == expected


def hit(server: RunningServer, times: int, key: str = "launch") -> None:
    for _ in range(times):
        with Clickcurve(server.url) as client:  # each over a connection of its own, so that all workers get some
            assert client.hit(key)["counted"] == 1


def ready(server: RunningServer) -> tuple[int, str]:
    with Clickcurve(server.url) as client:
        answer = client.http.get("/readyz")
        return answer.status_code, answer.json()["store"]


def test_hits_are_accepted_before_the_cluster_is_up_and_while_it_is_down(
    serve: Serve, late_node: Node, keyspace: str
) -> None:
    uri = f"cassandra://{late_node.address}:{late_node.port}/{keyspace}"
    server = serve("--store", f"{uri}?timeout_s=1", "--flush-s", "1")
    assert ready(server) == (200, "down")
    hit(server, 7)
    with Clickcurve(server.url) as client:
        assert client.send({"key": "launch", "count": 100}, {"Idempotency-Key": "batch"})["counted"] == 100
        assert client.http.get("/readyz?for=read").status_code == 503
    assert total(server) is None

    late_node.start().wait_ready()
    wait_until(lambda: "clickcurve schema apply" in server.output())  # it is up, but without a keyspace
    make_tables(uri)
    wait_until(lambda: ready(server) == (200, "up"))
    wait_until(lambda: total(server) == 107)
    with Clickcurve(server.url) as client:
        assert client.curve("launch", last="2h")["total"] == 107
        assert client.top()["links"] == [{"key": "launch", "count": 107}]

    late_node.suspend()
    hit(server, 5)
    wait_until(lambda: ready(server) == (200, "down"))
    hit(server, 3)
    late_node.resume()
    wait_until(lambda: ready(server) == (200, "up"))
    wait_until(lambda: total(server) == 115)
    assert server.stop() == 0
    assert "Traceback" not in server.output()


def test_several_workers_and_machines_count_together(serve: Serve, cassandra_uri: str, tmp_path: Path) -> None:
    here = serve("--store", cassandra_uri, "--flush-s", "1", "--workers", "3", data=tmp_path / "here")
    there = serve("--store", cassandra_uri, "--flush-s", "1", data=tmp_path / "there")
    wait_until(lambda: len(events(here, "listening")) == 3)
    hit(here, 30)
    hit(there, 12)
    batch = {"key": "launch", "count": 1_000}
    for server in (here, there, here, there):
        with Clickcurve(server.url) as client:
            assert client.send(batch, {"Idempotency-Key": "one-batch"}).keys() >= {"counted", "duplicate"}
    for server in (here, there):
        wait_until(partial(counts, server, 1_042))

    with Clickcurve(there.url) as client:
        assert client.erase("launch") == 204
    hit(here, 4)  # though its workers have the former rows in memory
    for server in (here, there):
        wait_until(partial(counts, server, 4))
    with Clickcurve(there.url) as client:
        measures = client.metrics()
        assert client.total()["total"] == 1_046
    assert measures['clickcurve_row_cache_bytes{journal="journal-1"}'] > 0
    assert measures['clickcurve_store_requests_total{journal="journal-1"}'] > 0
    assert (here.stop(), there.stop()) == (0, 0)
    again = serve("--store", cassandra_uri, data=tmp_path / "elsewhere")
    assert total(again) == 4
    assert again.stop() == 0


def test_a_rule_made_at_one_machine_is_carried_out_and_undone_at_all(
    serve: Serve, cassandra_uri: str, tmp_path: Path
) -> None:
    flags = ("--store", cassandra_uri, "--flush-s", "1", "--breakdown-dimensions", "ref")
    servers = [serve(*flags, data=tmp_path / name) for name in ("here", "there")]
    spam = {"key": "launch", "ref": "spam.example"}
    for server, count in zip(servers, (5, 7), strict=True):
        with Clickcurve(server.url) as client:
            client.send([{**spam, "count": count}, {"key": "launch", "count": 1}])

    def totals(expected: int) -> bool:
        return all(counts(server, expected) for server in servers)

    def rules(server: RunningServer) -> list[dict[str, object]]:
        with Clickcurve(server.url) as client:
            found: list[dict[str, object]] = client.http.get("/v1/disavow").raise_for_status().json()["rules"]
        return found

    wait_until(lambda: totals(14))
    with Clickcurve(servers[1].url) as client:
        rule = client.http.post("/v1/links/launch/disavow", json={"ref": "spam.example"}).raise_for_status().json()
    wait_until(lambda: totals(2) and [each["state"] for each in rules(servers[0])] == ["settled"])
    assert [each["moved"] for each in rules(servers[0])] == [12]
    with Clickcurve(servers[0].url) as client:
        client.http.delete(f"/v1/disavow/{rule['id']}").raise_for_status()
    wait_until(lambda: totals(14) and rules(servers[1]) == [])
    assert [server.stop() for server in servers] == [0, 0]
    said("verify", "--store", cassandra_uri)


def test_a_value_is_erased_by_both_machines_and_for_one_that_was_closed(
    serve: Serve, cassandra_uri: str, tmp_path: Path
) -> None:
    flags = ("--store", cassandra_uri, "--flush-s", "1", "--breakdown-dimensions", "ref")
    here, there, closed = (serve(*flags, data=tmp_path / name) for name in ("here", "there", "closed"))
    for server, count in ((here, 5), (there, 7), (closed, 9)):
        with Clickcurve(server.url) as client:
            client.send([{"key": "launch", "ref": "ann.example", "count": count}])
    wait_until(lambda: counts(here, 21))
    assert closed.stop() == 0
    with Clickcurve(there.url) as client:
        body = {"dimension": "ref", "value": "ann.example"}
        erasure = client.http.post("/v1/words/erase", json=body).raise_for_status().json()
        assert len(erasure["waiting"]) == 3

    def state(server: RunningServer) -> Any:
        with Clickcurve(server.url) as client:
            return client.http.get(f"/v1/words/erase/{erasure['id']}").raise_for_status().json()

    wait_until(lambda: state(here)["state"] == "done", 60)
    assert (state(there)["hits"], state(there)["waiting"]) == (21, [])
    for server in (here, there):
        with Clickcurve(server.url) as client:
            answer = client.http.get("/v1/links/launch/by/ref").raise_for_status().json()
        assert (answer["values"], answer["other"]) == ([], 21)
    assert "ann.example" not in said("dump", "launch", "--store", cassandra_uri)
    assert [server.stop() for server in (here, there)] == [0, 0]
    again = serve(*flags, data=tmp_path / "closed")
    wait_until(lambda: counts(again, 21))
    said("verify", "--store", cassandra_uri)


def test_a_customer_is_exported_and_deleted_at_any_machine(serve: Serve, cassandra_uri: str, tmp_path: Path) -> None:
    flags = "--store", cassandra_uri, "--flush-s", "1", "--breakdown-dimensions", "ref"
    here, there = (serve(*flags, data=tmp_path / name) for name in ("here", "there"))
    own, others = [f"acme/{n:03}" for n in range(250)], {"acme": 2, "acmf": 3, "beta/x": 4}
    for server, some in ((here, own[:200]), (there, own[100:])):  # a hundred of them are counted by both
        with Clickcurve(server.url) as client:
            client.send([{"key": key, "groups": ["acme"], "ref": "news.example"} for key in some])
    with Clickcurve(here.url) as client:
        client.send([{"key": key, "count": count, "groups": ["rest"]} for key, count in others.items()])

    def asked(server: RunningServer, path: str) -> Any:
        with Clickcurve(server.url) as client:
            return client.http.get(path).raise_for_status().json()

    def exported(server: RunningServer, query: str = "") -> dict[str, int]:
        with Clickcurve(server.url) as client:
            lines = client.http.get(f"/v1/export?prefix=acme/{query}").raise_for_status().text.splitlines()
        return {each["key"]: each["by"]["ref"][0][2]["news.example"] for each in map(json.loads, lines)}

    def totals(expected: int) -> bool:
        return all(asked(server, "/v1/total")["total"] == expected for server in (here, there))

    wait_until(lambda: totals(359))
    for server in (here, there):
        lines = exported(server)
        assert list(lines) == own
        assert [lines[key] for key in own] == [1] * 100 + [2] * 100 + [1] * 50
        assert list(exported(server, "&after=acme/240")) == own[241:]
    with Clickcurve(there.url) as client:
        answer = client.http.delete("/v1/links?prefix=acme/&limit=100").raise_for_status().json()
    assert answer == {"deleted": 100, "more": True}
    done = said("delete", "--prefix", "acme/", "--group", "acme", "--yes", "--url", here.url)
    assert "150 links that begin with acme/ are deleted" in done
    for server in (here, there):
        wait_until(lambda: exported(server) == {})  # noqa: B023  # it is called in this turn
        assert asked(server, "/v1/links?sort=key&bots=include&prefix=acme/")["links"] == []
        assert asked(server, "/v1/links?prefix=acme/")["links"] == []
        assert asked(server, "/v1/groups/acme")["lifetime"] == 0
        assert {each["key"]: each["count"] for each in asked(server, "/v1/links")["links"]} == others
        assert asked(server, "/v1/groups/rest/total")["total"] == 9
    assert totals(359)  # no deletion reduces it
    with Clickcurve(there.url) as client:
        client.send({"key": own[0]})
    wait_until(lambda: [asked(server, "/v1/links/acme%2F000")["lifetime"] for server in (here, there)] == [1, 1])
    assert (here.stop(), there.stop()) == (0, 0)
    assert "0 rows break a law" in said("verify", "--store", cassandra_uri)
