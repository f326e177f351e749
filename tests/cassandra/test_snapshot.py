"""A snapshot of Cassandra's own brings a keyspace back: what was stored by then, and what the journals hold."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testing.cassandra.node import Node
from testing.client import Clickcurve
from testing.server import RunningServer, run
from tests.conftest import Serve
from tests.server.conftest import events

NAME = "monday"
# All that answers rest on. The others hold lists and notes; a call of nodetool costs seconds, so here they stay.
TABLES = ("rows", "owners", "ids")
# Only starts and stops flush.
SETTINGS = ("--flush-s", "3600")


def hit(server: RunningServer, count: int, id_: str | None = None) -> None:
    """Hits of `launch`, with a count that no other has: totals say which ones they hold."""
    with Clickcurve(server.url) as client:
        assert client.send({"key": "launch", "count": count, **({"id": id_} if id_ else {})})["counted"] == count


def totals(server: RunningServer) -> tuple[int, int]:
    """Of the link and of all links together."""
    with Clickcurve(server.url) as client:
        return client.total("launch")["total"], client.total()["total"]


def bring_back(node: Node, keyspace: str, kept: Path) -> None:
    """Empty the tables and import what the snapshot has of them, as the operations guide says."""
    for table in TABLES:
        node.ask(f"TRUNCATE {keyspace}.{table}", timeout_s=600)
    with ThreadPoolExecutor(len(TABLES)) as several:
        imports = [("import", "--copy-data", keyspace, table, str(kept / table)) for table in TABLES]
        list(several.map(lambda arguments: node.nodetool(*arguments), imports))


def keep_snapshot(node: Node, keyspace: str, kept: Path) -> None:
    node.nodetool("snapshot", "-t", NAME, keyspace)
    for found in (node.place.folder / "data" / keyspace).glob(f"*/snapshots/{NAME}"):
        shutil.copytree(found, kept / found.parent.parent.name.rpartition("-")[0])
    assert {each.name for each in kept.iterdir()} >= set(TABLES)


def test_a_snapshot_brings_back_what_was_stored_and_journals_add_what_they_hold(
    one_node: Node, cassandra_uri: str, keyspace: str, serve: Serve, tmp_path: Path
) -> None:
    server = serve("--store", cassandra_uri, *SETTINGS)
    hit(server, 1)
    hit(server, 2, "visit")
    assert server.stop() == 0
    keep_snapshot(one_node, keyspace, tmp_path / "kept")
    server.start()
    hit(server, 4)
    server.kill()
    server.start()  # stores them, under a later epoch
    hit(server, 8)
    server.kill()
    bring_back(one_node, keyspace, tmp_path / "kept")

    server.start()
    assert totals(server) == (1 + 2 + 8, 1 + 2 + 8), "what was stored since the snapshot is gone, the journal counts"
    with Clickcurve(server.url) as client:
        assert client.send({"key": "launch", "count": 2, "id": "visit"})["duplicate"] == 2
    hit(server, 16)
    assert server.stop() == 0
    assert not events(server, "journal quarantined")
    elsewhere = serve("--store", cassandra_uri, data=tmp_path / "elsewhere")
    assert totals(elsewhere) == (1 + 2 + 8 + 16, 1 + 2 + 8 + 16)
    assert elsewhere.stop() == 0
    verified = run("verify", "--store", cassandra_uri)
    assert verified.returncode == 0, verified.stdout
