"""Measures a real server over HTTP, the limiter, stores, parts of the program: `make bench ARGS="ingest --rounds 3"`.

Without a word: what `make bench` measures. `micro` is in one process: processor time, medians. `--scale 0.1` takes a
tenth of its sizes. `limiter` stands next to three libraries; `cassandra` starts nodes. `peers` and `scale` write their
figures into a sheet (`--sheet FILE`), and `render.performance` and `render.scale` make the pages in docs/ of it.
"""

from __future__ import annotations

import gc
from functools import partial

from bench import ingest, limiter, reads, rows
from bench.cassandra import flush, hot_link, month, over_http, writes
from bench.cassandra.node import on_nodes
from bench.command import Part, run
from bench.micro import agents, attributes, breakdown, corrections, events, fast_paths, growth, resting
from bench.peers import measure as peers
from bench.peers import report
from bench.scale import cluster, one_machine
from server.app.run import COLLECTED

PARTS: dict[str, Part] = {
    "rows": rows.typical_rows,
    "ingest": ingest.ingest,
    "workers": ingest.workers,
    "page": reads.page,
    "reads": reads.reads,
    "breakdowns": reads.breakdowns,
    "limiter.memory": partial(limiter.decisions, "memory"),
    "limiter.redis": partial(limiter.decisions, "redis"),
    "limiter.memcached": partial(limiter.decisions, "memcached"),
    "limiter.bytes": limiter.bytes_per_key,
    "cassandra.flush": on_nodes(1, flush.flush),
    "cassandra.hot_link": on_nodes(1, hot_link.hot_link),
    "cassandra.attributes": on_nodes(1, flush.attributes),
    "cassandra.writes": writes.writes,
    "cassandra.month": on_nodes(1, month.month),
    "cassandra.ring": on_nodes(3, flush.flush),
    "cassandra.journals": on_nodes(1, over_http.journals),
    "cassandra.journals_ring": on_nodes(3, over_http.journals),
    "micro.agents": agents.agents,
    "micro.parse": attributes.parse,
    "micro.attributes": attributes.attributes,
    "micro.row_codec": rows.row_codec,
    "micro.heavy_hitters": breakdown.heavy_hitters,
    "micro.breakdown_file": breakdown.breakdown_file,
    "micro.corrections": corrections.corrections,
    "micro.events": events.events,
    "micro.ranking": growth.ranking,
    "micro.growth": growth.growth,
    "micro.resting": resting.resting,
    "micro.fast_paths": fast_paths.fast_paths,
    "micro.fast_paths_remote": fast_paths.fast_paths_remote,
    "peers.rates": peers.rates,
    "peers.stores": peers.stores,
    "scale.simulate": cluster.simulate,
    "scale.size": one_machine.size,
    "render.performance": report.render,
    "render.scale": one_machine.render,
}
USUAL = ("rows", "ingest", "workers", "page", "reads", "breakdowns", "limiter", "cassandra")

if __name__ == "__main__":
    gc.set_threshold(*COLLECTED)  # as in a server
    run(PARTS, usual=USUAL, said=__doc__)
