"""`clickcurve owners`: who writes a store, and what becomes of an owner that is given up."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from clickcurve.buckets.ladder import CLICKS
from server import clock
from storage.contract import CLOSED, COPIED, OPEN, RETIRED, OwnerRecord
from storage.from_uri import open_store
from storage.journals import IN_STORE
from storage.sqlite.store import SqliteStore
from testing.client import Clickcurve
from tests.conftest import Serve
from tests.server.commands import said
from tests.server.conftest import events, wait_until
from tests.storage.flushes import Flusher, hits

AGO_S = {1: 5, 2: 3 * 86_400, 3: 7_300, 4: 86_400 * 40, 5: 601}


@pytest.fixture(params=["sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URI of a store with owners in every state."""
    uri = f"sqlite:///{tmp_path / 'clickcurve.db'}"
    if request.param == "cassandra":
        uri = request.getfixturevalue("cassandra_uri")
    now = int(clock.now())
    with closing(open_store(uri, CLICKS)) as made:
        for record in (
            OwnerRecord(1, 4, "h1", "journal-a", "alpha:/srv/journal-1", OPEN, (4 << 20) + 12, now - AGO_S[1]),
            OwnerRecord(2, 1, "h2", "journal-b", "alpha:/srv/journal-2", CLOSED, (1 << 20) + 1, now - AGO_S[2]),
            OwnerRecord(3, 7, "h3", "journal-c", "beta:/srv/journal-1", OPEN, (6 << 20) + 3, now - AGO_S[3]),
            OwnerRecord(4, 1, "h4", "", "gamma:/srv", COPIED, 0, now - AGO_S[4]),
            OwnerRecord(5, 1, "h5", "journal-e", "delta:/srv", OPEN, 0, now - AGO_S[5]),
        ):
            made.create_owner(record)
    return uri


def states(store: str) -> dict[int, str]:
    listed = map(json.loads, said("owners", "list", "--json", "--store", store).splitlines())
    return {owner["owner"]: owner["state"] for owner in listed}


def test_owners_are_listed_for_people(store: str) -> None:
    head, *cells = [re.split(r" {2,}", line) for line in said("owners", "list", "--store", store).splitlines()]
    assert head == ["owner", "state", "epoch", "flush", "begun", "lag", "host", "folder", "journal"]
    times = [line.pop(4) for line in cells]
    assert all(len(time) == len("2026-01-01T00:00:00Z") and time[10] == "T" for time in times)
    assert cells[0][5:] == ["alpha", "/srv/journal-1", "journal-a"]
    assert cells[0][4] in {"5s", "6s", "7s", "8s"}
    assert [line[:5] for line in cells[1:]] == [
        ["2", "closed", "1", "1", "-"],
        ["3", "open", "7", "3 of 6", "2h"],
        ["4", "copied", "1", "-", "-"],
        ["5", "open", "1", "-", "10m"],
    ]
    assert cells[3][-1] == "-"


def test_owners_are_listed_for_programs(store: str) -> None:
    first, second, *_ = (json.loads(line) for line in said("owners", "list", "--json", "--store", store).splitlines())
    assert first.pop("lag_s") in range(5, 60)
    assert first.pop("begun_at").endswith("Z")
    assert first == {
        "owner": 1,
        "state": "open",
        "epoch": 4,
        "flush": 12,
        "flush_epoch": 4,
        "host": "alpha",
        "folder": "/srv/journal-1",
        "journal": "journal-a",
    }
    assert (second["state"], second["lag_s"]) == ("closed", None)


@pytest.mark.parametrize("store", ["sqlite", "cassandra"], indirect=True)
def test_a_lost_owner_is_retired_and_what_follows_is_said(store: str) -> None:
    text = said("owners", "retire", "3", "--store", store)
    assert text.startswith("owner 3 (beta:/srv/journal-1) is retired\n")
    for what in ("what it counted stays", "is lost with its disk", "imports may go on", "quarantined and reported"):
        assert what in text
    assert states(store) == {1: OPEN, 2: CLOSED, 3: RETIRED, 4: COPIED, 5: OPEN}


