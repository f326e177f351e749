"""Keys and rows as partitions have them, and a walk through a whole table in the cluster's own order.

That order is by the token of the key, then by the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, groupby
from operator import itemgetter
from zlib import crc32

from clickcurve.keys import breakdown_of, counts_key
from storage.cassandra.cql import Cql, Rows, Statement, Values
from storage.cassandra.statements import SAVE, SAVE_BOTH, SAVE_BY, SAVE_OPEN
from storage.contract import SavedRow, StoredLink, StoredRow

SHARDS = 16  # of a day in due and touched

_EMPTY = "\0"  # not a stored key: links' keys begin with two NULs or none, namespaces' have a word after the first


def partition_key(key: str) -> str:
    """Returns a stored key as tables have it: the empty one, of the row of all links, cannot be a partition key."""
    return key or _EMPTY


def partition_of(key: str) -> str:
    """Returns the partition that holds the row of a stored key: a breakdown is in that of its counts."""
    return partition_key(counts_key(key))


def stored_key_of(partition: str) -> str:
    return "" if partition == _EMPTY else partition


def shard_of(partition: str) -> int:
    return crc32(partition.encode()) % SHARDS


def partitions(
    cql: Cql, first: Statement, further: Statement, after: str | None, size: int
) -> Iterator[tuple[str, Rows]]:
    """Yields each key after `after` (None: from the first) with all its rows, read in pages of `size` rows.

    The rows that are selected begin with their token and key, which are left out. `further` selects from the token of a
    key on, including that token, because several keys may have it.
    """
    pages = cql.pages(first, (), size) if after is None else cql.pages(further, (after,), size)
    by_token = groupby(chain.from_iterable(pages), itemgetter(0))
    for number, (_, rows) in enumerate(by_token):
        complete = [(key, [row[2:] for row in some]) for key, some in groupby(rows, itemgetter(1))]
        yield from complete if number or after is None else _keys_after(complete, after)


def _keys_after(groups: list[tuple[str, Rows]], after: str) -> list[tuple[str, Rows]]:
    """Returns those after `after` of the keys with the first token that was read; all if `after` is gone."""
    keys = [key for key, _ in groups]
    return groups[keys.index(after) + 1 :] if after in keys else groups


# --- what a partition of `rows` holds ---------------------------------------------------------------------------------
def link_of_rows(rows: Rows) -> StoredLink:
    """Returns a partition's rows (owner, data, erased_at) as a link, in their order, without empty ones."""
    erased_at = next((at for owner, _, at in rows if owner == 0 and at is not None), 0)
    return StoredLink(erased_at, tuple([StoredRow(owner, data) for owner, data, _ in rows if data is not None]))


def breakdown_of_rows(rows: Rows) -> StoredLink:
    """Returns the same of a link's breakdown: of rows (owner, by_open, by_closed, erased_at)."""
    return link_of_rows(
        [(owner, None if opened is None else opened + (closed or b""), at) for owner, opened, closed, at in rows]
    )


def both_of_rows(rows: Rows) -> tuple[StoredLink, StoredLink]:
    """Returns the counts and the breakdown in rows (owner, data, by_open, by_closed, erased_at)."""
    counts = [(owner, data, at) for owner, data, _, _, at in rows]
    breakdown = [(owner, opened, closed, at) for owner, _, opened, closed, at in rows]
    return link_of_rows(counts), breakdown_of_rows(breakdown)


def writes_of(rows: Mapping[str, SavedRow], stamp: int, owner: int) -> Iterator[tuple[Statement, list[Values]]]:
    """Yields the writes of these rows by their statements: one write for all that is saved of a link."""
    writes: dict[Statement, list[Values]] = {}
    for key in sorted({counts_key(key) for key in rows}):
        values: Values
        counts, breakdown = rows.get(key), rows.get(breakdown_of(key))
        if breakdown is None:
            assert counts is not None
            statement, values = SAVE, (counts.data,)
        elif counts is None:
            statement, values = SAVE_BY, (breakdown.data, breakdown.closed)
        elif breakdown.closed_stays:
            statement, values = SAVE_OPEN, (counts.data, breakdown.data)
        else:
            statement, values = SAVE_BOTH, (counts.data, breakdown.data, breakdown.closed)
        writes.setdefault(statement, []).append((stamp, *values, partition_key(key), owner))
    yield from writes.items()
