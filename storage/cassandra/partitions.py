"""Keys as partitions have them, and a walk through a whole table in the cluster's own order.

That order is by the token of the key, then by the key.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby
from operator import itemgetter
from zlib import crc32

from storage.cassandra.cql import Cql, Rows, Statement

SHARDS = 16  # of a day in due and touched

_EMPTY = "\0"  # not a stored key: links' keys begin with two NULs or none, namespaces' have a word after the first


def partition_key(key: str) -> str:
    """Returns a stored key as tables have it: the empty one, of the row of all links, cannot be a partition key."""
    return key or _EMPTY


def stored_key_of(partition: str) -> str:
    return "" if partition == _EMPTY else partition


def shard_of(partition: str) -> int:
    return crc32(partition.encode()) % SHARDS


def partitions(
    cql: Cql, first: Statement, further: Statement, after: str | None, size: int
) -> Iterator[tuple[str, Rows]]:
    """Yields each key after `after` (None: from the first) with all its rows, read in pages of `size` rows.

    Rows begin with their token and key. `further` selects from the token of a key on, including that token, because
    several keys may have it.
    """
    pages = cql.pages(first, (), size) if after is None else cql.pages(further, (after,), size)
    by_token = groupby(chain.from_iterable(pages), itemgetter(0))
    for number, (_, rows) in enumerate(by_token):
        found = [(key, list(some)) for key, some in groupby(rows, itemgetter(1))]
        yield from found if number or after is None else _keys_after(found, after)


def _keys_after(found: list[tuple[str, Rows]], after: str) -> list[tuple[str, Rows]]:
    """Returns those after `after` of the keys with the first token that was read; all if `after` is gone."""
    keys = [key for key, _ in found]
    return found[keys.index(after) + 1 :] if after in keys else found
