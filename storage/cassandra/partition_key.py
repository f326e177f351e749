"""Keys as the tables have them."""

from __future__ import annotations

from zlib import crc32

SHARDS = 16  # of a day in due and touched

_EMPTY = "\0"  # not a stored key: links' keys begin with two NULs or none, namespaces' have a word after the first


def partition_key(key: str) -> str:
    """Returns a stored key as tables have it: the empty one, of the row of all links, cannot be a partition key."""
    return key or _EMPTY


def stored_key_of(partition: str) -> str:
    return "" if partition == _EMPTY else partition


def shard_of(partition: str) -> int:
    return crc32(partition.encode()) % SHARDS
