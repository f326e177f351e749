"""The tables of an SQLite file: rows are looked up by key, walked through in pages and saved; small tables are read.

A statement takes a fixed number of keys or rows, so that it is prepared once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, replace
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from clickcurve.buckets.prefixes import after_prefix
from clickcurve.keys import BREAKDOWN_KEYS, counts_key
from clickcurve.row_kinds.table import kind_of
from storage.contract import OwnerRecord, SavedRow, Source, StoredLink, StoredRow
from storage.sqlite.file import NOTE

KEYS_PER_QUERY = 100
MANY = f"({','.join('?' * KEYS_PER_QUERY)})"

# Many rows in one statement take two thirds of the processor time, and other threads get Python's lock while it runs:
# between rows that were saved one by one a request that woke the loop waited for up to 5 ms.
ROWS_PER_STATEMENT = 200
_ROW = "(?, ?, ?, ?)"
_SAVE_SOME = (
    "INSERT INTO rows (key, owner, due_day, data) VALUES {}"
    " ON CONFLICT (key, owner) DO UPDATE SET due_day = excluded.due_day, data = excluded.data"
)
_SAVE, _SAVE_MANY = _SAVE_SOME.format(_ROW), _SAVE_SOME.format(", ".join([_ROW] * ROWS_PER_STATEMENT))
_ERASED = f"SELECT key, at_us FROM erased WHERE key IN {MANY}"
_ROWS = f"SELECT key, owner, data FROM rows WHERE key IN {MANY} ORDER BY key, owner"
_WALK = (
    "SELECT key, owner, data, at_us FROM rows LEFT JOIN erased USING (key)"
    " WHERE key >= ? AND key < ? ORDER BY key, owner"
)
_OWNERS = "SELECT owner, epoch, holder, journal, place, state, begun, begun_at FROM owners"
END = b""  # any text is less than any blob
KEYS_PER_LOOK = 20_000
_LOOK_END = "SELECT key FROM rows WHERE key >= ? AND key < ? ORDER BY key LIMIT 1 OFFSET ?"
_CONTAINING = "SELECT DISTINCT key FROM rows WHERE key >= ? AND key < ? AND instr(lower(key), ?) ORDER BY key"
_COUNT = "SELECT count(*) FROM rows"
_COUNT_BREAKDOWNS = "SELECT count(*) FROM rows WHERE key >= ? AND key < ?"


def links_of(db: sqlite3.Connection, keys: Sequence[str]) -> dict[str, StoredLink]:
    """Returns everything stored of these keys, without those that have neither rows nor an erasure."""
    rows: dict[str, list[StoredRow]] = {}
    for key, owner, data in each_of(db, _ROWS, keys):
        rows.setdefault(key, []).append(StoredRow(owner, data))
    erased = erasures_of(db, keys)
    return {key: StoredLink(erased.get(key, 0), tuple(rows.get(key, ()))) for key in {**rows, **erased}}


def erasures_of(db: sqlite3.Connection, keys: Sequence[str]) -> dict[str, int]:
    """Returns when each of these keys was erased, without those that never were; a breakdown was with its link."""
    erased: dict[str, int] = dict(each_of(db, _ERASED, sorted({counts_key(key) for key in keys})))
    return {key: erased[counts_key(key)] for key in keys if counts_key(key) in erased} if erased else {}


def slices(values: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def each_of(db: sqlite3.Connection, query: str, values: Sequence[str], *more: int) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of a query with `IN MANY`, for any number of values.

    The last chunk is filled up with its last value, so that one prepared statement serves all.
    """
    for some in slices(values, KEYS_PER_QUERY):
        filling = [some[-1]] * (KEYS_PER_QUERY - len(some))
        yield from db.execute(query, (*some, *filling, *more))


def save_rows(db: sqlite3.Connection, owner: int, rows: Mapping[str, SavedRow]) -> None:
    for keys in slices(sorted(rows), ROWS_PER_STATEMENT):
        some = [(key, owner, row.due_day, row.whole) for key in keys for row in (rows[key],)]
        if len(some) == ROWS_PER_STATEMENT:
            db.execute(_SAVE_MANY, [*chain.from_iterable(some)])
        else:
            db.executemany(_SAVE, some)


