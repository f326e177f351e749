"""Events through the life of a real server: copies, deletion, and what commands tell of them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clickcurve.buckets.measures import AMOUNT_MAX, VALUE_MAX, Measure
from testing.client import Clickcurve
from testing.server import RunningServer, run
from tests.conftest import Serve
from tests.server.conftest import wait_until

FLAGS = ("--events-names", "lead,sale", "--breakdown-dimensions", "ref", "--flush-s", "1")
LINKS = ("shop/a", "shop/b", "other")
SALE = {"event": "sale", "ref": "https://news.example/", "groups": ["g"]}


def fill(client: Clickcurve) -> None:
    for n, key in enumerate(LINKS, 1):
        client.send([{"key": key, "count": 10 * n, "groups": ["g"]}, {"key": key, "count": n, "value": 5, **SALE}])
        client.send({"key": key, "event": "lead", "count": 2})


def ask(client: Clickcurve, path: str) -> Any:
    answer = client.http.get(path)
    assert answer.is_success, answer.text
    return answer.json()


def answers(client: Clickcurve) -> dict[str, Any]:
    """All numbers of events, by what is asked."""
    subjects = ("", *(f"links/{key.replace('/', '%2F')}/" for key in LINKS), "groups/g/")
    asked = ("event=sale", "event=sale&measure=value", "event=lead")
    found = {f"{of}total?{what}": ask(client, f"/v1/{of}total?{what}")["total"] for of in subjects for what in asked}
    by = "by/ref?event=sale&measure=value"
    return found | {f"{of}{by}": ask(client, f"/v1/{of}{by}")["values"] for of in subjects}


def data(server: RunningServer, *arguments: str) -> Any:
    output = run(*arguments, "--data", str(server.data), "--json")
    assert output.returncode == 0, output.stdout + output.stderr
    return [json.loads(line) for line in output.stdout.splitlines()]


def check_sound(folder: Path) -> None:
    output = run("verify", "--data", str(folder))
    assert output.returncode == 0, output.stdout


def test_an_import_of_an_export_has_the_same_answers(serve: Serve, tmp_path: Path) -> None:
    first = serve(*FLAGS, data=tmp_path / "one")
    with Clickcurve(first.url) as client:
        fill(client)
        before = answers(client)
        told = client.http.get("/v1/export").text
        within = [json.loads(line) for line in client.http.get("/v1/export?prefix=shop/").text.splitlines()]
    assert [(line["key"], line["events"]["sale"]["values"]["total"]) for line in within] == [
        ("shop/a", 5),
        ("shop/b", 10),
    ]
    first.stop()
    check_sound(first.data)
    out = tmp_path / "history.ndjson"
    assert run("export", "--data", str(first.data), "--out", str(out)).returncode == 0
    assert out.read_text() == told
    second = serve(*FLAGS, data=tmp_path / "two")
    output = run("import", "--url", second.url, str(out))
    assert output.returncode == 0 and "counted 72, " in output.stdout, output.stdout + output.stderr
    with Clickcurve(second.url) as client:
        assert answers(client) == before
    without = serve("--breakdown-dimensions", "ref", data=tmp_path / "three")
    output = run("import", "--url", without.url, str(out))
    assert output.returncode == 1 and "the event is not counted here; events: none" in output.stdout + output.stderr


def test_sums_above_what_one_request_may_add_come_back(serve: Serve, tmp_path: Path) -> None:
    first, out = serve(*FLAGS, data=tmp_path / "one"), tmp_path / "history.ndjson"
    with Clickcurve(first.url) as client:
        for _ in range(3):
            client.send({"key": "k", "value": VALUE_MAX, "count": AMOUNT_MAX // VALUE_MAX, **SALE})
        before = ask(client, "/v1/links/k/by/ref?event=sale&measure=value")
        assert before["total"] == 3 * AMOUNT_MAX
        out.write_text(client.http.get("/v1/export").text)
    second = serve(*FLAGS, data=tmp_path / "two")
    output = run("import", "--url", second.url, str(out))
    assert output.returncode == 0, output.stdout + output.stderr
    with Clickcurve(second.url) as client:
        assert ask(client, "/v1/links/k/by/ref?event=sale&measure=value") == before


@pytest.mark.parametrize("workers", ["1", "2"])
def test_deleting_a_link_a_group_and_a_prefix_takes_their_events(serve: Serve, tmp_path: Path, workers: str) -> None:
    server = serve(*FLAGS, "--workers", workers)
    with Clickcurve(server.url) as client:
        fill(client)
        before = answers(client)
        assert client.http.delete("/v1/links/other").status_code == 204
        for _ in range(2):
            gone = {asked for asked, found in answers(client).items() if found != before[asked]}
            assert gone == {asked for asked in before if asked.startswith("links/other/")}
            assert not any(answers(client)[asked] for asked in gone)
        assert client.http.delete("/v1/links?prefix=shop/").json()["deleted"] == 2
        assert client.http.delete("/v1/groups/g").status_code == 204
        left = {asked: found for asked, found in answers(client).items() if found}
        assert left == {asked: found for asked, found in before.items() if asked.startswith(("total", "by/"))}
        client.send({"key": "other", "value": 7, **SALE})
        assert answers(client)["links/other/total?event=sale&measure=value"] == 7
    server.stop()
    check_sound(server.data)


def test_an_event_is_deleted_when_the_settings_count_it_no_more(serve: Serve, tmp_path: Path) -> None:
    server = serve(*FLAGS)
    with Clickcurve(server.url) as client:
        fill(client)
        before = answers(client)
    output = run("events", "delete", "lead", "--data", str(server.data))
    assert output.returncode == 1 and "servers still count lead" in output.stderr, output.stderr
    server.kill()  # with hits that are not flushed
    names = ("--events-names", "sale")
    output = run("events", "delete", "sale", "--data", str(server.data), *names)
    assert output.returncode == 1 and "the settings still count sale" in output.stderr
    server = serve(*FLAGS[2:], *names)
    with Clickcurve(server.url) as client:
        assert ask(client, "/v1/total?event=lead")["total"] == 6  # counted no more, and answered
        refused = client.http.post("/v1/hits", json={"key": "other", "event": "lead"})
        assert "events: sale" in refused.text
    dry = data(server, "events", "delete", "lead", "--dry-run")
    assert [(each["event"], each["counted"], each["deleted"]) for each in dry] == [("lead", False, False)]
    (deleted,) = data(server, "events", "delete", "lead", *names)
    assert (deleted["people"], deleted["links"], deleted["deleted"]) == (6, 3, True)
    (sale,) = data(server, "events", "list", *names)
    assert (sale["event"], sale["counted"], sale["people"], sale["value"], sale["links"]) == ("sale", True, 6, 30, 3)
    output = run("events", "delete", "lead", "--data", str(server.data))
    assert output.returncode == 1 and "the store has no event 'lead'; events: sale" in output.stderr
    server.stop()
    check_sound(server.data)
    server = serve(*FLAGS)  # a name may come again: what was deleted does not
    with Clickcurve(server.url) as client:
        left = answers(client)
        assert left == {asked: 0 if "lead" in asked else found for asked, found in before.items()}
        client.send({"key": "other", "event": "lead"})
        assert ask(client, "/v1/total?event=lead")["total"] == 1


def test_a_backup_and_a_copy_have_the_events(serve: Serve, tmp_path: Path) -> None:
    server = serve(*FLAGS)
    with Clickcurve(server.url) as client:
        fill(client)
        before = answers(client)
    server.stop()
    copy, backup = tmp_path / "copied", tmp_path / "backed up"
    for folder in (copy, backup):
        folder.mkdir()
    source = f"sqlite:///{server.data / 'clickcurve.db'}"
    output = run("copy", "--from", source, "--to", f"sqlite:///{copy / 'clickcurve.db'}")
    assert output.returncode == 0, output.stdout + output.stderr
    output = run("backup", str(backup / "clickcurve.db"), "--data", str(server.data))
    assert output.returncode == 0, output.stdout + output.stderr
    for folder in (copy, backup):
        check_sound(folder)
        # The names come along: without a setting they are answered.
        with Clickcurve(serve(*FLAGS[2:], data=folder).url) as client:
            assert answers(client) == before


def test_a_dump_shows_the_events_of_a_link(serve: Serve) -> None:
    server = serve(*FLAGS)
    with Clickcurve(server.url) as client:
        fill(client)
    server.stop()
    text = run("dump", "other", "--data", str(server.data)).stdout
    for line in ("key 'other': rows of 1 owner", "event sale of link 'other'", "values of sale of link 'other'"):
        assert line in text
    (shown,) = data(server, "dump", "--group", "g")
    assert [(each["key"], each["rows"][0]["people"]) for each in shown["events"]] == [
        ("\0event:sale:\0group:g", 6),
        ("\0value:sale:\0group:g", 30),
    ]
    assert "events" not in data(server, "dump", "nothing")[0]


def test_spellings_of_a_key_are_joined_with_their_events(serve: Serve, tmp_path: Path) -> None:
    server = serve(*FLAGS)
    with Clickcurve(server.url) as client:
        fill(client)
        for key in ("%6Fther", "%6Enly"):  # of the latter there are events alone
            client.send({"key": key, "count": 4, "value": 9, **SALE})
        client.send({"key": "%6Fther", "count": 7})
        before = answers(client)
        asked = ("total?event=sale", "total?event=sale&measure=value", "total")
        apart = [ask(client, f"/v1/links/%256Fther/{each}")["total"] for each in asked]
        whole = [ask(client, f"/v1/links/other/{each}")["total"] for each in asked]
    assert apart == [4, 36, 7]
    server.stop()
    joined = data(server, "join-spellings", "--apply")
    assert {each["key"]: each["joined"] for each in joined} == {"%6Fther": True, "%6Enly": True}
    check_sound(server.data)
    with Clickcurve(serve(*FLAGS).url) as client:
        assert [ask(client, f"/v1/links/%256Fther/{each}")["total"] for each in asked] == [0, 0, 0]
        assert [ask(client, f"/v1/links/other/{each}")["total"] for each in asked] == list(
            map(sum, zip(apart, whole, strict=True))
        )
        assert [ask(client, f"/v1/links/nnly/{each}")["total"] for each in asked] == [4, 36, 0]
        assert ask(client, "/v1/links/other/by/ref?event=sale&measure=value")["values"][0]["at_least"] == 15 + 36
        after = answers(client)
        assert {each: after[each] for each in before if "other" not in each} == {
            each: before[each] for each in before if "other" not in each
        }


def test_events_of_a_killed_worker_are_adopted(serve: Serve) -> None:
    server = serve(*FLAGS[:4], "--workers", "2", "--flush-s", "3600")
    for _ in range(6):  # each connection stays with the worker that takes it
        with Clickcurve(server.url) as client:
            fill(client)
    with Clickcurve(server.url) as client:
        before = answers(client)
    assert before["total?event=sale&measure=value"] == 6 * 30
    server.kill()
    again = serve(*FLAGS)  # one worker, which finds the journal of the other
    with Clickcurve(again.url) as client:
        assert answers(client) == before
    again.stop()
    check_sound(server.data)


def test_a_damaged_row_of_events_is_told_and_mended_and_clicks_go_on(serve: Serve) -> None:
    server = serve(*FLAGS)
    with Clickcurve(server.url) as client:
        fill(client)
    server.stop()
    with closing(sqlite3.connect(server.data / "clickcurve.db")) as db, db:
        of_sales = Measure("sale").row("other")
        db.execute("UPDATE rows SET data = x'ff' WHERE key = ?", (of_sales,))
        assert db.execute("SELECT changes()").fetchone() == (1,)
    server = serve(*FLAGS)
    with Clickcurve(server.url) as client:
        fill(client)
        assert ask(client, "/v1/links/other/total")["total"] == 60
        refused = client.http.get("/v1/links/other/total?event=sale")
        assert refused.status_code == 503, refused.text
        assert "the event sale" in refused.json()["detail"]
        assert ask(client, "/v1/total?event=sale")["total"] == 12
    server.stop()
    name = "event sale of link 'other', owner 1"
    output = run("verify", "--data", str(server.data))
    assert output.returncode == 1 and f"{name}: 3 hits are quarantined" in output.stdout, output.stdout
    shown = run("repair", "--data", str(server.data))
    assert shown.returncode == 1 and f"{name}: 3 hits of people" in shown.stdout, shown.stdout
    exported = run("export", "--data", str(server.data))
    assert exported.returncode == 1 and name in exported.stderr and '"key":"shop/a"' in exported.stdout
    assert run("repair", "other", "--drop", "--data", str(server.data)).returncode == 0
    with Clickcurve(serve(*FLAGS).url) as client:
        assert ask(client, "/v1/links/other/total?event=sale")["total"] == 3  # what came after the damage
        assert ask(client, "/v1/links/other/total?event=lead")["total"] == 4
        assert ask(client, "/v1/links/other/total")["total"] == 60


def test_a_rule_takes_events_out_of_every_answer_and_undoing_it_brings_them_back(serve: Serve) -> None:
    server = serve(*FLAGS)
    with Clickcurve(server.url) as client:
        fill(client)
        lists = ("links?event=sale", "links?event=sale&measure=value&sort=hits")
        before = answers(client), [ask(client, f"/v1/{each}")["links"] for each in lists]
        rule = client.http.post("/v1/links/other/disavow", json={"ref": "news.example"}).raise_for_status().json()
        wait_until(lambda: ask(client, f"/v1/disavow/{rule['id']}")["state"] == "settled")
        expected = dict(before[0])
        for of, sold, left in (("links/other/", 0, []), ("", 3, [("news.example", 15)])):
            expected |= {f"{of}total?event=sale": sold, f"{of}total?event=sale&measure=value": 5 * sold}
            values = ask(client, f"/v1/{of}by/ref?event=sale&measure=value")["values"]
            assert [(each["value"], each["at_least"]) for each in values] == left
            expected[f"{of}by/ref?event=sale&measure=value"] = values
        assert answers(client) == expected
        for each, amounts in zip(lists, ((2, 1), (10, 5)), strict=True):
            found = [(link["key"], link.get("value", link["count"])) for link in ask(client, f"/v1/{each}")["links"]]
            assert [one for one in found if one[1]] == [("shop/b", amounts[0]), ("shop/a", amounts[1])]
        client.http.delete(f"/v1/disavow/{rule['id']}").raise_for_status()
        wait_until(lambda: ask(client, "/v1/disavow")["rules"] == [])
        assert (answers(client), [ask(client, f"/v1/{each}")["links"] for each in lists]) == before
    server.stop()
    check_sound(server.data)
