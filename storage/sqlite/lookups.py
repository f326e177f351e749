"""Looking up many keys of an SQLite file, a fixed number in each statement, so that it is prepared once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from clickcurve.keys import counts_key
from storage.contract import StoredLink, StoredRow

KEYS_PER_QUERY = 100
MANY = f"({','.join('?' * KEYS_PER_QUERY)})"

_ERASED = f"SELECT key, at_us FROM erased WHERE key IN {MANY}"
_ROWS = f"SELECT key, owner, data FROM rows WHERE key IN {MANY} ORDER BY key, owner"


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
