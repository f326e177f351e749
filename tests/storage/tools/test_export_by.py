"""Breakdowns in an export: an import of it gives the same answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.breakdowns.breakdown import (
    BREAKDOWN,
    CUT_OFF,
    CUT_SLACK,
    BreakdownDelta,
    ValueCounts,
    apply_breakdown,
    land,
)
from clickcurve.buckets.breakdowns.parts import apply_parts, decode_parts
from clickcurve.buckets.ladder import CLICKS, fold_day
from clickcurve.keys import breakdown_key
from storage.contract import SavedRow
from storage.memory_store import MemoryStore
from storage.tools.export import export
from testing.client import Clickcurve
from testing.server import run
from tests.conftest import Serve
from tests.storage.flushes import NOON, Flusher, hits

HOUR = NOON - NOON % 3_600


def test_what_was_cut_elsewhere_lands_as_it_was() -> None:
    delta = BreakdownDelta({"ref": {HOUR: {"a.example": 3, CUT_OFF: 5, CUT_SLACK: 2}}})
    row = land(BREAKDOWN.empty, [delta], 0, BREAKDOWN)
    assert list(row.dimensions["ref"][0].values()) == [ValueCounts({"a.example": 3}, 5, 2)]
    day = fold_day(NOON)
    whole = apply_breakdown(BREAKDOWN.empty, delta, 1, day, 0, BREAKDOWN)
    parts = apply_parts(None, delta, 1, day, 0, BREAKDOWN)
    assert decode_parts(parts) == whole
    assert decode_parts(apply_parts(parts, delta, 2, day, 0, BREAKDOWN)).dimensions["ref"][0] == {
        HOUR: ValueCounts({"a.example": 6}, 10, 4)
    }


def test_an_export_has_the_breakdowns_of_all_owners() -> None:
    store = MemoryStore()
    for owner in (1, 2):
        flusher = Flusher(store, owner, divided=True)
        flusher.flush({"a": hits((0, 5)), "b": hits(bots=1)})
    store.erase(["c"], 1)
    lines = {line["key"]: line for line in export(store, CLICKS, NOON, lambda said: None)}
    assert lines["a"]["by"] == {"ref": [[HOUR, HOUR + 3_600, {"a.example": 10}, 0, 0]]}
    assert "by" not in lines["b"]
    row = store._rows[breakdown_key("a")][2]
    store._rows[breakdown_key("a")][2] = SavedRow(row.data[:-1], None)
    damaged: list[str] = []
    assert [line["key"] for line in export(store, CLICKS, NOON, damaged.append)] == ["b"]
    assert damaged[0].startswith("breakdown of link 'a', owner 2: not a breakdown")


def answers(url: str) -> list[Any]:
    with Clickcurve(url) as client:
        asked = ("links/a/by/ref", "links/a/by/source", "links/b/by/ref", "by/ref", "links/a/total", "total")
        of_groups = (
            "",
            "/spring",
            "/spring/curve?step=native&from=0&to=2026-05-01",  # without an end it changes with the minute
            "/spring/by/ref",
            "/spring/total",
            "/a%2Fb/by/ref",
        )
        paths = (*asked, *(f"groups{what}" for what in of_groups))
        return [client.http.get(f"/v1/{what}").json() for what in paths]


@pytest.mark.slow
def test_an_export_imports_to_the_same_answers(serve: Serve, tmp_path: Path) -> None:
    flags = ("--breakdown-dimensions", "ref,source", "--breakdown-caps", "2,2,2,2")
    server = serve(*flags, data=tmp_path / "data")
    with Clickcurve(server.url) as client:
        times = (NOON, NOON - 40 * 86_400)
        many = [{"key": "a", "ref": f"r{n}.example", "count": n, "ts": ts} for n in range(1, 6) for ts in times]
        in_groups = [{**hit, "groups": ["spring", "a/b"]} for hit in many]
        bot = {"key": "b", "bot": True, "groups": ["spring"]}
        client.send([*in_groups, bot, {"key": "a", "groups": ["spring"]}, {"key": "b", "source": "qr"}])
    before = answers(server.url)
    assert before[0]["other"] > 0 and before[-3]["other"] > 0
    assert before[6]["groups"] == [{"key": "spring", "count": 31}, {"key": "a/b", "count": 30}]
    server.stop()
    out = tmp_path / "history.ndjson"
    assert run("export", "--data", str(tmp_path / "data"), "--out", str(out)).returncode == 0
    other = serve(*flags, data=tmp_path / "other")
    output = run("import", "--url", other.url, str(out))
    assert output.returncode == 0, output.stdout + output.stderr
    assert "counted 33, " in output.stdout, "hits of groups are those of links"
    assert answers(other.url) == before
    output = run("import", "--url", other.url, str(out))
    assert output.returncode == 0 and answers(other.url) == before
    other.stop()
    again = tmp_path / "again.ndjson"
    assert run("export", "--data", str(tmp_path / "other"), "--out", str(again)).returncode == 0
    lines, copies = ([json.loads(line) for line in file.read_text().splitlines()] for file in (out, again))
    assert [line.get("group", line.get("key")) for line in lines] == ["a/b", "spring", "a", "b"]
    assert lines == copies
    assert run("verify", "--data", str(tmp_path / "other")).returncode == 0


def test_a_breakdown_that_cannot_be_is_refused_with_its_line(serve: Serve, tmp_path: Path) -> None:
    bucket = [NOON, NOON + 3_600, 3, 0]
    line = {"key": "a", "buckets": [bucket]}
    bad = [
        {"ref": [[HOUR, HOUR + 3_600, {"a.example": 4}, 0, 0]]},
        {"ref": [[HOUR + 1, HOUR + 3_600, {"a.example": 1}, 0, 0]]},
        {"ref": [[HOUR, HOUR + 3_600, {"a\x1b": 1}, 0, 0]]},
        {"ref": [[HOUR, HOUR + 3_600, {}, 1, 2]]},
        {"colour": [[HOUR, HOUR + 3_600, {"red": 1}, 0, 0]]},
        {"bot": [[HOUR, HOUR + 3_600, {"x": 1}, 0, 0]]},
    ]
    history = tmp_path / "history.ndjson"
    history.write_text("\n".join(json.dumps({**line, "key": f"k{n}", "by": by}) for n, by in enumerate(bad)))
    server = serve(data=tmp_path / "data")
    output = run("import", "--url", server.url, str(history))
    assert output.returncode == 1
    assert "counted 0" in output.stdout and "refused 6" in output.stdout
