"""What the first node on a machine needs: Java, the jars, and the classes of a running node, kept for later starts."""

from __future__ import annotations

import tempfile
from pathlib import Path

from testing.cassandra.jars import alone, cache, jars
from testing.cassandra.jvm import loaded_classes
from testing.cassandra.node import Node
from testing.cassandra.ring import place_one

# Statements that make a node load what the tests use: the schema, plain and conditional writes, reads.
_USED = (
    "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
    "CREATE TABLE k.t (a text, b int, c blob, d bigint, PRIMARY KEY (a, b))",
    "UPDATE k.t USING TIMESTAMP 1 SET c = 0x00 WHERE a = 'x' AND b = 1",
    "INSERT INTO k.t (a, b, d) VALUES ('y', 1, 1) IF NOT EXISTS",
    "UPDATE k.t USING TTL 60 SET d = 2 WHERE a = 'y' AND b = 1 IF d = 1",
    "SELECT a, b, c, d FROM k.t WHERE a = 'x' AND b IN (0, 1)",
    "SELECT token(a), a FROM k.t WHERE token(a) > 0 LIMIT 10",
)


def prepare() -> None:
    """Make what is not there yet; nothing is fetched or started a second time. Raises Missing."""
    jars()
    if loaded_classes().exists():
        return
    with alone():
        if not loaded_classes().exists():
            _keep_classes()


def _keep_classes() -> None:
    with tempfile.TemporaryDirectory(dir=cache().parent, prefix=f"{cache().name}.part-") as part:
        made = Path(part) / "loaded.jsa"
        node = Node(place_one(Path(part) / "node"), keep_classes=made)
        try:
            node.start().wait_ready()
            for statement in _USED:
                node.ask(statement)
            node.ask("SELECT a FROM k.t WHERE a = 'x'", "SERIAL")
        finally:
            node.stop()
        made.rename(loaded_classes())


if __name__ == "__main__":
    prepare()
    print(cache())
