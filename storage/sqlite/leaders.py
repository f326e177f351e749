"""Leaders and bars in an SQLite file: written with the rows of a flush, thinned out when there are too many."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import lru_cache

from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S
from clickcurve.buckets.leaders import DAYS, KEPT, NOBODY, ROOM, Bars, Place
from clickcurve.buckets.weight import MOST, Weight
from clickcurve.keys import link_of
from storage.contract import SavedRow
from storage.sqlite.file import UNRANKED_AFTER, WEIGHT, is_ranked
from storage.sqlite.lookups import MANY, each_of, slices

COLUMNS = ", ".join(WEIGHT)

_LAST, *_NUMBERS = WEIGHT
_OF_KEYS = f"SELECT key, owner, {COLUMNS} FROM leaders WHERE key IN {MANY}"
_LEAD = f"INSERT INTO leaders (key, owner, {COLUMNS}) VALUES ({', '.join('?' * (2 + len(WEIGHT)))})"
_KEYS_PER_DEMOTION = 500
_DEMOTE = f"DELETE FROM leaders WHERE key IN ({','.join('?' * _KEYS_PER_DEMOTION)}) AND owner = ?"


def weights_of(db: sqlite3.Connection, keys: Sequence[str]) -> dict[tuple[str, int], Weight] | None:
    """Returns the weights of the leaders among the rows of these keys, None as long as leaders are missing."""
    if not is_ranked(db):
        return None
    return {(key, owner): tuple(weight) for key, owner, *weight in each_of(db, _OF_KEYS, keys)}


def owner_bars(db: sqlite3.Connection, owner: int) -> Bars:
    """Returns the bars of an owner. Raises RowCorrupt if they cannot be read."""
    (data,) = db.execute("SELECT bars FROM bars WHERE owner = ?", (owner,)).fetchone() or (None,)
    try:
        return Bars() if data is None else _unpacked(data)
    except ValueError as error:
        raise RowCorrupt(f"the bars of owner {owner} cannot be read: {error}") from error


def bars_to_pass(db: sqlite3.Connection, owner: int) -> Bars:
    """Returns the bars of an owner; open ones if they cannot be read: then all rows that are saved become leaders."""
    try:
        return owner_bars(db, owner)
    except RowCorrupt:
        return Bars()


@lru_cache(maxsize=8)
def _unpacked(data: bytes) -> Bars:
    return Bars.of_bytes(data)


def save_leaders(db: sqlite3.Connection, owner: int, rows: Mapping[str, SavedRow]) -> None:
    """Makes these rows leaders, or no leaders, as their weights say."""
    weights: list[tuple[str, Weight]] = []
    for keys in slices([*rows], _KEYS_PER_DEMOTION):
        some = [key for key in keys if link_of(key) is not None]
        if some:
            db.execute(_DEMOTE, (*some, *[some[-1]] * (_KEYS_PER_DEMOTION - len(some)), owner))
        weights += [(key, weight) for key in some if (weight := rows[key].weight) is not None]
    if not weights:
        return
    bars = bars_to_pass(db, owner)
    leading = [(key, owner, *weight) for key, weight in weights if bars.passed_by(weight, key)]
    db.executemany(_LEAD, leading)
    (left,) = db.execute("SELECT leaders FROM bars WHERE owner = ?", (owner,)).fetchone() or (KEPT,)
    (there,) = db.execute("SELECT count(*) FROM leaders WHERE owner = ?", (owner,)).fetchone()
    if there > left + ROOM:
        _thin_out(db, owner)


def _thin_out(db: sqlite3.Connection, owner: int) -> None:
    """Keeps of each number the greatest leaders that a range may ask for, and raises the bars."""
    try:
        bars = owner_bars(db, owner)
    except RowCorrupt:
        bars = Bars()
        db.execute("REPLACE INTO meta VALUES (?, '')", (UNRANKED_AFTER,))  # what they were is read from the rows
    newest = newest_day(db, bars, owner)
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
    data = bars.raised(days, floors, newest).to_bytes()
    db.execute("REPLACE INTO bars (owner, leaders, bars) VALUES (?, ?, ?)", (owner, left, data))


def newest_day(db: sqlite3.Connection, bars: Bars, owner: int) -> int:
    """Returns the day of the last hit that an owner's rows know of. What an unreadable row says is no time."""
    query = f"SELECT max({_LAST}) FROM leaders WHERE owner = ? AND {_LAST} < ?"
    (last,) = db.execute(query, (owner, MOST)).fetchone()
    return bars.newest if last is None else max(bars.newest, last // DAY_S)


def _first_beyond(db: sqlite3.Connection, owner: int, number: str, since: int) -> Place:
    """Returns the first place that is not among the KEPT greatest."""
    query = (
        f"SELECT {number}, key FROM leaders WHERE owner = ? AND {_LAST} >= ? AND {number} > 0"
        f" ORDER BY {number} DESC, key LIMIT 1 OFFSET {KEPT}"
    )
    return db.execute(query, (owner, since)).fetchone() or NOBODY
