"""Deleting a customer, links by prefix and the group: killed anywhere and begun again it ends the same."""

from __future__ import annotations

import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from server.tokens.token import Scope
from testing.client import Clickcurve, http_client
from testing.server import RunningServer, command, plain_environment
from testing.terminal import on_terminal
from testing.tokens import add_token
from tests.power import at
from tests.server.commands import said

KEYS = [f"acme/{n:03}" for n in range(250)]
OTHERS = {"acme": 2, "acmf": 3, "beta/x": 4, "z": 5}  # links of others, beside and between those of the customer
HIT = {"ref": "https://news.example/", "ip": "192.0.2.1", "ua": "Mozilla/5.0"}
QUICK = {"CLICKCURVE_FLUSH_S": "1"}


def fill(client: Clickcurve) -> None:
    client.send([{"key": key, "count": 2, "groups": ["acme"], **HIT} for key in KEYS])
    client.send([{"key": key, "count": count, "groups": ["rest"]} for key, count in OTHERS.items()])


def ask(client: Clickcurve, method: str, path: str) -> Any:
    answer = client.http.request(method, path)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def left_of_customer(client: Clickcurve) -> dict[str, Any]:
    """All that any answer still tells of the customer, empty if nothing."""
    exported = client.http.get("/v1/export").text
    told = {
        "keys": ask(client, "GET", "/v1/links?sort=key&prefix=acme/&bots=include")["links"],
        "best": [each for each in ask(client, "GET", "/v1/links")["links"] if each["key"].startswith("acme/")],
        "group": ask(client, "GET", "/v1/groups/acme?")["lifetime"],
        "words": ask(client, "GET", "/v1/groups/acme/by/ref")["total"],
        "visitors": ask(client, "GET", "/v1/groups/acme/visitors?last=1d")["visitor_days"],
        "groups": [each for each in ask(client, "GET", "/v1/groups")["groups"] if each["key"] == "acme"],
        "exported": "acme/" in exported or '"acme"' in exported.replace('"key":"acme"', ""),
        "first": client.total(KEYS[0])["total"],
    }
    return {name: value for name, value in told.items() if value}


def check_others(client: Clickcurve, more: int = 0) -> None:
    assert client.lifetimes(OTHERS) == OTHERS
    assert ask(client, "GET", "/v1/groups/rest/total")["total"] == sum(OTHERS.values())
    assert client.total()["total"] == more + 2 * len(KEYS) + sum(OTHERS.values())  # no deletion reduces it


