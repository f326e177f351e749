"""A month of a link that ten owners count, among ordinary ones: what `nodetool tablestats` says of it afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from time import perf_counter

from bench.cassandra.node import make_keyspace
from bench.command import Options
from bench.measure import Line
from clickcurve.keys import link_key
from storage.cassandra.requests import Requests
from storage.cassandra.session import connect
from storage.cassandra.statements import STATEMENTS
from storage.cassandra.store import CassandraStore
from storage.cassandra.uri import parse
from testing.cassandra.counted import Counted
from testing.cassandra.month import VIRAL, Month, Plan
from testing.cassandra.node import Node
from testing.cassandra.tables import table_stats, tables_with_deletions

KEYSPACE = "month"
PLAN = Plan()


def month(nodes: Sequence[Node], options: Options) -> Iterator[Line]:
    """The month, flushed and compacted. Raises RuntimeError if `rows` holds a tombstone."""
    (node,) = nodes
    with closing(_connected(make_keyspace(nodes, KEYSPACE))) as connected:
        counted = Counted(connected)
        begun = perf_counter()
        done = asyncio.run(Month(PLAN, options.folder / "month", lambda: counted).pass_by())
        took_s = perf_counter() - begun
        node.nodetool("flush", KEYSPACE)
        flushed = table_stats(node, KEYSPACE)["rows"]
        node.nodetool("compact", KEYSPACE)
        row_bytes = _read_all(CassandraStore(counted))
        compacted = table_stats(node, KEYSPACE)["rows"]
    deleted_in = tables_with_deletions(node, KEYSPACE, "rows", "due")
    if "rows" in deleted_in:
        raise RuntimeError("rows holds tombstones")
    visited = f"{done.flushes:,} flushes, {done.visited:,} quiet rows visited by {PLAN.days * PLAN.owners} passes"
    what = f"a month of {PLAN.owners} owners, {PLAN.links:,} links and one that all count"
    yield Line(what, f"{took_s:.0f} s", visited)
    yield Line("... bytes of that link's rows", f"{sum(row_bytes):,} B", f"{max(row_bytes):,} B the largest")
    for what, stats in (("flushed to disk", flushed), ("compacted", compacted)):
        yield Line(f"... rows, {what}", f"{stats.disk_bytes / 1e6:.2f} MB", f"{stats.files} files")
    partitions = f"mean {compacted.mean_bytes:,} B, {compacted.partitions:,} partitions"
    yield Line("... largest partition of rows", f"{compacted.largest_bytes:,} B", partitions)
    tombstones = f"mean {compacted.tombstones_mean:.1f} max {compacted.tombstones_max}"
    where = f"files with tombstones by sstablemetadata: {', '.join(sorted(deleted_in)) or 'none'}, not rows"
    yield Line("... tombstones a slice, all links read (1 is the least shown)", tombstones, where)


def _connected(uri: str) -> Requests:
    """Returns a connection to such a keyspace, ready for the store's statements."""
    address = parse(uri)
    session = connect(address)
    session.use(STATEMENTS.values())
    return Requests(lambda: session, address.in_flight)


def _read_all(store: CassandraStore) -> list[int]:
    """Reads every partition, so that tablestats has slices to tell of; bytes of the viral link's rows."""
    after = None
    while page := store.walk(after, 1_000):
        after = page[-1][0]
    return [len(row.data) for row in asyncio.run(store.rows(link_key(VIRAL))).rows]
