"""Makes the golden folder of this version: `python -m tests.upgrade.make`, once, when a version is complete.

A real server counts hits in every tier, with ids, bots, an erased link, two imports and limits, what hits said, events
with values, and a note; it stops, starts again, counts more, and is killed, so that the journal holds hits that the
store has not.
A folder that is there is not made anew: what was written then must be read for ever.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import httpx

from testing.server import RunningServer, run
from tests.upgrade.then import (
    BEGAN,
    GOLDEN,
    HOUR_S,
    ask,
    client_of,
    export_at,
    import_file,
    pack,
    questions_of,
    server_at,
    unpack,
)

# The clock is set on by an hour between two starts: it is followed at once.
SETTINGS = """\
clock_settle_s = 0

[limits.login]
by = "user"
rates = "3/h"

[events]
names = ["lead", "sale"]

[events.sale]
unit = "EUR"
decimals = 2
"""
HISTORY = {
    "key": "moved",
    "total": 105,
    "bots": 1,
    "first_hit": 1_580_515_200,
    "last_hit": 1_583_020_000,
    "opening": 100,
    "buckets": [[1_580_515_200, 1_583_020_800, 5, 1]],
}
LOG = "".join(
    f'192.0.2.{n} - - [{n:02}/Oct/2026:10:00:00 +0000] "GET /logged HTTP/1.1" 302 0 "-" "Mozilla/5.0 Firefox/140.0"\n'
    for n in range(1, 31)
)
IMPORTED_LINES = 20  # of the log, before the stop


def first_day(client: httpx.Client, server: RunningServer, token: str, folder: Path) -> None:
    """Counts hits in every tier, which a stop then flushes."""
    times = ("2019-05-03T10:00", "2024-02-29T23:59", "2026-03-04T08:00", "2026-03-12T08:00", "2026-11-05T10:15")
    hits: list[dict[str, object]] = [{"key": "launch", "ts": ts, "count": n} for n, ts in enumerate(times, 1)]
    hits += [{"key": "launch", "ts": "2026-11-19T08:03", "count": 6}, {"key": "launch", "ts": "2026-11-19T08:31"}]
    hits += [{"key": "launch", "ts": f"2026-11-20T11:5{minute}", "count": minute} for minute in range(5, 10)]
    hits += [{"key": "launch", "ts": "2024-02-01", "count": 2, "ua": "Googlebot/2.1"}]
    hits += [{"key": "a/b"}, {"key": "grüße"}, {"key": "gone", "count": 9}, {"key": "launch", "id": "visit-1"}]
    assert post(client, "/v1/hits", hits)["refused"] == 0
    post(client, "/v1/hits", [{"key": "launch", "count": 2}], {"Idempotency-Key": "batch-1"})
    client.delete("/v1/links/gone").raise_for_status()
    post(client, "/v1/hits", {"key": "gone"})
    (folder / "history.ndjson").write_text(json.dumps(HISTORY) + "\n")
    import_file(folder / "history.ndjson", server, token)
    lines = LOG.splitlines(keepends=True)
    (folder / "access.log").write_text("".join(lines[:IMPORTED_LINES]))
    import_file(folder / "access.log", server, token)
    sold = {"key": "sold", "groups": ["shop"], "ref": "https://t.co/x", "country": "AT"}
    mailed = {**sold, "utm": {"medium": "email"}, "count": 9}
    post(client, "/v1/hits", [{**sold, "count": 40, "visitor": "ann"}, mailed])
    sales = [{**sold, "event": "sale", "value": 4990, "id": "order-1"}, {**sold, "event": "lead", "count": 3}]
    assert post(client, "/v1/hits", sales)["refused"] == 0
    client.post("/v1/notes", json={"text": "newsletter sent", "key": "sold"}).raise_for_status()
    assert [client.post("/v1/limit/login", json={"user": "ann"}).status_code for _ in range(4)] == [200] * 3 + [429]


def second_hour(client: httpx.Client, server: RunningServer, token: str, folder: Path) -> None:
    """Counts what stays in the journal."""
    post(client, "/v1/hits/launch", None)
    post(client, "/v1/hits", [{"key": "launch", "id": "visit-2"}, {"key": "late", "ts": "2024-02-29", "count": 3}])
    post(client, "/v1/hits", [{"key": "a/b", "count": 4}], {"Idempotency-Key": "batch-2"})
    lines = LOG.splitlines(keepends=True)
    (folder / "access.log").write_text("".join(lines[: IMPORTED_LINES + 5]))
    import_file(folder / "access.log", server, token)
    assert client.post("/v1/limit/login", json={"user": "bob"}).status_code == 200
    sold = {"key": "sold", "groups": ["shop"], "ref": "news.example"}
    post(client, "/v1/hits", [sold, {**sold, "event": "sale", "value": 1250, "count": 2, "visitor": "bob"}])
    asked = "/v1/limits/login/curve?outcome=asked&from=2026-11-20T13:00&to=2026-11-20T15:00&step=1h"
    server.wait_until(lambda: bool(client.get(asked).json()["total"] == 1))


def post(client: httpx.Client, path: str, hits: object, headers: dict[str, str] | None = None) -> dict[str, int]:
    answer = client.post(path, headers=headers) if hits is None else client.post(path, json=hits, headers=headers)
    receipt: dict[str, int] = answer.raise_for_status().json()
    return receipt


def without_this_machine(database: Path) -> None:
    """Forgets on which machine, and where, the journal was: of no use elsewhere."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE owners SET place = 'golden:/data/journal-1'")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def main(version: str) -> None:
    golden = GOLDEN / version
    golden.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        folder = Path(name)
        (folder / "clickcurve.toml").write_text(SETTINGS)
        token = run("token", "create", "golden", "--scope", "admin", "--data", str(folder / "data")).stdout.strip()
        with server_at(BEGAN, folder) as server, client_of(server, token) as client:
            first_day(client, server, token, folder)
            assert server.stop() == 0
        with server_at(BEGAN + HOUR_S, folder) as server, client_of(server, token) as client:
            second_hour(client, server, token, folder)
            server.kill()
        without_this_machine(folder / "data" / "clickcurve.db")
        pack(folder / "data", golden / "data.zip")
        for file in ("clickcurve.toml", "history.ndjson"):
            shutil.copy(folder / file, golden)
        (golden / "access.log").write_text(LOG)
        (golden / "token.txt").write_text(token + "\n")
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        unpack(golden, Path(name))
        with server_at(BEGAN + 2 * HOUR_S, Path(name)) as server, client_of(server, token) as client:
            answers = ask(client, questions_of(version))
        (golden / "answers.json").write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
        (golden / "export.ndjson").write_text(export_at(BEGAN + 2 * HOUR_S, Path(name)))


if __name__ == "__main__":
    main(*sys.argv[1:])
