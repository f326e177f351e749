"""`clickcurve join-spellings`: exact whatever is killed, listed before it is done, and left alone where it must be."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from storage.from_uri import open_store
from storage.sqlite.store import SqliteStore
from storage.tools.verify import verify
from testing.client import Clickcurve, http_client
from testing.server import ROOT, RunningServer
from tests.conftest import Serve
from tests.server.commands import said

SPELLED, PLAIN = "%6Caunch", "launch"
ROCKETS = ("%F0%9F%9A%80", "%f0%9f%9a%80", "🚀")
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0"


def verified(data: Path) -> list[str]:
    with closing(open_store(f"sqlite:///{data}/clickcurve.db", None, read_only=True)) as store:
        report = verify(store, store.ladder())
    return [*report.broken, *map(str, report.under_way)]


def hits() -> Iterator[dict[str, Any]]:
    """Hits of two links in several spellings: people and bots, over months, with words and visitors."""
    now = int(time.time())
    for n, key in enumerate((SPELLED, PLAIN, *ROCKETS) * 12):
        said_by = {"ref": f"https://{n % 7}.example/", "country": ("DE", "AT", "FR")[n % 3]}
        yield {
            "key": key,
            "ts": now - (n % 5) * 86_400 * (1 + n % 40),
            "count": n % 4 + 1,
            "bot": n % 6 == 0,
            **said_by,
        }
        yield {"key": key, "ip": f"203.0.113.{n % 9}", "ua": BROWSER}
        yield {"key": f"other{n}", "ref": "a.example"}


QUESTIONS = (
    "",
    "/total",
    "/curve?from=2024-01-01&step=1d",
    "/by/ref?limit=1000",
    "/by/country?limit=1000",
    "/visitors?last=2d",
)


def answers(server: RunningServer, *keys: str) -> dict[str, dict[str, Any]]:
    with http_client(server.url) as http:
        return {key: {each: http.get(f"/v1/links/{key}{each}").json() for each in QUESTIONS} for key in keys}


def counts(server: RunningServer) -> dict[str, int]:
    with http_client(server.url) as http:
        return {
            each["key"]: each["count"] for each in http.get("/v1/links?limit=1000").json()["links"] if each["count"]
        }


def filled(serve: Serve, data: Path, *flags: str) -> None:
    server = serve(*flags, data=data)
    with http_client(server.url) as http:
        for each in hits():
            http.post("/v1/hits", json=[each], headers={"connection": "close"}).raise_for_status()
    server.stop()


def sums(values: list[dict[str, Any]]) -> dict[str, int]:
    return {each["value"]: each["at_least"] for each in values}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_spelling_joins_its_link_with_all_that_was_counted(serve: Serve, tmp_path: Path, workers: str) -> None:
    """Of two workers each is an owner; the last start has one worker, so the other owner is closed."""
    data = tmp_path / "spelled"
    filled(serve, data, "--workers", workers)
    server = serve(data=data)
    before, listed = answers(server, "%256Caunch", PLAIN), counts(server)
    with http_client(server.url) as http:
        all_before = http.get("/v1/total").json()
    server.stop()

    shown = said("join-spellings", "--data", str(data))
    assert f"{SPELLED} would be joined with {PLAIN}" in shown and "🚀" in shown
    done = [json.loads(line) for line in said("join-spellings", "--data", str(data), "--apply", "--json").splitlines()]
    assert {each["key"]: each["joined"] for each in done} == {SPELLED: True, ROCKETS[0]: True, ROCKETS[1]: True}
    assert verified(data) == []
    assert "no key has another form" in said("join-spellings", "--data", str(data), "--apply")

    server = serve(data=data)
    after = answers(server, "%256Caunch", PLAIN)
    spelled, plain, joined = before["%256Caunch"], before[PLAIN], after[PLAIN]
    assert after["%256Caunch"][""]["lifetime"] == 0 and after["%256Caunch"][""]["bots"] == 0
    for name in ("lifetime", "bots", "today", "last_30d"):
        assert joined[""][name] == spelled[""][name] + plain[""][name] > 0
    curve = {each["start"]: each["count"] for each in joined[QUESTIONS[2]]["points"]}
    for one in (spelled, plain):
        for each in one[QUESTIONS[2]]["points"]:
            curve[each["start"]] -= each["count"]
    assert set(curve.values()) == {0}
    for question in QUESTIONS[3:5]:
        assert joined[question]["total"] == spelled[question]["total"] + plain[question]["total"]
        whole, parts = sums(joined[question]["values"]), [sums(each[question]["values"]) for each in (spelled, plain)]
        assert whole == {value: sum(each.get(value, 0) for each in parts) for value in whole}
    *apart, together = (each[QUESTIONS[-1]]["visitor_days"] for each in (spelled, plain, joined))
    assert 0 < max(apart) <= together <= sum(apart)
    listed_after = counts(server)
    assert listed_after.pop("🚀") == sum(listed.pop(key) for key in ROCKETS)
    assert listed_after.pop(PLAIN) == listed.pop(PLAIN) + listed.pop(SPELLED)
    assert listed_after == listed
    with Clickcurve(server.url) as client, http_client(server.url) as http:
        assert http.get("/v1/total").json() == all_before
        client.send({"key": SPELLED, "source": "qr"})
        assert client.link("%6Caunch")["lifetime"] == 1, "a later hit is one of a new row"


def lifetimes(data: Path) -> tuple[int, ...]:
    lines = [json.loads(line) for line in said("export", "--data", str(data)).splitlines()]
    found = {line["key"]: (line["total"], line["bots"]) for line in lines if "key" in line}
    link, rocket = (
        tuple(map(sum, zip(*(found.get(key, (0, 0)) for key in keys), strict=True)))
        for keys in ((SPELLED, PLAIN), ROCKETS)
    )
    return (*link, *rocket)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_each_save_may_fail_before_or_after_it(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    data = tmp_path / "spelled"
    filled(serve, data, "--workers", workers)
    expected, save = lifetimes(data), SqliteStore.save_own
    monkeypatch.setattr("storage.tools.join_spellings.PAIRS_PER_SAVE", 1)
    for fails_before in (True, False) * 3:

        def failing(self: SqliteStore, *given: Any, before: bool = fails_before) -> None:
            if not before:
                save(self, *given)
            raise OSError("planted")

        monkeypatch.setattr(SqliteStore, "save_own", failing)
        said("join-spellings", "--data", str(data), "--apply", code=1)
        monkeypatch.setattr(SqliteStore, "save_own", save)
        assert lifetimes(data) == expected and verified(data) == []
    said("join-spellings", "--data", str(data), "--apply")
    assert lifetimes(data) == expected and verified(data) == []
    assert "no key has another form" in said("join-spellings", "--data", str(data))


def test_a_kill_at_any_moment_leaves_each_hit_once(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "spelled"
    filled(serve, data, "--workers", "2")
    expected, ended = lifetimes(data), set[int]()
    command = [sys.executable, "-m", "clickcurve", "join-spellings", "--data", str(data), "--apply"]
    began = time.monotonic()
    subprocess.run(command[:-1], cwd=ROOT, check=True, capture_output=True)
    listing_s = time.monotonic() - began  # the start, and the walk over all rows
    for part in (0.3, 0.7, 0.9, 1.0, 1.1, 1.2):  # the first is early enough on a machine grown idle, too
        wait_s = listing_s * part
        running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            running.wait(wait_s)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
        ended.add(running.wait())
        assert lifetimes(data) == expected and verified(data) == []
    assert -signal.SIGKILL in ended
    said("join-spellings", "--data", str(data), "--apply")
    assert lifetimes(data) == expected and verified(data) == []


def test_what_was_deleted_or_corrected_is_left_and_told(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "spelled"
    server = serve(data=data)
    with http_client(server.url) as http:
        for key in ("%61", "a", "%62", "b"):
            http.post("/v1/hits", json={"key": key, "ref": "spam.example"}).raise_for_status()
        http.delete("/v1/links/b").raise_for_status()
        http.post("/v1/links/%2561/disavow", json={"ref": "spam.example"}).raise_for_status()
        assert http.get("/v1/links/%2561").json()["lifetime"] == 0
    server.stop()
    told = said("join-spellings", "--data", str(data), "--apply", code=1)
    assert "%61 is left as it is: some of its hits are called bots" in told
    assert "%62 is left as it is: it was deleted once" in told
    assert verified(data) == []


def test_a_server_that_holds_the_folder_and_a_cluster_are_refused(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "held"
    serve(data=data)
    assert "no key has another form" in said("join-spellings", "--data", str(data))
    said("join-spellings", "--data", str(data), "--apply", code=4)
    refused = said("join-spellings", "--data", str(data), "--store", "cassandra://127.0.0.1:9042/x", "--apply", code=1)
    assert "works on SQLite alone" in refused
