"""Candidates in an SQLite file, the few links with the greatest upper bounds, and the cutoffs of all others.

They are kept for all links, and for the links of some prefixes: each of these rankings has its own. They are written
with the rows of a flush, and candidates are dropped when there are too many.

A link some hits of which are called bots ranks by what is left of all its owners' rows together: it has one candidate,
of JOINED in place of an owner, made anew whenever any of the rows is saved, and JOINED has cutoffs as an owner has.
Candidates that go because of that leave the cutoffs behind, of links that lead no more: after ROOM of them the ranking
is made anew, or nobody could tell which of the others lead now.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from clickcurve.buckets.candidates import DAYS, KEPT, NOBODY, ROOM, Cutoffs, Place
from clickcurve.buckets.corrected_bounds import corrected_bounds_in
from clickcurve.buckets.errors import RowCorrupt
from clickcurve.buckets.ladder import DAY_S, Ladder
from clickcurve.buckets.prefixes import ALL_KEYS, Prefixes
from clickcurve.buckets.upper_bounds import MOST, UpperBounds
from clickcurve.keys import corrected_key, counts_a_link, moved_key
from clickcurve.row_kinds.table import corrected_by
from storage.contract import SavedRow, StoredLink
from storage.rankings import JOINED
from storage.sqlite.file import BOUND_COLUMNS, has_corrected_links, has_rankings
from storage.sqlite.tables import MANY, each_of, links_of, slices

COLUMNS = ", ".join(BOUND_COLUMNS)

_LAST, *_NUMBERS = BOUND_COLUMNS
_OF_KEYS = f"SELECT key, owner, {COLUMNS} FROM leaders WHERE key IN {MANY} AND ranking = ?"
_ADD = f"INSERT INTO leaders (ranking, key, owner, {COLUMNS}) VALUES (?, ?, ?, {', '.join('?' * len(BOUND_COLUMNS))})"
_KEYS_PER_DROP = 500
_SAVE_CUTOFFS = (
    "INSERT INTO bars (ranking, owner, leaders, bars) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (ranking, owner) DO UPDATE SET leaders = excluded.leaders, bars = excluded.bars"
)
_OWNERS_OF = f"SELECT owner FROM leaders WHERE key IN {MANY} AND ranking = ? AND owner <> {JOINED}"
_DROP_OWNERS = f"DELETE FROM leaders WHERE key = ? AND ranking = ? AND owner <> {JOINED}"
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
        if counts_a_link(key):
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
    db: sqlite3.Connection, owner: int, rows: Mapping[str, SavedRow], known: KnownRankings | None, ladder: Ladder
) -> None:
    """Makes these rows candidates, or no candidates, as their upper bounds say.

    known: the rankings that the owner's flush knows. A row without bounds may pass a cutoff of any other one.
    """
    there = known_rankings(db, known)
    unknown = {*there.ids.values()} - {*(known.ids.values() if known else (there.ids[ALL_KEYS],))}
    corrected = corrected_bounds(db, [*rows, *corrected_by(rows)], ladder)
    for ranking, keys in _by_ranking(there, [key for key in rows if key not in corrected]).items():
        bounds_by_key = {key: rows[key].upper_bounds for key in keys}
        rank_rows(db, ranking, owner, bounds_by_key)
        if ranking in unknown and None in bounds_by_key.values():
            rank_again(db, ranking)
    rank_corrected(db, there, corrected)


def corrected_bounds(db: sqlite3.Connection, keys: Sequence[str], ladder: Ladder) -> dict[str, UpperBounds]:
    """Returns the upper bounds of those links among these some hits of which are, or were, called bots."""
    if not has_corrected_links(db):
        return {}
    links = {key for key in keys if counts_a_link(key)}
    moved = {corrected_key(key): link for key, link in links_of(db, sorted(map(moved_key, links))).items() if link.rows}
    counted = links_of(db, sorted(moved))
    return {key: corrected_bounds_in(counted.get(key, StoredLink(0, ())), moved[key], ladder) for key in moved}


def rank_corrected(db: sqlite3.Connection, known: KnownRankings, bounds_by_key: Mapping[str, UpperBounds]) -> None:
    """Makes links, given with their upper bounds, candidates as a whole, or no candidates, in all rankings."""
    for ranking, keys in _by_ranking(known, [*bounds_by_key]).items():
        gone = Counter(owner for (owner,) in each_of(db, _OWNERS_OF, sorted(keys), ranking))
        if gone:
            db.executemany(_DROP_OWNERS, [(key, ranking) for key in keys])
            changes = [(count, ranking, owner) for owner, count in gone.items()]
            db.executemany("UPDATE bars SET gone = gone + ? WHERE ranking = ? AND owner = ?", changes)
        rank_rows(db, ranking, JOINED, {key: bounds_by_key[key] for key in keys})
        if gone and db.execute(f"SELECT 1 FROM bars WHERE ranking = ? AND gone > {ROOM}", (ranking,)).fetchone():
            _begin_anew(db, ranking)


def _begin_anew(db: sqlite3.Connection, ranking: int) -> None:
    """Makes `rank_some` rank all rows of a ranking without the cutoffs that it has.

    It gets another id: so a flush that knows of those notices.
    """
    (prefix,) = db.execute("SELECT prefix FROM rankings WHERE id = ?", (ranking,)).fetchone()
    drop_ranking(db, ranking)
    db.execute("INSERT INTO rankings (prefix, unranked_after) VALUES (?, '')", (prefix,))


def drop_ranking(db: sqlite3.Connection, ranking: int) -> None:
    """Forgets a ranking with its candidates and cutoffs."""
    for table, column in (("leaders", "ranking"), ("bars", "ranking"), ("rankings", "id")):
        db.execute(f"DELETE FROM {table} WHERE {column} = ?", (ranking,))


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
    db.execute(_SAVE_CUTOFFS, (ranking, owner, left, data))


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
