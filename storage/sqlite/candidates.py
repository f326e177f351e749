"""Candidates in an SQLite file, the few links with the greatest upper bounds, and the cutoffs of all others.

They are kept for all links, and for the links of some prefixes: each of these rankings has its own. They are written
with the rows of a flush, and candidates are dropped when there are too many.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from clickcurve.buckets.candidates import DAYS, KEPT, NOBODY, ROOM, Cutoffs, Place
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S
from clickcurve.buckets.prefixes import Prefixes
from clickcurve.buckets.upper_bounds import MOST, UpperBounds
from clickcurve.keys import link_of
from storage.contract import SavedRow
from storage.sqlite.file import ALL_LINKS_RANKING, BOUND_COLUMNS, has_rankings
from storage.sqlite.tables import MANY, each_of, slices

COLUMNS = ", ".join(BOUND_COLUMNS)

_LAST, *_NUMBERS = BOUND_COLUMNS
_OF_KEYS = f"SELECT key, owner, {COLUMNS} FROM leaders WHERE key IN {MANY} AND ranking = ?"
_ADD = f"INSERT INTO leaders (ranking, key, owner, {COLUMNS}) VALUES (?, ?, ?, {', '.join('?' * len(BOUND_COLUMNS))})"
_KEYS_PER_DROP = 500
_DROP = f"DELETE FROM leaders WHERE key IN ({','.join('?' * _KEYS_PER_DROP)}) AND ranking = ? AND owner = ?"


class KnownRankings(NamedTuple):
    """The rankings of a file by prefix. version: another one after each change of which there are."""

    ids: Mapping[str, int]
    prefixes: Prefixes
    version: tuple[int, int]


def known_rankings(db: sqlite3.Connection, known: KnownRankings | None = None) -> KnownRankings:
    """Returns the rankings that there are; `known` if they are the same."""
    version = db.execute("SELECT max(id), count(*) FROM rankings").fetchone()  # no id is used twice
    if known is not None and known.version == version:
        return known
    ids = dict(db.execute("SELECT prefix, id FROM rankings"))
    return KnownRankings(ids, Prefixes(ids), version)


def ranked_prefixes(db: sqlite3.Connection) -> list[tuple[str, int]]:
    """Returns the prefixes whose links have all their candidates, each with the id of its ranking."""
    if not has_rankings(db):
        return []
    return db.execute("SELECT prefix, id FROM rankings WHERE unranked_after IS NULL").fetchall()


def rank_again(db: sqlite3.Connection, ranking: int) -> None:
    """Makes `rank_some` look at all rows of a ranking."""
    db.execute("UPDATE rankings SET unranked_after = '' WHERE id = ?", (ranking,))


def bounds_of_candidates(
    db: sqlite3.Connection, ranking: int, keys: Sequence[str]
) -> dict[tuple[str, int], UpperBounds]:
    """Returns the upper bounds of the candidates among the rows of these keys."""
    return {(key, owner): tuple(bounds) for key, owner, *bounds in each_of(db, _OF_KEYS, keys, ranking)}


def _by_ranking(known: KnownRankings, keys: Sequence[str]) -> dict[int, list[str]]:
    """Returns the keys of each ranking, of links alone."""
    keys_of: dict[int, list[str]] = {}
    for key in keys:
        if link_of(key) is not None:
            for prefix in known.prefixes.of(key):
                keys_of.setdefault(known.ids[prefix], []).append(key)
    return keys_of


def owner_cutoffs(db: sqlite3.Connection, ranking: int, owner: int) -> Cutoffs:
    """Returns the cutoffs of an owner. Raises RowCorrupt if they cannot be read."""
    query = "SELECT bars FROM bars WHERE ranking = ? AND owner = ?"
    (data,) = db.execute(query, (ranking, owner)).fetchone() or (None,)
    try:
        return Cutoffs() if data is None else _unpacked(data)
    except ValueError as error:
        raise RowCorrupt(f"the cutoffs of owner {owner} cannot be read: {error}") from error


def cutoffs_to_pass(db: sqlite3.Connection, ranking: int, owner: int) -> Cutoffs:
    """Returns the cutoffs of an owner; open ones if they cannot be read.

    Every row that is saved passes an open cutoff.
    """
    try:
        return owner_cutoffs(db, ranking, owner)
    except RowCorrupt:
        return Cutoffs()


@lru_cache(maxsize=8)
def _unpacked(data: bytes) -> Cutoffs:
    return Cutoffs.of_bytes(data)


def save_candidates(
    db: sqlite3.Connection, owner: int, rows: Mapping[str, SavedRow], known: KnownRankings | None
) -> None:
    """Makes these rows candidates, or no candidates, as their upper bounds say.

    known: the rankings that the owner's flush knows. A row without bounds may pass a cutoff of any other one.
    """
    there = known_rankings(db, known)
    unknown = {*there.ids.values()} - {*(known.ids.values() if known else ()), ALL_LINKS_RANKING}
    for ranking, keys in _by_ranking(there, [*rows]).items():
        bounds_by_key = {key: rows[key].upper_bounds for key in keys}
        rank_rows(db, ranking, owner, bounds_by_key)
        if ranking in unknown and None in bounds_by_key.values():
            rank_again(db, ranking)


def rank_rows(
    db: sqlite3.Connection, ranking: int, owner: int, bounds_by_key: Mapping[str, UpperBounds | None]
) -> None:
    """Makes an owner's rows candidates of one ranking, or no candidates; None: a row that passes no cutoff."""
    for keys in slices([*bounds_by_key], _KEYS_PER_DROP):
        db.execute(_DROP, (*keys, *[keys[-1]] * (_KEYS_PER_DROP - len(keys)), ranking, owner))
    known_bounds = [(key, bounds) for key, bounds in bounds_by_key.items() if bounds is not None]
    if not known_bounds:
        return
    cutoffs = cutoffs_to_pass(db, ranking, owner)
    passing = [(ranking, key, owner, *bounds) for key, bounds in known_bounds if cutoffs.passed_by(bounds, key)]
    db.executemany(_ADD, passing)
    query = "SELECT leaders FROM bars WHERE ranking = ? AND owner = ?"
    (left,) = db.execute(query, (ranking, owner)).fetchone() or (KEPT,)
    if _number_of_candidates(db, ranking, owner) > left + ROOM:
        _thin_out(db, ranking, owner)


