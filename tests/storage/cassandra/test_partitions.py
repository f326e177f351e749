"""Going through a whole table, in the cluster's order."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

from storage.cassandra.cql import Cql, Rows, Statement, StatementKind
from storage.cassandra.partitions import partitions


def test_a_walk_goes_through_keys_with_one_token_too() -> None:
    """Two keys share a token by chance once in centuries, but anybody can choose keys that do."""
    table: Rows = [(-5, "m", 1), (3, "a", 1), (3, "a", 2), (3, "b", 1), (3, "c", 1), (9, "b2", 1)]
    tokens = {key: token for token, key, _ in table}

    def pages(statement: Statement, values: tuple[object, ...], size: int) -> Iterator[Rows]:
        least = tokens[str(values[0])] if values else -100
        found = [row for row in table if row[0] >= least]
        return iter([found[at : at + size] for at in range(0, len(found), size)])

    cluster = cast(Cql, SimpleNamespace(pages=pages))
    walk = Statement("WALK", "", StatementKind.READ)
    for size in (1, 2, 100):
        after: str | None = None
        seen = []
        while found := next(partitions(cluster, walk, walk, after, size), None):
            after = found[0]
            seen.append((found[0], len(found[1])))
        assert seen == [("m", 1), ("a", 2), ("b", 1), ("c", 1), ("b2", 1)]
