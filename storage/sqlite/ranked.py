"""Rankings of an SQLite file: the few links that lead by what they can count, and what all others stay under."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.leaders import Bars, together
from clickcurve.buckets.weight import BOT_WINDOWS, BOTS, PEOPLE, WINDOWS, Weight, edges
from clickcurve.keys import link_of
from storage.contract import Leading, Ranking, SavedRow, StoredLink
from storage.first_use import FirstUse
from storage.sqlite.connections import Connections
from storage.sqlite.file import UNRANKED_AFTER, WEIGHT, is_ranked
from storage.sqlite.leaders import bars_to_pass, newest_day, owner_bars, save_leaders
from storage.sqlite.lookups import links_of

ROWS_PER_STEP = 2_000

_LAST = WEIGHT[0]
_STEP_END = "SELECT key FROM rows WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?"
_UNRANKED = "SELECT owner, key, data FROM rows WHERE key > ?1 AND (?2 IS NULL OR key <= ?2)"


class SqliteRankings:
    """What a store on an SQLite file says of rankings."""

    _connections: FirstUse[Connections]

    def bars(self, owner: int) -> Bars:
        with self._connections.open().on_worker() as db:
            return bars_to_pass(db, owner)

    @contextmanager
    def ranked(self, ranking: Ranking) -> Iterator[SqliteRanked | None]:
        connections = self._connections.open()
        with connections.on_scanner() as db:
            db.execute("BEGIN")  # leaders, bars and rows from one view
            try:
                yield SqliteRanked(db, ranking) if is_ranked(db) else None
            finally:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")

    def rank_anew(self) -> None:
        with self._connections.open().transaction() as db:
            db.execute("REPLACE INTO meta VALUES (?, '')", (UNRANKED_AFTER,))

    def rank_some(self, weight: Callable[[bytes], Weight]) -> bool:
        connections = self._connections.open()
        with connections.on_scanner() as db:
            if is_ranked(db):
                return False
        with connections.transaction() as db:
            (after,) = db.execute("SELECT value FROM meta WHERE name = ?", (UNRANKED_AFTER,)).fetchone() or (None,)
            if after is None:
                return False  # another process did the rest
            (end,) = db.execute(_STEP_END, (after, ROWS_PER_STEP)).fetchone() or (None,)
            if end is None:
                db.execute("DELETE FROM meta WHERE name = ?", (UNRANKED_AFTER,))
            else:
                db.execute("UPDATE meta SET value = ? WHERE name = ?", (end, UNRANKED_AFTER))
            _rank(db, after, end, weight)
            return end is not None


def _rank(db: sqlite3.Connection, after: str, end: str | None, weight: Callable[[bytes], Weight]) -> None:
    """Makes leaders of the rows after one key, up to another, that pass a bar, and of no others."""
    owners: dict[int, dict[str, SavedRow]] = {}
    for owner, key, data in db.execute(_UNRANKED, (after, end)):
        if link_of(key) is not None:
            owners.setdefault(owner, {})[key] = SavedRow(data, None, weight=weight(data))
    for owner, rows in owners.items():
        save_leaders(db, owner, rows)


class SqliteRanked:
    """The leading links, as long as the transaction of `db` lasts."""

    def __init__(self, db: sqlite3.Connection, ranking: Ranking) -> None:
        self._db = db
        self._ranking = ranking

    def leading(self) -> Leading | None:
        """Returns None if bars cannot be read."""
        since, people, bots = self._ranking.since, self._ranking.people, self._ranking.bots
        owners = [owner for (owner,) in self._db.execute("SELECT DISTINCT owner FROM bars")]
        try:
            bars = {owner: owner_bars(self._db, owner) for owner in owners}
        except RowCorrupt:
            return None
        newest = {owner: newest_day(self._db, each, owner) for owner, each in bars.items()}
        rests = {owner: each.rest(since, newest[owner], people, bots) for owner, each in bars.items()}
        rest = together(list(rests.values()))
        asked = ((people, WEIGHT[PEOPLE:BOTS], WINDOWS), (bots, WEIGHT[BOTS:], BOT_WINDOWS))
        bound = "+".join(_most(counts, since, windows) for wanted, counts, windows in asked if wanted)
        less = " ".join(f"WHEN {owner} THEN {most}" for owner, (most, _) in rests.items())
        query = (
            f"SELECT key, sum({bound} {f'- CASE owner {less} ELSE 0 END' if less else ''}) + ?1 AS bound FROM leaders"
            " GROUP BY key HAVING bound > ?1 OR bound = ?1 AND key < ?2 ORDER BY bound DESC, key"
        )
        return Leading(self._db.execute(query, rest).fetchall(), rest)

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        return links_of(self._db, keys)


def _most(counts: Sequence[str], since: int | None, windows: tuple[int, ...]) -> str:
    """Writes the count of the narrowest window that covers the range; the last one is of all their life."""
    if since is None:
        return counts[-1]
    cases = [f"WHEN {_LAST} < {edge} THEN {each}" for edge, each in zip(edges(since, windows), counts, strict=False)]
    return f"CASE WHEN {_LAST} < {since} THEN 0 {' '.join(cases)} ELSE {counts[-1]} END"
