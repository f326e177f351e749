"""A backup and its way back at the prompt: what is refused, what is kept, and what becomes of each journal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from testing.client import Clickcurve
from tests.conftest import Serve
from tests.server.commands import said
from tests.server.conftest import events, wait_until


def copied_by_hand(backup: Path, data: Path) -> None:
    shutil.copy(backup, data / "clickcurve.db")


@pytest.mark.slow
def test_hits_after_the_backup_are_in_the_replaced_database_or_count_from_the_journal(
    serve: Serve, data: Path, tmp_path: Path
) -> None:
    """5 are in the backup, 7 were stored after it, 11 were accepted and never stored."""
    backup = tmp_path / "backup.db"
    first = serve("--flush-s", "3600", data=data)
    with Clickcurve(first.url) as client:
        client.send([{"key": "launch", "count": 5}])
    first.stop()
    token = said("token", "create", "reader", "--scope", "admin", "--data", str(data)).strip()
    leaked = said("token", "create", "leaked", "--scope", "read", "--data", str(data)).strip()
    said("backup", str(backup), "--data", str(data))
    said("token", "revoke", leaked.split("_")[1], "--data", str(data))
    second = serve("--flush-s", "1", data=data)
    with Clickcurve(second.url) as client:
        client.http.headers["Authorization"] = f"Bearer {token}"
        client.send([{"key": "launch", "count": 7}])
        wait_until(lambda: client.metrics()['clickcurve_buffered_hits{journal="journal-1"}'] == 0)
    second.kill()
    third = serve("--flush-s", "3600", data=data)
    with Clickcurve(third.url) as client:
        client.http.headers["Authorization"] = f"Bearer {token}"
        client.send([{"key": "launch", "count": 11}])
        assert client.total("launch")["total"] == 23
    said("restore", str(backup), "--data", str(data), code=4)
    third.kill()

    copied = tmp_path / "copied"
    shutil.copytree(data, copied)
    copied_by_hand(backup, copied)
    for command in (["verify"], ["owners", "list"], ["serve", "--port", "0"], ["backup", str(tmp_path / "no.db")]):
        sentence = said(*command, "--data", str(copied), code=2)
        assert "is not the write-ahead log of" in sentence and "`clickcurve restore FILE`" in sentence

    kept = data / "replaced-1-clickcurve.db"
    assert said("restore", str(backup), "--data", str(data)).splitlines() == [
        f"{data}/clickcurve.db: restored from {backup}, {backup.stat().st_size:,} bytes",
        "tokens and shares are those of the backup: revoke again what was revoked since",
        f"what was there is now {kept}",
        "  hits that were stored after the backup was made are there only",
        "journal-1: it holds hits that are not in the backup; the next start counts them",
    ]
    fourth = serve(data=data)
    with Clickcurve(fourth.url) as client:
        client.http.headers["Authorization"] = f"Bearer {token}"
        assert client.total("launch")["total"] == 16
    assert events(fourth, "journal quarantined") == []
    fourth.stop()
    assert "leaked" in said("token", "list", "--data", str(data)), "what was revoked after the backup is valid again"
    assert "12 hits of people" in said("verify", "--store", f"sqlite:///{kept}")
    assert "16 hits of people" in said("verify", "--data", str(data))


def test_a_journal_whose_hits_may_be_in_the_backup_is_announced_and_quarantined(
    serve: Serve, data: Path, tmp_path: Path
) -> None:
    first = serve("--flush-s", "3600", data=data)
    with Clickcurve(first.url) as client:
        client.send([{"key": "launch", "count": 5}])
    first.kill()
    shutil.copytree(data / "journal-1", tmp_path / "snapshot")
    serve("--flush-s", "3600", data=data).stop()  # stores the five
    backup = tmp_path / "backup.db"
    said("backup", str(backup), "--data", str(data))
    shutil.rmtree(data / "journal-1")
    (tmp_path / "snapshot").rename(data / "journal-1")
    (found,) = map(json.loads, said("restore", str(backup), "--data", str(data), "--json").splitlines())
    (journal,) = found["journals"]
    assert (journal["journal"], journal["then"]) == ("journal-1", "set aside")
    third = serve("--flush-s", "3600", data=data)
    assert len(events(third, "journal quarantined")) == 1
    with Clickcurve(third.url) as client:
        assert client.total("launch")["total"] == 5


def test_a_backup_starts_a_new_folder_or_a_store_elsewhere(serve: Serve, data: Path, tmp_path: Path) -> None:
    first = serve(data=data)
    with Clickcurve(first.url) as client:
        client.send([{"key": "launch", "count": 5}])
    first.stop()
    backup = tmp_path / "backup.db"
    said("backup", str(backup), "--data", str(data))
    new, elsewhere = tmp_path / "new", tmp_path / "elsewhere.db"
    said("restore", str(backup), "--data", str(new))
    said("restore", str(backup), "--data", str(new), "--store", f"sqlite:///{elsewhere}")
    for where in (("--data", str(new)), ("--store", f"sqlite:///{elsewhere}")):
        assert "5 hits of people" in said("verify", *where)
    assert "restore is for SQLite" in said("restore", str(backup), "--store", "memory://", "--data", str(new), code=2)
    assert "there is no backup at" in said("restore", str(tmp_path / "none"), "--data", str(new), code=2)


def test_only_the_owner_reads_what_is_stored(serve: Serve, data: Path, tmp_path: Path) -> None:
    data.mkdir(mode=0o755)
    server = serve(data=data)
    with Clickcurve(server.url) as client:
        client.send([{"key": "launch", "count": 5}])
    said("backup", str(tmp_path / "backup.db"), "--data", str(data))
    made = [tmp_path / "backup.db", *data.rglob("*")]
    assert {"clickcurve.db", "clickcurve.db-wal", "clickcurve.db-shm", "lock", "spare"} <= {file.name for file in made}
    for file in made:
        assert file.stat().st_mode & 0o777 == (0o700 if file.is_dir() else 0o600), file


@pytest.mark.parametrize("command", ["verify", "fold", "owners list", "export", "backup x"])
def test_a_folder_without_a_database_is_named_with_the_flag_that_names_another(tmp_path: Path, command: str) -> None:
    wrong = tmp_path / "wrong"
    sentence = said(*command.split(), "--data", str(wrong), code=1 if command == "fold" else 3)
    assert str(wrong) in sentence and "--data" in sentence
    assert not wrong.exists()
