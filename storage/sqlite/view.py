"""An SQLite file at one moment, and the small tables that the store reads too."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from clickcurve.buckets.candidates import Cutoffs
from clickcurve.buckets.prefixes import after_prefix
from clickcurve.buckets.upper_bounds import UpperBounds
from storage.contract import OwnerRecord, Source, StoredLink, View
from storage.sqlite.candidates import bounds_of_candidates, owner_cutoffs, ranked_prefixes
from storage.sqlite.file import NOTE, translate_errors
from storage.sqlite.rows import count_rows, links_of, operator_after, walk

_IDS = "SELECT id, max(at_us) FROM ids WHERE id {after} ? GROUP BY id ORDER BY id LIMIT ?"
_OWNERS = "SELECT owner, epoch, holder, journal, place, state, begun, begun_at FROM owners"


class SqliteView(View):
    """The database at one moment, on a connection of its own."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self._path = path
        self._db = db

    def owners(self) -> list[OwnerRecord]:
        with translate_errors(self._path):
            return owner_records(self._db)

    def walk(self, after: str | None, limit: int) -> list[tuple[str, StoredLink]]:
        with translate_errors(self._path):
            return walk(self._db, operator_after(after), after or "", limit)

    def count_rows(self, breakdowns: bool) -> int:
        with translate_errors(self._path):
            return count_rows(self._db, breakdowns)

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        with translate_errors(self._path):
            return links_of(self._db, keys)

    def ranked_prefixes(self) -> list[str]:
        with translate_errors(self._path):
            return [prefix for prefix, _ in ranked_prefixes(self._db)]

    def upper_bounds(self, keys: Sequence[str], prefix: str) -> dict[tuple[str, int], UpperBounds]:
        with translate_errors(self._path):
            return bounds_of_candidates(self._db, dict(ranked_prefixes(self._db))[prefix], keys)

    def ranked_cutoffs(self, owner: int, prefix: str) -> Cutoffs:
        with translate_errors(self._path):
            return owner_cutoffs(self._db, dict(ranked_prefixes(self._db))[prefix], owner)

    def notes(self) -> dict[str, str]:
        with translate_errors(self._path):
            return notes_of(self._db)

    def ids(self, after: str | None, limit: int) -> list[tuple[str, int]]:
        with translate_errors(self._path):
            return self._db.execute(_IDS.format(after=operator_after(after)), (after or "", limit)).fetchall()

    def sources(self) -> dict[str, Source]:
        with translate_errors(self._path):
            rows = self._db.execute("SELECT source, owner, position, tail, epoch FROM sources")
            return {name: Source(*source) for name, *source in rows}


def owner_records(db: sqlite3.Connection) -> list[OwnerRecord]:
    return [OwnerRecord(*record) for record in db.execute(f"{_OWNERS} ORDER BY owner")]


def owner_record(db: sqlite3.Connection, owner: int) -> OwnerRecord | None:
    record = db.execute(f"{_OWNERS} WHERE owner = ?", (owner,)).fetchone()
    return OwnerRecord(*record) if record is not None else None


def source_of(db: sqlite3.Connection, source: str) -> Source | None:
    row = db.execute("SELECT owner, position, tail, epoch FROM sources WHERE source = ?", (source,)).fetchone()
    return Source(*row) if row is not None else None


def notes_of(db: sqlite3.Connection, prefix: str = "") -> dict[str, str]:
    """Returns the notes whose names begin with a prefix; the names of all others are not looked at."""
    first = NOTE + prefix
    rows = db.execute("SELECT name, value FROM meta WHERE name >= ? AND name < ?", (first, after_prefix(first)))
    return {name.removeprefix(NOTE): value for name, value in rows}