@pytest.mark.parametrize("ended", [True, False])
def test_that_the_last_flush_of_a_lost_owner_did_not_end_is_said(tmp_path: Path, ended: bool) -> None:
    with closing(SqliteStore(tmp_path / "clickcurve.db", CLICKS)) as made:
        flusher = Flusher(made, 1)
        flusher.flush({"a": hits((0, 1))})
        if not ended:
            flusher.begin({"a": hits((1, 1))})
    store = f"sqlite:///{tmp_path}/clickcurve.db"
    assert ("did not end" in said("owners", "retire", "1", "--store", store)) is not ended
    assert ("owner 1 is in the middle of a flush" in said("verify", "--store", store)) is not ended


@pytest.mark.parametrize(
    ("owner", "flags", "reason"),
    [
        ("1", (), "flushed or started 5s ago, so it may be alive"),
        ("2", ("--disk-is-lost",), "owner 2 is closed: it holds nothing that could be lost"),
        ("4", (), "owner 4 is copied"),
        ("9", (), "there is no owner 9"),
    ],
)
def test_an_owner_that_is_not_lost_is_not_retired(store: str, owner: str, flags: tuple[str, ...], reason: str) -> None:
    before = states(store)
    text = said("owners", "retire", owner, *flags, "--store", store, code=1)
    assert text.startswith("Error: ") and reason.removesuffix("5s ago, so it may be alive") in text
    assert states(store) == before


def test_retiring_twice_says_so(store: str) -> None:
    said("owners", "retire", "1", "--disk-is-lost", "--store", store)
    assert said("owners", "retire", "1", "--store", store, code=1) == "Error: owner 1 is retired already\n"


def test_an_owner_whose_journal_is_in_the_cluster_is_given_up_on_purpose_only(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'clickcurve.db'}"
    with closing(open_store(uri, CLICKS)) as made:
        made.create_owner(OwnerRecord(1, 4, "h1", IN_STORE, "alpha:41/journal-1", OPEN, 4 << 20, 0))
    text = said("owners", "retire", "1", "--store", uri, code=1)
    assert text.startswith(
        "Error: the journal of owner 1 is in the cluster, and another server empties it when this one"
    )
    assert "is retired" in said("owners", "retire", "1", "--disk-is-lost", "--store", uri)


def test_an_owner_that_goes_on_meanwhile_is_not_retired(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteStore, "claim", lambda *_: False)
    assert "owner 3 has flushed just now" in said("owners", "retire", "3", "--store", store, code=1)


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for command in (("owners", "list"), ("owners", "retire", "1")):
        assert "there is no database" in said(*command, "--data", str(tmp_path / "none"), code=3)
        assert "memory:// is inside the server only" in said(*command, "--store", "memory://", code=2)
    assert not (tmp_path / "none").exists()


def test_a_retired_server_is_refused_and_goes_on_under_a_new_number(serve: Serve, data: Path) -> None:
    server = serve("--flush-s", "1", data=data)
    flag = ("--data", str(data))
    with Clickcurve(server.url) as client:
        client.send([{"key": "launch", "count": 5}])
        wait_until(lambda: '"flush":1,' in said("owners", "list", "--json", *flag))
        assert "may be alive" in said("owners", "retire", "1", *flag, code=1)
        assert "is retired" in said("owners", "retire", "1", "--disk-is-lost", *flag)
        client.send([{"key": "launch", "count": 2}])
        wait_until(lambda: any("taken owner 1 over" in str(event) for event in events(server)))
    server.kill()
    again = serve("--flush-s", "1", data=data)
    with Clickcurve(again.url) as client:
        assert client.total("launch")["total"] == 7
    again.stop()
    assert "0 rows break a law" in said("verify", *flag)
    owners = [json.loads(line) for line in said("owners", "list", "--json", *flag).splitlines()]
    assert [(owner["owner"], owner["state"]) for owner in owners] == [(1, "retired"), (2, "closed")]
    assert owners[1]["journal"] == f"{owners[0]['journal']} after 1.1"