def walk_counts(db: sqlite3.Connection, start: str, limit: int) -> list[tuple[str, StoredLink]]:
    """Reads a page of rows of counts: breakdowns lie between two of them, all in one place, and are not looked at."""
    first, beyond = BREAKDOWN_KEYS
    page = walk(db, start, limit, first) if start < first else []
    if len(page) < limit:
        page += walk(db, max(start, beyond), limit - len(page))
    return page


def keys_containing(
    db: sqlite3.Connection, text: str, start: str, most: int, prefix: str
) -> tuple[list[str], str | None]:
    """Looks at `most` keys of a prefix's counts from `start` on for those that contain a text, in lower case.

    Returns them, and the last key that was looked at; None at the end.
    """
    first, beyond = BREAKDOWN_KEYS
    start, end = max(start, prefix), after_prefix(prefix)
    parts: list[tuple[str, str | bytes]] = [(start, first if end is None else min(first, end))] if start < first else []
    matching: list[str] = []
    for low, high in (*parts, (max(start, beyond), END if end is None else end)):
        (last,) = db.execute(_LOOK_END, (low, high, most - 1)).fetchone() or (None,)
        matching += (key for (key,) in db.execute(_CONTAINING, (low, high if last is None else f"{last}\0", text)))
        if last is not None:
            break
    return matching, last


def walk(db: sqlite3.Connection, start: str, limit: int, before: str | bytes = END) -> list[tuple[str, StoredLink]]:
    """Reads a page and no more: the rows come one by one, and what the cursor sees ends with it."""
    links: list[tuple[str, StoredLink]] = []
    with closing(db.execute(_WALK, (start, before))) as cursor:
        for key, rows_of_key in groupby(cursor, itemgetter(0)):
            if len(links) == limit:
                break
            rows = list(rows_of_key)
            links.append((key, StoredLink(rows[0][3] or 0, tuple([StoredRow(row[1], row[2]) for row in rows]))))
    if erased := erasures_of(db, [key for key, _ in links if kind_of(key).beside_counts]):
        links = [(key, replace(link, erased_at=erased.get(key, link.erased_at))) for key, link in links]
    return links


def count_rows(db: sqlite3.Connection, breakdowns: bool) -> int:
    """Returns how many rows there are. Reads the keys of all of them."""
    (rows,) = db.execute(_COUNT).fetchone()
    (of_breakdowns,) = (0,) if breakdowns else db.execute(_COUNT_BREAKDOWNS, BREAKDOWN_KEYS).fetchone()
    return int(rows - of_breakdowns)


# --- owners, sources, notes -----------------------------------------------------------------------------------------
def owner_records(db: sqlite3.Connection) -> list[OwnerRecord]:
    return [OwnerRecord(*record) for record in db.execute(f"{_OWNERS} ORDER BY owner")]


def owner_record(db: sqlite3.Connection, owner: int) -> OwnerRecord | None:
    record = db.execute(f"{_OWNERS} WHERE owner = ?", (owner,)).fetchone()
    return OwnerRecord(*record) if record is not None else None


def source_of(db: sqlite3.Connection, source: str) -> Source | None:
    row = db.execute("SELECT owner, position, tail, epoch FROM sources WHERE source = ?", (source,)).fetchone()
    return Source(*row) if row is not None else None


def put_source(db: sqlite3.Connection, name: str, source: Source | None) -> None:
    if source is not None:
        query = "REPLACE INTO sources (source, owner, position, tail, epoch) VALUES (?, ?, ?, ?, ?)"
        db.execute(query, (name, *astuple(source)))


def notes_of(db: sqlite3.Connection, prefix: str = "") -> dict[str, str]:
    """Returns the notes whose names begin with a prefix; the names of all others are not looked at."""
    first = NOTE + prefix
    rows = db.execute("SELECT name, value FROM meta WHERE name >= ? AND name < ?", (first, after_prefix(first)))
    return {name.removeprefix(NOTE): value for name, value in rows}


def noted_in(db: sqlite3.Connection, name: str) -> str | None:
    (value,) = db.execute("SELECT value FROM meta WHERE name = ?", (NOTE + name,)).fetchone() or (None,)
    return value
