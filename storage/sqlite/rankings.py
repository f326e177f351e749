"""Rankings in an SQLite file: candidates, the few links with the greatest upper bounds, and the cutoffs of all others.

They are written with the rows of a flush, and candidates are dropped when there are too many.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache

from clickcurve.buckets.candidates import DAYS, KEPT, NOBODY, ROOM, Cutoffs, Place, together
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S
from clickcurve.buckets.upper_bounds import BOT_WINDOWS, BOTS, MOST, PEOPLE, WINDOWS, UpperBounds, edges
from clickcurve.keys import link_of
from storage.contract import Candidates, Ranking, SavedRow, StoredLink
from storage.first_use import FirstUse
from storage.sqlite.connections import Connections
from storage.sqlite.file import BOUND_COLUMNS, UNRANKED_AFTER, is_ranked
from storage.sqlite.rows import MANY, each_of, links_of, slices

ROWS_PER_STEP = 2_000

_STEP_END = "SELECT key FROM rows WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?"
_UNRANKED = "SELECT owner, key, data FROM rows WHERE key > :after AND (:end IS NULL OR key <= :end)"
COLUMNS = ", ".join(BOUND_COLUMNS)

_LAST, *_NUMBERS = BOUND_COLUMNS
_OF_KEYS = f"SELECT key, owner, {COLUMNS} FROM leaders WHERE key IN {MANY}"
_ADD = f"INSERT INTO leaders (key, owner, {COLUMNS}) VALUES ({', '.join('?' * (2 + len(BOUND_COLUMNS)))})"
_KEYS_PER_DROP = 500
_DROP = f"DELETE FROM leaders WHERE key IN ({','.join('?' * _KEYS_PER_DROP)}) AND owner = ?"


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
    for owner, key, data in db.execute(_UNRANKED, {"after": after, "end": end}):
        if link_of(key) is not None:
            owners.setdefault(owner, {})[key] = SavedRow(data, None, upper_bounds=bounds_of(data))
    for owner, rows in owners.items():
        save_candidates(db, owner, rows)


class SqliteRanked:
    """The candidate links, as long as the transaction of `db` lasts."""

    def __init__(self, db: sqlite3.Connection, ranking: Ranking) -> None:
        self._db = db
        self._ranking = ranking

    def candidates(self, prefix: str = "") -> Candidates | None:
        """Returns the candidates whose keys begin with a prefix; None if the cutoffs cannot be read."""
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
            f"SELECT key, sum({bound} {f'- CASE owner {less} ELSE 0 END' if less else ''}) + :rest AS bound"
            " FROM leaders WHERE key >= :prefix AND (:end IS NULL OR key < :end)"
            " GROUP BY key HAVING bound > :rest OR bound = :rest AND key < :first ORDER BY bound DESC, key"
        )
        rest_bound, first = rest
        asked_for = {"rest": rest_bound, "first": first, "prefix": prefix, "end": after_prefix(prefix)}
        return Candidates(self._db.execute(query, asked_for).fetchall(), rest)

    def links(self, keys: Sequence[str]) -> dict[str, StoredLink]:
        return links_of(self._db, keys)


def after_prefix(prefix: str) -> str | None:
    """Returns the least text after all those that begin with a prefix; None: there is none."""
    for place in range(len(prefix), 0, -1):
        last = ord(prefix[place - 1])
        if last < sys.maxunicode:  # UTF-8 has no surrogates, and its bytes are in the order of characters
            return prefix[: place - 1] + chr(0xE000 if last == 0xD7FF else last + 1)
    return None


def _most(counts: Sequence[str], since: int | None, windows: tuple[int, ...]) -> str:
    """Writes the count of the narrowest window that covers the range; the last one is of all their life."""
    if since is None:
        return counts[-1]
    cases = [f"WHEN {_LAST} < {edge} THEN {each}" for edge, each in zip(edges(since, windows), counts, strict=False)]
    return f"CASE WHEN {_LAST} < {since} THEN 0 {' '.join(cases)} ELSE {counts[-1]} END"


def bounds_of_candidates(db: sqlite3.Connection, keys: Sequence[str]) -> dict[tuple[str, int], UpperBounds] | None:
    """Returns the upper bounds of the candidates among the rows of these keys; None while not all rows are ranked."""
    if not is_ranked(db):
        return None
    return {(key, owner): tuple(bounds) for key, owner, *bounds in each_of(db, _OF_KEYS, keys)}


def owner_cutoffs(db: sqlite3.Connection, owner: int) -> Cutoffs:
    """Returns the cutoffs of an owner. Raises RowCorrupt if they cannot be read."""
    (data,) = db.execute("SELECT bars FROM bars WHERE owner = ?", (owner,)).fetchone() or (None,)
    try:
        return Cutoffs() if data is None else _unpacked(data)
    except ValueError as error:
        raise RowCorrupt(f"the cutoffs of owner {owner} cannot be read: {error}") from error


def cutoffs_to_pass(db: sqlite3.Connection, owner: int) -> Cutoffs:
    """Returns the cutoffs of an owner; open ones if they cannot be read.

    Every row that is saved passes an open cutoff.
    """
    try:
        return owner_cutoffs(db, owner)
    except RowCorrupt:
        return Cutoffs()


@lru_cache(maxsize=8)
def _unpacked(data: bytes) -> Cutoffs:
    return Cutoffs.of_bytes(data)


def save_candidates(db: sqlite3.Connection, owner: int, rows: Mapping[str, SavedRow]) -> None:
    """Makes these rows candidates, or no candidates, as their upper bounds say."""
    bounds_by_key: list[tuple[str, UpperBounds]] = []
    for keys in slices([*rows], _KEYS_PER_DROP):
        some = [key for key in keys if link_of(key) is not None]
        if some:
            db.execute(_DROP, (*some, *[some[-1]] * (_KEYS_PER_DROP - len(some)), owner))
        bounds_by_key += [(key, bounds) for key in some if (bounds := rows[key].upper_bounds) is not None]
    if not bounds_by_key:
        return
    cutoffs = cutoffs_to_pass(db, owner)
    candidates = [(key, owner, *bounds) for key, bounds in bounds_by_key if cutoffs.passed_by(bounds, key)]
    db.executemany(_ADD, candidates)
    (left,) = db.execute("SELECT leaders FROM bars WHERE owner = ?", (owner,)).fetchone() or (KEPT,)
    (there,) = db.execute("SELECT count(*) FROM leaders WHERE owner = ?", (owner,)).fetchone()
    if there > left + ROOM:
        _thin_out(db, owner)


def _thin_out(db: sqlite3.Connection, owner: int) -> None:
    """Keeps the greatest candidates of each window that a range may ask for, and raises the cutoffs."""
    try:
        cutoffs = owner_cutoffs(db, owner)
    except RowCorrupt:
        cutoffs = Cutoffs()
        db.execute("REPLACE INTO meta VALUES (?, '')", (UNRANKED_AFTER,))  # what they were is read from the rows
    newest = newest_day(db, cutoffs, owner)
    reached = [max(-DAY_S, (newest - days + 1) * DAY_S) for days in DAYS]
    floors = [_first_beyond(db, owner, number, since) for number, since in zip(_NUMBERS, reached, strict=True)]
    stays: list[str] = []
    values: list[int | str] = [owner]
    for number, since, (most, key) in zip(_NUMBERS, reached, floors, strict=True):
        stays.append(f"{_LAST} >= ? AND ({number} > ? OR {number} = ? AND key < ?)")
        values += [since, most, most, key]
    going = f"FROM leaders WHERE owner = ? AND NOT ({' OR '.join(stays)})"
    days = {min(last // DAY_S, newest) for (last,) in db.execute(f"SELECT {_LAST} {going}", values)}
    db.execute(f"DELETE {going}", values)
    (left,) = db.execute("SELECT count(*) FROM leaders WHERE owner = ?", (owner,)).fetchone()
    data = cutoffs.raised(days, floors, newest).to_bytes()
    db.execute("REPLACE INTO bars (owner, leaders, bars) VALUES (?, ?, ?)", (owner, left, data))


def newest_day(db: sqlite3.Connection, cutoffs: Cutoffs, owner: int) -> int:
    """Returns the day of the last hit that an owner's rows know of, leaving out unreadable rows."""
    query = f"SELECT max({_LAST}) FROM leaders WHERE owner = ? AND {_LAST} < ?"
    (last,) = db.execute(query, (owner, MOST)).fetchone()
    return cutoffs.newest if last is None else max(cutoffs.newest, last // DAY_S)


def _first_beyond(db: sqlite3.Connection, owner: int, number: str, since: int) -> Place:
    """Returns the first place that is not among the KEPT greatest."""
    query = (
        f"SELECT {number}, key FROM leaders WHERE owner = ? AND {_LAST} >= ? AND {number} > 0"
        f" ORDER BY {number} DESC, key LIMIT 1 OFFSET {KEPT}"
    )
    return db.execute(query, (owner, since)).fetchone() or NOBODY
