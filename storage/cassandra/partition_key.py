"""How keys stand in tables."""

from __future__ import annotations

from zlib import crc32

SHARDS = 16  # of a day in due and touched

_EMPTY = "\0"  # no stored key: those of links begin with two NULs or none, those of namespaces have a word behind


def partition_key(key: str) -> str:
    """A partition key cannot be empty, as that of the row of all links is."""
    return key or _EMPTY


def stored_key_of(stored: str) -> str:
    return "" if stored == _EMPTY else stored


def shard_of(stored: str) -> int:
    return crc32(stored.encode()) % SHARDS
