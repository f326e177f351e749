"""A journal that its store has gone past is set aside, logged, and never counted; the server starts with a new one."""

from __future__ import annotations

import shutil
from pathlib import Path

from testing.client import Clickcurve
from tests.conftest import Serve
from tests.server.conftest import events


def test_a_journal_restored_from_an_hour_ago_is_set_aside(serve: Serve, data: Path, tmp_path: Path) -> None:
    first = serve("--flush-s", "3600", data=data)
    with Clickcurve(first.url) as client:
        client.send([{"key": "launch", "count": 5, "id": "five"}])
    first.kill()
    shutil.copytree(data / "journal-1", tmp_path / "snapshot")
    second = serve("--flush-s", "3600", data=data)  # stores the five
    second.stop()
    shutil.rmtree(data / "journal-1")
    (tmp_path / "snapshot").rename(data / "journal-1")

    third = serve("--flush-s", "3600", data=data)
    (logged,) = events(third, "journal set aside")
    assert logged["hits"] == 0 and "counted already" in logged["reason"], "the hits wait for the claim of their id"
    assert Path(logged["moved_to"]).is_dir()
    with Clickcurve(third.url) as client:
        client.hit("launch")
        assert client.total("launch")["total"] == 6
        assert client.metrics()['clickcurve_journals_set_aside{journal="journal-1"}'] == 1


def test_hits_with_ids_show_at_once_after_kill_nine(serve: Serve, data: Path) -> None:
    first = serve("--flush-s", "3600", data=data)
    with Clickcurve(first.url) as client:
        client.send([{"key": "launch", "count": 5, "id": "five"}, {"key": "plain", "count": 3}])
        assert client.total("launch")["total"] == 5
    first.kill()
    second = serve("--flush-s", "3600", data=data)
    assert events(second, "listening")[-1]["hits_recovered"] == 3, "those with an id wait for the claim"
    with Clickcurve(second.url) as client:
        assert client.total("launch")["total"] == 5
        assert client.total("plain")["total"] == 3
        assert client.send([{"key": "launch", "count": 5, "id": "five"}])["duplicate"] == 5
        assert client.total("launch")["total"] == 5
