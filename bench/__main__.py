"""Measures a real server over HTTP, the limiter and the Cassandra store: `make bench ARGS="ingest --rounds 3"`."""

from __future__ import annotations

from bench import ingest, page, reads
from bench.cassandra.__main__ import PARTS as CASSANDRA
from bench.command import Part, run, together
from bench.limiter.__main__ import PARTS as LIMITER
from bench.micro import rows

PARTS: dict[str, Part] = {
    "rows": rows.typical_rows,
    "ingest": ingest.ingest,
    "workers": ingest.workers,
    "page": page.page,
    "reads": reads.reads,
    "breakdowns": reads.breakdowns,
    "limiter": together(LIMITER),
    "cassandra": together(CASSANDRA),
}

if __name__ == "__main__":
    run(__doc__, PARTS)
