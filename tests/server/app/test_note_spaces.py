"""Every note of a store belongs to the feature that declared its namespace, and to no other."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from server.app.note_spaces import NOT_IN_BACKUPS, NOTE_SPACES
from server.tokens.token import Scope
from storage.from_uri import open_store
from testing.client import Clickcurve
from testing.server import RunningServer, run
from testing.tokens import add_token

PREFIXES = [prefix for space in NOTE_SPACES for prefix in space.prefixes]


def test_no_name_is_of_two_namespaces() -> None:
    assert not [
        pair for pair in combinations(PREFIXES, 2) if pair[0].startswith(pair[1]) or pair[1].startswith(pair[0])
    ]


def test_salts_alone_are_in_no_backup() -> None:
    assert NOT_IN_BACKUPS == ["salt:"]


def test_all_that_a_server_notes_is_declared(tmp_path: Path) -> None:
    data = tmp_path / "data"
    token = add_token(data / "tokens.json", "all", tuple(Scope))
    settings = {"CLICKCURVE_BREAKDOWN_KEEP": "ref=400d", "CLICKCURVE_TOKEN": token}
    with RunningServer(data, settings=settings) as server:
        with Clickcurve(server.url) as client:
            client.http.headers["Authorization"] = f"Bearer {token}"
            client.send({"key": "launch", "ref": "https://spam.example/", "visitor": "v"})
            for path, body in (
                ("/v1/links/launch/disavow?last=2d", {"ref": "spam.example"}),
                ("/v1/words/erase", {"dimension": "ref", "value": "spam.example"}),
            ):
                assert client.http.post(path, json=body).status_code < 300
        run("share", "launch", "--data", str(data))
    store = open_store(f"sqlite:///{data}/clickcurve.db")
    try:
        names = [name.removesuffix("-changed") for name in store.notes()]
    finally:
        store.close()
    assert not [name for name in names if not name.startswith(tuple(PREFIXES))]
    assert {"since:", "salt:", "share:", "token:", "audit:", "disavow:", "erase:"} <= {
        prefix for prefix in PREFIXES if any(name.startswith(prefix) for name in names)
    }
