"""The weights of rows in an SQLite file: all links by what they can count, in one pass over the columns.

A question looks through the columns of all rows, as they stand in the file: 40 ms for a million rows of one owner, 80
ms where rows of several owners are summed up. SQLite does that without Python's lock, and keeps only the links that are
asked for. Nothing has to be kept in order for it, so a flush pays for the columns alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from clickcurve.buckets.weight import BOT_WINDOWS, BOTS, PEOPLE, WINDOWS, Weight, edges
from clickcurve.keys import link_of
from storage.contract import Ranking, SavedRow, StoredLink
from storage.first_use import FirstUse
from storage.sqlite.connections import Connections
from storage.sqlite.file import UNRANKED_AFTER, WEIGHT, has_weights
from storage.sqlite.lookups import MANY, each_of, links_of

COLUMNS = ", ".join(WEIGHT)
UNRANKED = (None,) * len(WEIGHT)
ROWS_PER_STEP = 2_000

_LAST = WEIGHT[0]
_STEP_END = "SELECT key FROM rows WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?"
_UNRANKED = f"SELECT key, owner, data FROM rows WHERE key > ?1 AND (?2 IS NULL OR key <= ?2) AND {_LAST} IS NULL"
_RANK = f"UPDATE rows SET {' = ?, '.join(WEIGHT)} = ? WHERE key = ? AND owner = ?"
_OF_KEYS = f"SELECT key, owner, {COLUMNS} FROM rows WHERE key IN {MANY} AND {_LAST} IS NOT NULL"


def note_unranked(db: sqlite3.Connection, rows: Mapping[str, SavedRow]) -> None:
    """Notes that rows lack their weight, if one of these does."""
    if any(row.weight is None and link_of(key) is not None for key, row in rows.items()):
        db.execute("REPLACE INTO meta VALUES (?, '')", (UNRANKED_AFTER,))


def weights_of(db: sqlite3.Connection, keys: Sequence[str]) -> dict[tuple[str, int], Weight] | None:
    """Returns the weights of the rows of these keys, None unless all rows have theirs."""
    if not has_weights(db):
        return None
    return {(key, owner): tuple(weight) for key, owner, *weight in each_of(db, _OF_KEYS, keys)}


class SqliteRankings:
    """What a store on an SQLite file says of rankings."""

    _connections: FirstUse[Connections]

    @contextmanager
    def ranked(self, ranking: Ranking) -> Iterator[SqliteRanked | None]:
        connections = self._connections.open()
        with connections.on_scanner() as db:
            db.execute("BEGIN")  # bounds and rows from one view
            try:
                yield SqliteRanked(db, ranking) if has_weights(db) else None
            finally:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")

    def rank_some(self, weight: Callable[[bytes], Weight]) -> bool:
        connections = self._connections.open()
        with connections.on_scanner() as db:
            if has_weights(db):
                return False
        with connections.transaction() as db:
            (after,) = db.execute("SELECT value FROM meta WHERE name = ?", (UNRANKED_AFTER,)).fetchone() or (None,)
            if after is None:
                return False  # another process did the rest
            (end,) = db.execute(_STEP_END, (after, ROWS_PER_STEP)).fetchone() or (None,)
            rows = [(key, owner, data) for key, owner, data in db.execute(_UNRANKED, (after, end)) if link_of(key)]
            db.executemany(_RANK, [(*weight(data), key, owner) for key, owner, data in rows])
            if end is None:
                db.execute("DELETE FROM meta WHERE name = ?", (UNRANKED_AFTER,))
            else:
                db.execute("UPDATE meta SET value = ? WHERE name = ?", (end, UNRANKED_AFTER))
            return end is not None


class SqliteRanked:
    """All links by their bounds, as long as the transaction of `db` lasts."""

    def __init__(self, db: sqlite3.Connection, ranking: Ranking) -> None:
        self._db = db
        self._several = db.execute("SELECT count(*) > 1 FROM owners").fetchone()[0]
        self._values = () if ranking.since is None else (ranking.since,)
        self._where = f"{_LAST} IS NOT NULL" if ranking.since is None else f"{_LAST} >= ?1"
        asked = ((ranking.people, WEIGHT[PEOPLE:BOTS], WINDOWS), (ranking.bots, WEIGHT[BOTS:], BOT_WINDOWS))
        self._bound = "+".join(_most(counts, ranking.since, windows) for wanted, counts, windows in asked if wanted)

    def bounds(self, after: tuple[str, int] | None, limit: int) -> list[tuple[str, int]]:
        n = len(self._values)
        rest = f"bound > ?{n + 1}"
        values: tuple[int | str, ...] = (*self._values, 0)
        if after is not None:
            rest = f"bound > 0 AND (bound < ?{n + 1} OR bound = ?{n + 1} AND key > ?{n + 2})"
            values = (*self._values, after[1], after[0])
        if self._several:
            query = f"SELECT key, sum({self._bound}) AS bound FROM rows WHERE {self._where} GROUP BY key HAVING {rest}"
        else:
            query = f"SELECT key, {self._bound} AS bound FROM rows WHERE {self._where} AND {rest}"
        return self._db.execute(f"{query} ORDER BY bound DESC, key LIMIT {limit}", values).fetchall()

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        return links_of(self._db, keys)


def _most(counts: Sequence[str], since: int | None, windows: tuple[int, ...]) -> str:
    """Writes the count of the narrowest window that covers the range; the last one is of all their life."""
    if since is None:
        return counts[-1]
    cases = [f"WHEN {_LAST} < {edge} THEN {each}" for edge, each in zip(edges(since, windows), counts, strict=False)]
    return f"CASE {' '.join(cases)} ELSE {counts[-1]} END"
