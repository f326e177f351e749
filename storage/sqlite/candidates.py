"""Candidates and cutoffs in an SQLite file: written with the rows of a flush, thinned out when there are too many."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import lru_cache

from clickcurve.buckets.candidates import DAYS, KEPT, NOBODY, ROOM, Cutoffs, Place
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S
from clickcurve.buckets.upper_bounds import MOST, UpperBounds
from clickcurve.keys import link_of
from storage.contract import SavedRow
from storage.sqlite.file import BOUND_COLUMNS, UNRANKED_AFTER, is_ranked
from storage.sqlite.lookups import MANY, each_of, slices

COLUMNS = ", ".join(BOUND_COLUMNS)

_LAST, *_NUMBERS = BOUND_COLUMNS
_OF_KEYS = f"SELECT key, owner, {COLUMNS} FROM leaders WHERE key IN {MANY}"
_ADD = f"INSERT INTO leaders (key, owner, {COLUMNS}) VALUES ({', '.join('?' * (2 + len(BOUND_COLUMNS)))})"
_KEYS_PER_DROP = 500
_DROP = f"DELETE FROM leaders WHERE key IN ({','.join('?' * _KEYS_PER_DROP)}) AND owner = ?"


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
