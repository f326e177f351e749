"""`clickcurve delete`: a link with its history, after a question."""

from __future__ import annotations

from testing.client import Clickcurve
from testing.server import RunningServer
from testing.terminal import on_terminal
from tests.server.commands import said


def test_a_link_is_deleted_when_it_is_confirmed(shared: RunningServer) -> None:
    with Clickcurve(shared.url) as client:
        client.send([{"key": "old", "count": 3}, {"key": "kept"}])
        assert "give --yes" in said("delete", "old", "--url", shared.url, code=2)
        assert client.total("old")["total"] == 3
        assert "old is deleted" in said("delete", "old", "--yes", "--url", shared.url)
        assert (client.total("old")["total"], client.total("kept")["total"]) == (0, 1)


def test_a_person_is_told_how_many_hits_go(shared: RunningServer, tmp_path: object) -> None:
    with Clickcurve(shared.url) as client:
        client.send({"key": "asked for", "count": 7})
        shown = on_terminal("delete", "asked for", "--url", shared.url, columns=100, typed="n\n")
        assert "Delete asked for with 7 hits? It cannot be undone [y/N]" in shown and "nothing was deleted" in shown
        assert client.total("asked for")["total"] == 7