def test_links_go_in_pages_and_nothing_of_others(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, Clickcurve(server.url) as client:
        fill(client)
        assert left_of_customer(client).keys() >= {"keys", "best", "group", "words", "visitors", "groups", "exported"}
        answers = [ask(client, "DELETE", "/v1/links?prefix=acme/&limit=100") for _ in range(4)]
        assert answers == [
            {"deleted": 100, "more": True},
            {"deleted": 100, "more": True},
            {"deleted": 50, "more": False},
            {"deleted": 0, "more": False},
        ]
        assert ask(client, "GET", "/v1/groups/acme/total")["total"] == 2 * len(KEYS)  # links do not reduce a group
        for _ in range(2):
            assert client.http.delete("/v1/groups/acme").status_code == 204
            assert left_of_customer(client) == {}
            check_others(client)
        client.send({"key": KEYS[0], "groups": ["acme"], **HIT})
        assert ask(client, "GET", "/v1/groups/acme")["lifetime"] == client.total(KEYS[0])["total"] == 1
        audited = ask(client, "GET", "/v1/audit")["entries"]
        assert [(each["what"], each["subject"]) for each in audited] == [
            *(("links deleted", f"acme/ ({many} links)") for many in (100, 100, 50)),
            *[("group deleted", "acme")] * 2,
        ]


def test_a_link_that_is_hit_again_between_two_pages_goes_before_the_last_answer(shared: RunningServer) -> None:
    with Clickcurve(shared.url) as client:
        client.send([{"key": f"again/{n:02}"} for n in range(30)])
        page = "/v1/links?prefix=again/&limit=10"
        assert ask(client, "DELETE", page) == {"deleted": 10, "more": True}
        client.send([{"key": f"again/{n:02}"} for n in range(5)])
        assert ask(client, "DELETE", page) == {"deleted": 10, "more": True}
        assert ask(client, "DELETE", page) == {"deleted": 10, "more": True}
        assert ask(client, "DELETE", page) == {"deleted": 5, "more": False}
        assert ask(client, "DELETE", page) == {"deleted": 0, "more": False}
        client.send({"key": "again/00"})
        assert ask(client, "DELETE", page) == {"deleted": 1, "more": False}
        assert ask(client, "GET", "/v1/links?sort=key&prefix=again/")["links"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "prefix"),
        ("?prefix=", "prefix"),
        ("?prefix=a&limit=0", "limit"),
        ("?prefix=a&limit=10001", "limit"),
        ("?prefix=a&prefix=b", "prefix"),
        ("?key=a", "key"),
    ],
)
def test_a_deletion_that_names_no_prefix_deletes_nothing(shared: RunningServer, query: str, field: str) -> None:
    with Clickcurve(shared.url) as client:
        client.send({"key": "a"})
        answer = client.http.delete(f"/v1/links{query}")
        assert (answer.status_code, answer.json()["field"]) == (422, field)
        assert client.total("a")["total"]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_deletion_that_is_killed_anywhere_and_begun_again_ends_the_same(tmp_path: Path, workers: int) -> None:
    """The server, the command or both are killed in the middle; what is left is what one deletion leaves."""
    chance = random.Random(workers)
    keys, kills, in_the_middle = [f"acme/{n:04}" for n in range(at(quick=3_000, full=5_000))], at(quick=3, full=6), 0
    server = RunningServer(tmp_path / "data", "--workers", str(workers), settings=QUICK)
    with server:
        with Clickcurve(server.url) as client:
            fill(client)
            client.send([{"key": key, "groups": ["acme"], **HIT} for key in keys])
        arguments = "delete", "--prefix", "acme/", "--group", "acme", "--yes", "--url", server.url
        for kill in range(kills):
            deleting = subprocess.Popen(
                command(*arguments), env=plain_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            with Clickcurve(server.url) as client:
                key = keys[kill * len(keys) // kills + chance.randrange(len(keys) // kills)]
                server.wait_until(lambda: client.total(key)["total"] == 0)  # noqa: B023  # it is called in this turn
                victim = chance.choice(["server", "command", "both"])
                if victim != "server":
                    deleting.kill()
                in_the_middle += deleting.poll() is None or client.total(keys[-1])["total"] > 0
            if victim != "command":
                server.kill()
                server.start()
            deleting.communicate(timeout=600)
        assert in_the_middle
        all_hits = len(keys) + 2 * len(KEYS) + sum(OTHERS.values())
        assert "the group acme is deleted" in said(*arguments)
        for _ in range(2):
            with Clickcurve(server.url) as client:
                # A worker that has just started is not heard by the other one before it has claimed its journal.
                server.wait_until(lambda: client.total()["total"] == all_hits)
                assert left_of_customer(client) == {}
                check_others(client, len(keys))
            server.kill()
            server.start()
        server.stop(signal.SIGTERM)
    assert "0 rows break a law" in said("verify", "--data", str(tmp_path / "data"))


def test_the_command_says_what_goes_and_what_went(shared: RunningServer) -> None:
    with Clickcurve(shared.url) as client:
        fill(client)
        flags = "--prefix", "acme/", "--group", "acme", "--url", shared.url
        there = "250 links that begin with acme/ (acme/000 to acme/249) with 500 hits and the group acme with 500 hits"
        assert said("delete", *flags, "--dry-run") == f"{there} would be deleted\n"
        assert "give --yes" in said("delete", *flags, code=2)
        asked = on_terminal("delete", *flags, columns=200, typed="n\n")
        assert f"Delete {there}? It cannot be undone [y/N]" in asked and "nothing was deleted" in asked
        assert client.total(KEYS[0])["total"] == 2
        done = on_terminal("delete", *flags, "--yes", columns=100)
        assert "delete" in done and "%" in done  # the bar
        assert "250 links that begin with acme/ are deleted" in done and "the group acme is deleted" in done
        assert left_of_customer(client) == {}
        again = '{"prefix":"acme/","group":"acme","links":0,"deleted":true}\n'
        assert said("delete", *flags, "--yes", "--json") == again


@pytest.mark.parametrize(
    "flags", [[], ["key", "--prefix", "a"], ["key", "--group", "a"], ["--prefix", ""], ["--dry-run"]]
)
def test_a_command_that_names_nothing_or_two_things_is_refused(flags: list[str], shared: RunningServer) -> None:
    said("delete", *flags, "--yes", "--url", shared.url, code=2)


def test_only_an_admin_deletes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    tokens = {
        "read": add_token(data / "tokens.json", "r", (Scope.read, Scope.write)),
        "own": add_token(data / "tokens.json", "c", (Scope.read, Scope.write), prefix="acme/"),
        "admin": add_token(data / "tokens.json", "a", (Scope.admin,)),
    }
    with RunningServer(data) as server, http_client(server.url) as http:
        for name, secret in tokens.items():
            for path in ("/v1/links?prefix=acme/", "/v1/groups/acme"):
                status = http.delete(path, headers={"Authorization": f"Bearer {secret}"}).status_code
                assert (status < 300) is (name == "admin"), (name, path, status)
