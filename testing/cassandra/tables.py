"""Makes tables, and says what a node tells of them: their sizes, and whether their files hold what was deleted."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clickcurve.buckets.ladder import CLICKS
from storage.cassandra.schema import apply_schema
from storage.cassandra.session import connect
from storage.cassandra.uri import parse
from testing.cassandra import jvm
from testing.cassandra.node import Node

_NONE_DELETED = re.compile(r"^SSTable min local deletion time: no tombstones", re.MULTILINE)


def make_tables(uri: str, replication: int = 1) -> None:
    """Does what `clickcurve schema apply` does."""
    session = connect(parse(uri))
    try:
        apply_schema(session, CLICKS, replication)
    finally:
        session.close()


@dataclass(frozen=True, slots=True)
class TableStats:
    """Of one table, by `nodetool tablestats`. Partition sizes come in steps of a fifth, each named by its upper end.

    Tombstones are those per slice that was read in the last five minutes; the least that Cassandra shows is 1.
    """

    files: int
    disk_bytes: int
    partitions: int  # an estimate
    largest_bytes: int
    mean_bytes: int
    tombstones_mean: float
    tombstones_max: int


def table_stats(node: Node, keyspace: str) -> dict[str, TableStats]:
    """By table, as of the last flush to disk."""
    answer = json.loads(node.nodetool("tablestats", "-F", "json", keyspace))
    return {
        name: TableStats(
            files=told["sstable_count"],
            disk_bytes=int(told["space_used_live"]),
            partitions=told["number_of_partitions_estimate"],
            largest_bytes=told["compacted_partition_maximum_bytes"],
            mean_bytes=told["compacted_partition_mean_bytes"],
            tombstones_mean=_number(told["average_tombstones_per_slice_last_five_minutes"]),
            tombstones_max=told["maximum_tombstones_per_slice_last_five_minutes"],
        )
        for name, told in answer[keyspace]["tables"].items()
    }


def _number(told: float | str) -> float:
    value = float(told)
    return 0.0 if math.isnan(value) else value


def tables_with_deletions(node: Node, keyspace: str, *tables: str) -> set[str]:
    """Those of the tables whose files hold a tombstone, or anything that expires, as of the last flush to disk."""
    files = [file for table in tables for file in _data_files(node, keyspace, table)]
    command = jvm.sstablemetadata(node.place.folder, files)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"sstablemetadata:\n{done.stdout}{done.stderr}"
    told = done.stdout.split("\nSSTable: ")
    assert len(told) == len(files), done.stdout
    return {_table_of(file) for file, each in zip(files, told, strict=True) if not _NONE_DELETED.search(each)}


def _data_files(node: Node, keyspace: str, table: str) -> Iterator[Path]:
    listed = sorted((node.place.folder / "data" / keyspace).glob(f"{table}-*/*-Data.db"))
    assert listed, f"{keyspace}.{table} has no files: flush it first"
    yield from listed


def _table_of(file: Path) -> str:
    return file.parent.name.rpartition("-")[0]