def _number_of_candidates(db: sqlite3.Connection, ranking: int, owner: int) -> int:
    (number,) = db.execute("SELECT count(*) FROM leaders WHERE ranking = ? AND owner = ?", (ranking, owner)).fetchone()
    return int(number)


def _thin_out(db: sqlite3.Connection, ranking: int, owner: int) -> None:
    """Keeps the greatest candidates of each window that a range may ask for, and raises the cutoffs."""
    try:
        cutoffs = owner_cutoffs(db, ranking, owner)
    except RowCorrupt:
        cutoffs = Cutoffs()
        rank_again(db, ranking)  # what they were is read from the rows
    newest = newest_day(db, ranking, cutoffs, owner)
    reached = [max(-DAY_S, (newest - days + 1) * DAY_S) for days in DAYS]
    floors = [_first_beyond(db, ranking, owner, number, since) for number, since in zip(_NUMBERS, reached, strict=True)]
    stays: list[str] = []
    values: list[int | str] = [ranking, owner]
    for number, since, (most, key) in zip(_NUMBERS, reached, floors, strict=True):
        stays.append(f"{_LAST} >= ? AND ({number} > ? OR {number} = ? AND key < ?)")
        values += [since, most, most, key]
    going = f"FROM leaders WHERE ranking = ? AND owner = ? AND NOT ({' OR '.join(stays)})"
    days = {min(last // DAY_S, newest) for (last,) in db.execute(f"SELECT {_LAST} {going}", values)}
    db.execute(f"DELETE {going}", values)
    left, data = _number_of_candidates(db, ranking, owner), cutoffs.raised(days, floors, newest).to_bytes()
    db.execute("REPLACE INTO bars (ranking, owner, leaders, bars) VALUES (?, ?, ?, ?)", (ranking, owner, left, data))


def newest_day(db: sqlite3.Connection, ranking: int, cutoffs: Cutoffs, owner: int) -> int:
    """Returns the day of the last hit that an owner's rows know of, leaving out unreadable rows."""
    query = f"SELECT max({_LAST}) FROM leaders WHERE ranking = ? AND owner = ? AND {_LAST} < ?"
    (last,) = db.execute(query, (ranking, owner, MOST)).fetchone()
    return cutoffs.newest if last is None else max(cutoffs.newest, last // DAY_S)


def _first_beyond(db: sqlite3.Connection, ranking: int, owner: int, number: str, since: int) -> Place:
    """Returns the first place that is not among the KEPT greatest."""
    query = (
        f"SELECT {number}, key FROM leaders WHERE ranking = ? AND owner = ? AND {_LAST} >= ? AND {number} > 0"
        f" ORDER BY {number} DESC, key LIMIT 1 OFFSET {KEPT}"
    )
    return db.execute(query, (ranking, owner, since)).fetchone() or NOBODY
