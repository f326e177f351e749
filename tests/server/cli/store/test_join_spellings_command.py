"""`clickcurve join-spellings`: exact whatever is killed, listed before it is done, and left alone where it must be."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.codec import decode
from clickcurve.keys import moved_key
from server.corrections.rules import DisavowBook
from storage.from_uri import open_store
from storage.tools.verify import verify
from testing.client import Clickcurve, http_client
from testing.server import ROOT, RunningServer
from tests.conftest import Serve
from tests.power import sweep
from tests.server.commands import ask, said
from tests.server.conftest import wait_until
from tests.storage.faulty import Failed, Faulty

pytestmark = pytest.mark.slow

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
    fill(server)
    server.stop()


def fill(server: RunningServer) -> None:
    with http_client(server.url) as http:
        for each in hits():
            http.post("/v1/hits", json=[each], headers={"connection": "close"}).raise_for_status()


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


@pytest.mark.parametrize("kind", ["before", "after"])
def test_a_kill_at_each_call_of_the_store_leaves_each_hit_once(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    filled(serve, tmp_path / "filled", "--workers", "2")
    expected, seen = lifetimes(tmp_path / "filled"), list[str]()
    for at in range(1, 100):
        data = tmp_path / f"{kind}-{at}"
        shutil.copytree(tmp_path / "filled", data)
        faulty = planted(monkeypatch, at, kind)
        ended = ask("join-spellings", "--data", str(data), "--apply")
        monkeypatch.undo()
        assert lifetimes(data) == expected and verified(data) == []
        assert "no key has another form" in said("join-spellings", "--data", str(data)) or ended.exit_code
        ask("join-spellings", "--data", str(data), "--apply")
        assert lifetimes(data) == expected and verified(data) == []
        assert "no key has another form" in said("join-spellings", "--data", str(data))
        shutil.rmtree(data)
        seen += [str(ended.exception)] if isinstance(ended.exception, Failed) else []
        if len(faulty[0].calls) < at:
            break
    assert {"claim", "save_together", "load_own", "view", "notes"} <= {*seen}


def planted(monkeypatch: pytest.MonkeyPatch, at: int, kind: str) -> list[Faulty]:
    """Makes the store that the command joins links in fail at one of its calls."""
    made: list[Faulty] = []

    def open_faulty(*given: Any) -> Any:
        made.append(Faulty(open_store(*given), at, kind, None))
        return made[-1]

    monkeypatch.setattr("server.cli.store.spellings.open_store", open_faulty)
    return made


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


def test_what_was_deleted_is_left_and_told(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "spelled"
    server = serve(data=data)
    with http_client(server.url) as http:
        for key in ("%62", "b", "%2563", "%63"):
            http.post("/v1/hits", json={"key": key}).raise_for_status()
        http.delete("/v1/links/b").raise_for_status()
    server.stop()
    deleted = "%62 is left as it is: it was deleted once, and hits from before must not come back"
    chained = "%2563 is left as it is: %63 is itself one of these links: join that first"
    shown = said("join-spellings", "--data", str(data))
    assert deleted in shown and chained in shown
    told = said("join-spellings", "--data", str(data), "--apply", code=1)
    assert deleted in told and chained in told and "%63 joined with c (1 hit of people, 0 of bots)" in told
    assert verified(data) == []


SPAM = {"ref": "spam.example"}


def corrected(serve: Serve, data: Path, workers: str) -> dict[str, dict[str, Any]]:
    """A folder with hits of which rules of links call some bots; returns what is answered of both."""
    filled(serve, data, "--workers", workers)
    server = serve(data=data)
    now = int(time.time())
    with http_client(server.url) as http:
        spam = [{"key": SPELLED, "ts": now - 86_400 * n, "count": 3, **SPAM} for n in range(40)]
        spam += [{"key": PLAIN, "ts": now - 86_400 * n, **SPAM} for n in range(0, 60, 7)]
        http.post("/v1/hits", json=spam).raise_for_status()
        rule = http.post("/v1/links/%256Caunch/disavow?from=2024-01-01", json=SPAM).raise_for_status().json()
        wait_until(lambda: http.get(f"/v1/disavow/{rule['id']}").json()["state"] == "settled")
        before = answers(server, "%256Caunch", PLAIN)
        before["all"] = {"": http.get("/v1/total").json()}
        before["called"] = http.get(f"/v1/disavow/{rule['id']}").json()
    server.stop()
    assert 100 < before["called"]["moved"] <= 120  # but for the hour that is under way
    return before


def check_corrected(serve: Serve, data: Path, before: dict[str, dict[str, Any]]) -> None:
    server = serve(data=data)
    after = answers(server, "%256Caunch", PLAIN)
    spelled, plain, joined = before["%256Caunch"], before[PLAIN], after[PLAIN]
    assert after["%256Caunch"][""]["lifetime"] == after["%256Caunch"][""]["bots"] == 0
    for name in ("lifetime", "bots"):
        assert joined[""][name] == spelled[""][name] + plain[""][name]
    curve = {each["start"]: each["count"] for each in joined[QUESTIONS[2]]["points"]}
    assert sum(curve.values()) == joined["/total"]["total"] == joined[""]["lifetime"]
    spam = sums(joined[QUESTIONS[3]]["values"])["spam.example"]
    assert spam == sum(sums(each[QUESTIONS[3]]["values"]).get("spam.example", 0) for each in (spelled, plain)) >= 9
    moved = before["called"]["moved"]
    with http_client(server.url) as http:
        assert http.get("/v1/total").json() == before["all"][""]
        (rule,) = http.get("/v1/disavow").json()["rules"]
        assert (rule["key"], rule["state"], rule["value"]) == (PLAIN, "settled", "spam.example")
        assert rule["moved"] == moved
        http.delete(f"/v1/disavow/{rule['id']}").raise_for_status()
        whole = joined[""]["lifetime"] + moved
        wait_until(lambda: http.get(f"/v1/links/{PLAIN}").json()["lifetime"] == whole)
        assert http.get(f"/v1/links/{PLAIN}/by/ref?value=spam.example").json()["values"][0]["at_least"] == spam + moved
        assert http.get(f"/v1/links/{PLAIN}").json()["bots"] == joined[""]["bots"] - moved
    server.stop()
    assert verified(data) == []


@pytest.mark.parametrize("workers", ["1", "2"])
def test_rules_and_what_they_call_bots_come_along(serve: Serve, tmp_path: Path, workers: str) -> None:
    data = tmp_path / "spelled"
    before = corrected(serve, data, workers)
    assert f"{SPELLED} would be joined with {PLAIN}" in said("join-spellings", "--data", str(data))
    assert "of people are called bots)" in said("join-spellings", "--data", str(data), "--apply")
    assert verified(data) == []
    check_corrected(serve, data, before)


@pytest.mark.parametrize("kind", ["before", "after"])
def test_a_kill_at_each_call_leaves_rules_where_their_hits_are(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    before = corrected(serve, tmp_path / "filled", "2")
    for at in sweep(f"rules {kind}"):
        data = tmp_path / f"{kind}-{at}"
        shutil.copytree(tmp_path / "filled", data)
        faulty = planted(monkeypatch, at, kind)
        ended = ask("join-spellings", "--data", str(data), "--apply")
        monkeypatch.undo()
        assert verified(data) == []
        assert people(data) == people(tmp_path / "filled"), at
        said("join-spellings", "--data", str(data), "--apply")
        assert people(data) == people(tmp_path / "filled") and verified(data) == []
        if isinstance(ended.exception, Failed) and str(ended.exception) in ("save_together", "note", "drop_notes"):
            check_corrected(serve, data, before)
        shutil.rmtree(data)
        if len(faulty[0].calls) < at:
            break


def people(data: Path) -> int:
    """People of both links, without what is called bots of them."""
    with closing(open_store(f"sqlite:///{data}/clickcurve.db", None, read_only=True)) as store:
        found = 0
        for key in (SPELLED, PLAIN):
            rows, called = (asyncio.run(store.rows(each)).rows for each in (key, moved_key(key)))
            found += sum(decode(row.data).lifetime for row in rows)
            counted = [decode(row.data) for row in called]
            net = sum(row.lifetime - row.bots for row in counted)
            rules = [each for each in DisavowBook(store).all() if each.rule.stored == key]
            assert not net or rules, "what is called of a link is called by a rule of it"
            found -= net
    return found


def test_a_rule_of_many_links_that_the_other_key_is_none_of_is_named(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "spelled"
    server = serve(data=data)
    with http_client(server.url) as http:
        for key in ("%61", "a"):
            http.post("/v1/hits", json={"key": key, **SPAM}).raise_for_status()
        rule = http.post("/v1/disavow?prefix=%2561", json=SPAM).raise_for_status().json()
        wait_until(lambda: http.get(f"/v1/disavow/{rule['id']}").json()["state"] == "settled")
        wait_until(lambda: http.get("/v1/links/%2561").json()["lifetime"] == 0)
    server.stop()
    why = (
        "%61 is left as it is: hits of it are called bots by a rule of keys that begin with '%61', which the other key"
    )
    assert why in said("join-spellings", "--data", str(data))
    assert why in said("join-spellings", "--data", str(data), "--apply", code=1)
    assert verified(data) == []


def test_a_server_that_holds_the_folder_is_not_disturbed(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "held"
    serve(data=data)
    assert "no key has another form" in said("join-spellings", "--data", str(data))
    said("join-spellings", "--data", str(data), "--apply", code=4)


@pytest.mark.needs("cassandra")
def test_machines_of_a_cluster_join_their_rows_in_turn(serve: Serve, cassandra_uri: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    flags = ("--store", cassandra_uri, "--flush-s", "1")
    servers = [serve(*flags, data=data) for data in (here, there)]  # both at once: so each is an owner
    for each in servers:
        fill(each)
    servers[0].stop()
    server = servers[1]
    with http_client(server.url) as http:
        http.post("/v1/hits", json=[{"key": key, **SPAM} for key in ("%61", "a")]).raise_for_status()
        rule = http.post("/v1/links/%2561/disavow", json=SPAM).raise_for_status().json()
        wait_until(lambda: http.get(f"/v1/disavow/{rule['id']}").json()["state"] == "settled")
    before, listed = answers(server, "%256Caunch", PLAIN), counts(server)
    cluster = ("--store", cassandra_uri)
    assert f"{SPELLED} would be joined with {PLAIN}" in said("join-spellings", *cluster)
    told = said("join-spellings", "--apply", "--data", str(here), *cluster, code=1)
    assert f"{SPELLED} is left as it is: it has rows of owner" in told and "not closed" in told
    halves = answers(server, "%256Caunch", PLAIN)
    parts = [halves[key][""]["lifetime"] - before[key][""]["lifetime"] for key in ("%256Caunch", PLAIN)]
    assert parts[1] == -parts[0] > 0, "the part of the machine that is joined is in the link, and nowhere else"
    server.stop()
    told = said("join-spellings", "--apply", "--data", str(there), *cluster, code=1)
    assert f"{SPELLED} joined with {PLAIN}" in told
    assert "%61 is left as it is: rules call hits of it bots, and a cluster cannot change its rows" in told
    server = serve(*flags, data=there)
    after = answers(server, PLAIN)[PLAIN]
    for name in ("lifetime", "bots", "today", "last_30d"):
        assert after[""][name] == before["%256Caunch"][""][name] + before[PLAIN][""][name]
    for question in QUESTIONS[3:5]:
        whole = sums(after[question]["values"])
        parts = [sums(before[key][question]["values"]) for key in ("%256Caunch", PLAIN)]
        assert whole == {value: sum(each.get(value, 0) for each in parts) for value in whole}
    listed_after = counts(server)
    assert listed_after.pop("🚀") == sum(listed.pop(key) for key in ROCKETS)
    assert listed_after.pop(PLAIN) == listed.pop(PLAIN) + listed.pop(SPELLED)
    assert listed_after == listed
    server.stop()
    assert "0 rows break a law" in said("verify", *cluster)


def test_events_and_their_values_come_along(serve: Serve, tmp_path: Path) -> None:
    data, flags = tmp_path / "spelled", ("--config", str(tmp_path / "events.toml"))
    (tmp_path / "events.toml").write_text('[events]\nnames = ["sale"]\n')
    server = serve(*flags, data=data)
    with http_client(server.url) as http:
        for key, value in ((SPELLED, 300), (PLAIN, 40), ("%6Dine", 5)):
            http.post("/v1/hits", json={"key": key, "event": "sale", "value": value}).raise_for_status()
    server.stop()
    shown = said("join-spellings", "--apply", "--data", str(data))
    assert f"{SPELLED} joined with {PLAIN}" in shown and "%6Dine joined with mine" in shown
    assert verified(data) == []
    server = serve(*flags, data=data)
    with http_client(server.url) as http:
        for key, number, value in ((PLAIN, 2, 340), ("%256Caunch", 0, 0), ("mine", 1, 5)):
            of_key = f"/v1/links/{key}/total?event=sale"
            assert http.get(of_key).json()["total"] == number
            assert http.get(f"{of_key}&measure=value").json()["total"] == value
