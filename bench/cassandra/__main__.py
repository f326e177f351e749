"""Measures the Cassandra store on nodes that are started for it: `make bench ARGS=cassandra`, or parts by their names:

python -m bench.cassandra flush hot_link --rounds 3
"""

from __future__ import annotations

from bench.cassandra.flush import attributes, flush
from bench.cassandra.hot_link import hot_link
from bench.cassandra.journals import journals
from bench.cassandra.month import month
from bench.cassandra.node import on_nodes
from bench.cassandra.reads import reads
from bench.cassandra.writes import writes
from bench.command import Part, run

PARTS: dict[str, Part] = {
    "flush": on_nodes(1, flush),
    "hot_link": on_nodes(1, hot_link),
    "attributes": on_nodes(1, attributes),
    "reads": on_nodes(1, reads),
    "writes": writes,
    "month": on_nodes(1, month),
    "ring": on_nodes(3, flush),
    "journals": on_nodes(1, journals),
    "journals_ring": on_nodes(3, journals),
}

if __name__ == "__main__":
    run(__doc__, PARTS)
