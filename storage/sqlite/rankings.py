"""Rankings in an SQLite file: the few links with the greatest upper bounds, and the cutoff of all others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from clickcurve.buckets.candidates import Cutoffs, together
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.upper_bounds import BOT_WINDOWS, BOTS, PEOPLE, WINDOWS, UpperBounds, edges
from clickcurve.keys import link_of
from storage.contract import Candidates, Ranking, SavedRow, StoredLink
from storage.first_use import FirstUse
from storage.sqlite.candidates import cutoffs_to_pass, newest_day, owner_cutoffs, save_candidates
from storage.sqlite.connections import Connections
from storage.sqlite.file import BOUND_COLUMNS, UNRANKED_AFTER, is_ranked
from storage.sqlite.lookups import links_of

ROWS_PER_STEP = 2_000

_LAST = BOUND_COLUMNS[0]
_STEP_END = "SELECT key FROM rows WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?"
_UNRANKED = "SELECT owner, key, data FROM rows WHERE key > ?1 AND (?2 IS NULL OR key <= ?2)"


class SqliteRankings:
    """What a store on an SQLite file says of rankings."""

    _connections: FirstUse[Connections]

    def cutoffs(self, owner: int) -> Cutoffs:
        with self._connections.open().on_worker() as db:
            return cutoffs_to_pass(db, owner)

    @contextmanager
    def ranked(self, ranking: Ranking) -> Iterator[SqliteRanked | None]:
        connections = self._connections.open()
        with connections.on_scanner() as db:
            db.execute("BEGIN")  # candidates, cutoffs and rows from one view
            try:
                yield SqliteRanked(db, ranking) if is_ranked(db) else None
            finally:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")

    def rank_anew(self) -> None:
        with self._connections.open().transaction() as db:
            db.execute("REPLACE INTO meta VALUES (?, '')", (UNRANKED_AFTER,))

    def rank_some(self, bounds_of: Callable[[bytes], UpperBounds]) -> bool:
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
            _rank(db, after, end, bounds_of)
            return end is not None


def _rank(db: sqlite3.Connection, after: str, end: str | None, bounds_of: Callable[[bytes], UpperBounds]) -> None:
    """Makes the rows after one key, up to another, candidates if they pass a cutoff, and no others."""
    owners: dict[int, dict[str, SavedRow]] = {}
    for owner, key, data in db.execute(_UNRANKED, (after, end)):
        if link_of(key) is not None:
            owners.setdefault(owner, {})[key] = SavedRow(data, None, upper_bounds=bounds_of(data))
    for owner, rows in owners.items():
        save_candidates(db, owner, rows)


class SqliteRanked:
    """The candidate links, as long as the transaction of `db` lasts."""

    def __init__(self, db: sqlite3.Connection, ranking: Ranking) -> None:
        self._db = db
        self._ranking = ranking

    def candidates(self) -> Candidates | None:
        """Returns the candidates; None if the cutoffs cannot be read."""
        since, people, bots = self._ranking.since, self._ranking.people, self._ranking.bots
        owners = [owner for (owner,) in self._db.execute("SELECT DISTINCT owner FROM bars")]
        try:
            cutoffs = {owner: owner_cutoffs(self._db, owner) for owner in owners}
        except RowCorrupt:
            return None
        newest = {owner: newest_day(self._db, each, owner) for owner, each in cutoffs.items()}
        rests = {owner: each.rest(since, newest[owner], people, bots) for owner, each in cutoffs.items()}
        rest = together(list(rests.values()))
        asked = ((people, BOUND_COLUMNS[PEOPLE:BOTS], WINDOWS), (bots, BOUND_COLUMNS[BOTS:], BOT_WINDOWS))
        bound = "+".join(_most(counts, since, windows) for wanted, counts, windows in asked if wanted)
        less = " ".join(f"WHEN {owner} THEN {most}" for owner, (most, _) in rests.items())
        query = (
            f"SELECT key, sum({bound} {f'- CASE owner {less} ELSE 0 END' if less else ''}) + ?1 AS bound FROM leaders"
            " GROUP BY key HAVING bound > ?1 OR bound = ?1 AND key < ?2 ORDER BY bound DESC, key"
        )
        return Candidates(self._db.execute(query, rest).fetchall(), rest)

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        return links_of(self._db, keys)


def _most(counts: Sequence[str], since: int | None, windows: tuple[int, ...]) -> str:
    """Writes the count of the narrowest window that covers the range; the last one is of all their life."""
    if since is None:
        return counts[-1]
    cases = [f"WHEN {_LAST} < {edge} THEN {each}" for edge, each in zip(edges(since, windows), counts, strict=False)]
    return f"CASE WHEN {_LAST} < {since} THEN 0 {' '.join(cases)} ELSE {counts[-1]} END"
