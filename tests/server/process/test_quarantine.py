"""A journal that its store has gone past is quarantined, logged and not counted; the server starts with a new one."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from testing.client import Clickcurve
from tests.conftest import Serve
from tests.server.conftest import events, wait_until


def test_a_journal_restored_from_an_hour_ago_is_quarantined(serve: Serve, data: Path, tmp_path: Path) -> None:
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
    (logged,) = events(third, "journal quarantined")
    assert logged["hits"] == 0 and "counted already" in logged["reason"], "the hits wait for the claim of their id"
    assert Path(logged["moved_to"]).is_dir()
    with Clickcurve(third.url) as client:
        client.hit("launch")
        assert client.total("launch")["total"] == 6
        assert client.metrics()['clickcurve_quarantined_journals{journal="journal-1"}'] == 1


@pytest.mark.long
def test_hits_accepted_while_the_store_does_not_answer_are_not_quarantined_with_the_journal(
    serve: Serve, data: Path, tmp_path: Path
) -> None:
    first = serve("--flush-s", "3600", data=data)
    with Clickcurve(first.url) as client:
        client.send([{"key": "early", "count": 5}])
    first.kill()
    shutil.copytree(data / "journal-1", tmp_path / "snapshot")
    second = serve("--flush-s", "3600", data=data)  # stores the five
    second.stop()
    shutil.rmtree(data / "journal-1")
    (tmp_path / "snapshot").rename(data / "journal-1")

    with closing(sqlite3.connect(data / "clickcurve.db", isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        third = serve("--flush-s", "1", data=data)
        (gave_way,) = events(third, "journal gives way")
        assert Path(gave_way["moved_to"]).name == "journal-2"
        with Clickcurve(third.url) as client:
            assert [client.hit("later")["counted"] for _ in range(8)] == [1] * 8
        third.kill()  # whatever comes before the store answers
        fourth = serve("--flush-s", "1", data=data)
        assert not events(fourth, "journal gives way"), "no store can be further on than a journal that it never saw"
        with Clickcurve(fourth.url) as client:
            assert client.hit("later")["counted"] == 1
            busy.execute("ROLLBACK")
            wait_until(lambda: len(events(fourth, "journal quarantined")) == 1)
            wait_until(lambda: client.metrics()['clickcurve_flushes_total{journal="journal-1"}'] > 0)
            assert (client.total("later")["total"], client.total("early")["total"]) == (9, 5)
            assert client.hit("later")["counted"] == 1


@pytest.mark.slow
def test_what_a_journal_holds_that_gave_way_is_counted_when_the_store_is_back(serve: Serve, data: Path) -> None:
    first = serve("--flush-s", "3600", data=data)
    with Clickcurve(first.url) as client:
        client.send([{"key": "launch", "count": 5, "id": "five"}])
    first.kill()
    with closing(sqlite3.connect(data / "clickcurve.db", isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        second = serve("--flush-s", "1", data=data)
        with Clickcurve(second.url) as client:
            assert client.send([{"key": "launch", "count": 5, "id": "five"}, {"key": "launch"}])["counted"] == 6
            busy.execute("ROLLBACK")
            wait_until(lambda: len(events(second, "orphaned journal emptied")) == 1)
            wait_until(lambda: client.total("launch")["total"] == 6)
            client.erase("launch")
            assert client.total("launch")["total"] == 0


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
