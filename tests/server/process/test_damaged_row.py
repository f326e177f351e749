"""A damaged row under a real server: told everywhere, in nobody's way, and mended from the command line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from testing.client import Clickcurve
from tests.conftest import Serve
from tests.server.commands import said
from tests.server.conftest import events, wait_until


@pytest.mark.slow
def test_a_damaged_row_is_told_and_its_hits_wait_for_it(serve: Serve, data: Path, tmp_path: Path) -> None:
    first = serve("--flush-s", "3600", data=data)
    with Clickcurve(first.url) as client:
        for key in "abc":
            client.hit(key)
    first.stop()
    with closing(sqlite3.connect(data / "clickcurve.db")) as db, db:
        db.execute("UPDATE rows SET data = substr(data, 1, length(data) - 3) WHERE key = 'b'")

    second = serve("--flush-s", "1", data=data)
    with Clickcurve(second.url) as client:
        for key in "abccc":
            client.hit(key)
        waiting = 'clickcurve_quarantined_hits{journal="journal-1",key="b",owner="1"}'
        wait_until(lambda: client.metrics().get(waiting) == 1)
        metrics = client.metrics()
        assert metrics[waiting.replace("quarantined", "set_aside")] == 1, "the metric's former name"
        assert metrics['clickcurve_damaged_rows{journal="journal-1"}'] == 1
        assert metrics['clickcurve_failed_flushes_total{journal="journal-1"}'] == 0
        assert (client.total("a")["total"], client.total("c")["total"]) == (2, 4)
        for path in ("/v1/links/b", "/v1/links/b/total", "/v1/links/b/curve", "/v1/links?sort=hits"):
            refused(client.http.get(path))
        assert client.http.get("/v1/total").json()["total"] == 8
    (logged,) = events(second, "damaged row")
    assert (logged["key"], logged["owner"]) == ("b", 1)
    second.stop()

    folder = ("--data", str(data))
    (row,) = map(json.loads, said("repair", "--json", *folder, code=1).splitlines())
    assert (row["key"], row["owner"], row["people"], row["fault"][:9]) == ("b", 1, 1, "not a row")
    assert "1 hits are quarantined" in said("verify", *folder, code=1)
    exported = said("export", "--out", str(tmp_path / "out"), *folder, code=1)
    assert "link 'b', owner 1" in exported
    assert [json.loads(line)["key"] for line in (tmp_path / "out").read_text().splitlines()] == ["a", "c"]
    assert "all flushes of 1 owner" in said("backup", str(tmp_path / "copy.db"), *folder), "byte for byte, as it is"

    assert said("repair", "b", "--drop", *folder) == "no row keeps anything waiting\n"
    third = serve("--flush-s", "1", data=data)
    with Clickcurve(third.url) as client:
        assert client.total("b")["total"] == 1, "what came after the damage"
        assert client.http.get("/v1/total").json()["total"] == 8


def refused(answer: httpx.Response) -> None:
    problem = answer.json()
    assert (answer.status_code, problem["title"], problem["value"]) == (503, "damaged row", "b")
    assert problem["detail"].startswith("the row of this link, of owner 1, is damaged")
    assert answer.headers["retry-after"] == "60"


def test_an_export_of_an_empty_store_writes_an_empty_file(serve: Serve, data: Path, tmp_path: Path) -> None:
    serve(data=data).stop()
    said("export", "--out", str(tmp_path / "out"), "--data", str(data))
    assert (tmp_path / "out").read_bytes() == b""
