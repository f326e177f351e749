"""Values that are erased, or kept no more, leave the files of a real node with a compaction, and no wait before it.

Rows are overwritten and notes deleted, so what a compaction finds is shadowed: `gc_grace_seconds` is the life of
tombstones only.
"""

from __future__ import annotations

import time
from pathlib import Path

from testing.cassandra.node import Node
from testing.client import Clickcurve
from testing.server import RunningServer
from tests.conftest import Serve
from tests.server.commands import said
from tests.server.conftest import wait_until

DAY_S = 86_400
# No four letters of one are in another: a compressed block has each as it is where it comes first.
ERASED, OLD, FINE = "vqzjkxwp.example", "ybgfmhud.example", "ocnltrsi.example"


def places_of(value: str, node: Node) -> list[str]:
    """The tables of all keyspaces that have a value in a file."""
    word, data = value.partition(".")[0].encode(), node.place.folder / "data"
    files = (path for path in data.rglob("*") if path.is_file() and word in path.read_bytes())
    return sorted({"/".join(path.relative_to(data).parts[:2]).partition("-")[0] for path in files})


def values(server: RunningServer) -> tuple[dict[str, int], int]:
    with Clickcurve(server.url) as client:
        answer = client.http.get("/v1/links/launch/by/ref").raise_for_status().json()
    return {each["value"]: each["at_least"] for each in answer["values"]}, answer["other"]


def test_values_leave_the_files_of_a_node(
    serve: Serve, one_node: Node, keyspace: str, cassandra_uri: str, tmp_path: Path
) -> None:
    flags = "--store", cassandra_uri, "--flush-s", "1", "--breakdown-dimensions", "ref"
    here, there = (serve(*flags, data=tmp_path / name) for name in ("here", "there"))
    now = int(time.time())
    for server, count in ((here, 1), (there, 10)):
        with Clickcurve(server.url) as client:
            hits = ({"key": "launch", "ref": ref, "count": count} for ref in (ERASED, FINE))
            client.send([*hits, {"key": "launch", "ref": OLD, "count": count, "ts": now - 200 * DAY_S}])
    wait_until(lambda: values(here) == values(there) == ({ERASED: 11, OLD: 11, FINE: 11}, 0))
    with Clickcurve(here.url) as client:  # a rule and its correction name the value, too
        client.send({"key": "other", "ref": ERASED})
        rule = client.http.post("/v1/links/other/disavow", json={"ref": ERASED}).raise_for_status().json()["id"]
        wait_until(lambda: client.http.get(f"/v1/disavow/{rule}").json()["state"] == "settled", 60)
    assert there.stop() == 0
    one_node.nodetool("flush")
    assert all(places_of(value, one_node) for value in (ERASED, OLD, FINE)), "the search looks where they are"

    with Clickcurve(here.url) as client:
        body = {"dimension": "ref", "value": ERASED}
        erasure = client.http.post("/v1/words/erase", json=body).raise_for_status().json()["id"]
        path = f"/v1/words/erase/{erasure}"
        wait_until(lambda: client.http.get(path).raise_for_status().json()["state"] == "done", 60)
    assert here.stop() == 0
    config = tmp_path / "clickcurve.toml"
    config.write_text('[breakdown.keep]\nref = "30d"\n')
    keep = "--config", str(config)
    here = serve(*flags, *keep, data=tmp_path / "here")
    assert values(here) == ({FINE: 11}, 22), "what the other owner has stored is kept no more, either"
    assert here.stop() == 0
    for name in ("here", "there"):
        said("fold", "--store", cassandra_uri, "--data", str(tmp_path / name), *keep)
    one_node.nodetool("flush")
    one_node.nodetool("compact")
    assert [places_of(value, one_node) for value in (ERASED, OLD)] == [[], []]
    assert places_of(FINE, one_node)
    said("verify", "--store", cassandra_uri)
