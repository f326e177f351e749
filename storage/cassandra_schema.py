"""The tables of a Clickcurve keyspace, as text.

A partition holds one link: a packed row for each owner, each in one cell. A cell is written whole, with a pinned stamp,
so that any version of it is a whole row as of its mark, repeats change nothing, and a newer epoch wins over anything
late from an older one. Nothing in `rows` is ever deleted or expires: it has no tombstones.
"""

from __future__ import annotations

VERSION = 1  # of the tables below
SHARDS = 16  # of a day in due and touched: zlib.crc32 of the key's UTF-8, modulo

TOUCHED_DAYS_KEPT = 40
ERASURES_KEPT_S = 7 * 86_400

_DAY_S = 86_400

TABLES: dict[str, str] = {
    # owner > 0: `data` is that owner's packed row. owner 0: `erased_at`, epoch microseconds, stamped with itself, so
    # that the latest wins. The row of all links together has the key \0, because a partition key cannot be empty.
    "rows": """
CREATE TABLE IF NOT EXISTS rows (
    short_key text,
    owner int,
    data blob,
    erased_at bigint,
    PRIMARY KEY ((short_key), owner)
)""",
    # Changed by conditional updates only.
    "owners": """
CREATE TABLE IF NOT EXISTS owners (
    owner int PRIMARY KEY,
    epoch int,
    holder text,
    journal text,
    place text,
    state text,
    begun bigint,
    begun_at bigint
)""",
    # claims: (owner, flush, accepted_us) of each. Changed by conditional updates only, each with a time to live.
    "ids": """
CREATE TABLE IF NOT EXISTS ids (
    id text PRIMARY KEY,
    claims frozen<list<frozen<tuple<int, bigint, bigint>>>>
)""",
    # Changed by conditional updates only.
    "sources": """
CREATE TABLE IF NOT EXISTS sources (
    source text PRIMARY KEY,
    owner int,
    epoch int,
    position bigint,
    tail text
)""",
    # From which fold day on which own rows are to be folded: a hint, deleted by the partition once visited.
    "due": """
CREATE TABLE IF NOT EXISTS due (
    owner int,
    day int,
    shard int,
    short_key text,
    PRIMARY KEY ((owner, day, shard), short_key)
)""",
    "due_days": """
CREATE TABLE IF NOT EXISTS due_days (
    owner int,
    day int,
    PRIMARY KEY ((owner), day)
)""",
    # Which links had hits on which fold day: for listing, never for correctness.
    "touched": """
CREATE TABLE IF NOT EXISTS touched (
    day int,
    shard int,
    short_key text,
    PRIMARY KEY ((day, shard), short_key)
)""",
    # Recent erasures by when they were logged, so that no cache of own rows hides one. Times are the cluster's.
    "erasures": """
CREATE TABLE IF NOT EXISTS erasures (
    hour int,
    logged_us bigint,
    short_key text,
    PRIMARY KEY ((hour), logged_us, short_key)
)""",
    "meta": """
CREATE TABLE IF NOT EXISTS meta (
    name text PRIMARY KEY,
    value text
)""",
}
