"""A store that a clock 400 days ahead has folded: it says so, and an export and an import bring minutes back.

The steps are those of docs/upgrade.md.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.ladder import DAY_S
from testing.client import Clickcurve
from testing.program import running
from testing.server import command
from tests.clock.clocked_server import ClockedServer, clocked
from tests.clock.wrong_clock import WrongClock

pytestmark = pytest.mark.needs("compiler")
AHEAD = 400 * DAY_S
LINKS = [f"{n}-{'x' * 400}" for n in range(4_000)]  # so the export has two megabytes: an import of several chunks
SETTINGS = '[events]\nnames = ["sale"]\n'
SAID = {"ref": "https://t.co/x", "country": "AT", "groups": ["shop"]}
SUMS = (
    "/v1/links/minutes/total",
    "/v1/links/minutes/total?bots=only",
    "/v1/links/minutes/total?event=sale",
    "/v1/links/minutes/total?event=sale&measure=value",
    "/v1/links/minutes/by/ref",
    "/v1/links/minutes/by/country",
    "/v1/links/minutes/events/by/ref",
    "/v1/links/moved",
    "/v1/links/while-wrong/total",
    f"/v1/links/{LINKS[7]}/total",
    "/v1/groups/shop/total",
    "/v1/groups/shop/by/ref",
    "/v1/total",
)


def send_hits(asking: Clickcurve, now: int) -> None:
    """Counts hits of today and of two months before, and one that the wrong clock stamps."""
    times = [now - n * 9 * DAY_S for n in range(8)]
    hits: list[dict[str, Any]] = [{"key": "minutes", "ts": t, "count": n, **SAID} for n, t in enumerate(times, 1)]
    hits += [{**hit, "event": "sale", "value": 250} for hit in hits]
    hits += [{"key": "minutes", "ts": t, "bot": True} for t in times] + [{"key": "while-wrong"}]
    assert asking.send(hits)["refused"] == 0
    assert asking.send([{"key": key, "ts": now} for key in LINKS])["counted"] == len(LINKS)
    asking.http.post("/v1/import/past?from=0&to=1", json=[{"key": "moved", "opening": 7}]).raise_for_status()


def folded_ahead(server: ClockedServer) -> dict[str, Any]:
    """Counts hits under the wrong clock, then under the right one; returns the sums, and stops the server.

    An older version, which followed the clock at once, has left such a folder: a first start believes it.
    """
    now = int(time.time())
    with server.answers as asking:
        send_hits(asking, now)
    server.flush()
    assert server.process.stop() == 0
    server.wall.set(0)
    server.command("clock", "accept", "--folder", "--data", str(server.data))
    with server.start() as asking:
        asking.send([{"key": "minutes", "ts": now - 60 * n, **SAID} for n in range(8)])
        server.flush()
        assert min(server.widths("minutes")) >= DAY_S, "new hits have no minutes"
        told = server.events("folded ahead")
        assert [each["days"] in (399, 400) for each in told] == [True]
        assert "docs/upgrade.md" in told[0]["then"]
        sums = {question: asking.http.get(question).raise_for_status().json() for question in SUMS}
    assert server.process.stop() == 0
    return sums


def import_killed(words: tuple[str, ...], fresh: Path, wall: WrongClock) -> None:
    """Kills an import as soon as the journal of its folder holds something of the first chunk."""

    def has_begun() -> bool:
        return any(LINKS[0].encode() in file.read_bytes() for file in fresh.glob("journal-1/*"))

    with running(command(*words), fresh.parent / "import.out", wall.environment) as program:
        program.until(has_begun)
        program.kill()


def test_an_export_and_an_import_bring_minutes_back(tmp_path: Path, wall: WrongClock) -> None:
    data, fresh, history = tmp_path / "data", tmp_path / "fresh", tmp_path / "history.ndjson"
    config = tmp_path / "clickcurve.toml"
    config.write_text(SETTINGS)
    wall.set(AHEAD)
    with clocked(data, wall, "--config", str(config)) as server:
        before = folded_ahead(server)
        named = ("--config", str(config))
        server.command("export", "--data", str(data), "--out", str(history), *named)
        words = ("import", str(history), "--data", str(fresh), "--wide", "start", "--ahead", "now", *named)
        import_killed(words, fresh, wall)
        assert "were counted before" in (said := server.command(*words))
        assert "refused 0" in said
        assert "counted 0" in server.command(*words), "once more"
        assert "0 rows break a law" in server.command("verify", "--data", str(fresh))
    with clocked(fresh, wall, "--config", str(config)) as server, server.answers as asking:
        after = {question: asking.http.get(question).raise_for_status().json() for question in SUMS}
        assert {question: sums_of(answer) for question, answer in after.items()} == {
            question: sums_of(answer) for question, answer in before.items()
        }
        now = int(time.time())
        asking.send([{"key": "minutes", "ts": now - 60 * n, "count": n + 1, **SAID} for n in range(8)])
        server.flush()
        assert 60 in server.widths("minutes"), "new hits have minutes"
        points = asking.curve("minutes", last="10m", step="1m")["points"]
        counts = {point["start"]: point["count"] for point in points}
        assert all(counts[(now - 60 * n) // 60 * 60] > n for n in range(8))
        assert asking.total("minutes")["total"] == before[SUMS[0]]["total"] + 36
        assert server.events("folded ahead") == []
        assert server.process.stop() == 0
        assert "0 rows break a law" in server.command("verify", "--data", str(fresh))


def sums_of(answer: Any) -> Any:
    """Returns what an answer says of all time: totals, and the values of a list with theirs."""
    if isinstance(answer, list):
        return [sums_of(each) for each in answer]
    if isinstance(answer, dict):
        names = ("total", "lifetime", "bots", "opening", "value", "values", "count", "at_least", "at_most", "event")
        return {name: sums_of(answer[name]) for name in names if name in answer}
    return answer
