"""`clickcurve repair --ranking`: what `verify` says of rankings is mended."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from clickcurve.buckets.ladder import CLICKS
from storage.sqlite.store import SqliteStore
from tests.server.commands import said
from tests.storage.flushes import Flusher, hits


def test_what_verify_says_of_rankings_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "clickcurve.db"
    with closing(SqliteStore(path, CLICKS)) as store:
        Flusher(store).flush({key: hits((0, 5)) for key in "abc"})
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE leaders SET people = 9 WHERE key = 'b'")
    folder = ("--data", str(tmp_path))
    assert "link 'b', owner 1: it is ranked by" in said("verify", *folder, code=1)
    assert said("repair", "--ranking", *folder) == "all rows were read for rankings\n"
    assert "0 rows break a law" in said("verify", *folder)
    assert "--ranking cannot be combined with other arguments" in said("repair", "--ranking", "b", *folder, code=2)
