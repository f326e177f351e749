"""Measures Clickcurve beside other stores, into a sheet of figures, of which `report` makes the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from time import time
from typing import Any

from bench.command import Options, circumstances
from bench.measure import Line
from bench.peers import measure
from bench.peers.graphite import Graphite, Statsd
from bench.peers.hits import prepare
from bench.peers.in_process import ClickHouse, DuckDb, SqliteHours, SqliteRows
from bench.peers.over_http import Influx, OwnPeer, Victoria
from bench.peers.peer import Peer

PEERS: dict[str, type[Peer]] = {
    "clickcurve": OwnPeer,
    "victoria-metrics": Victoria,
    "influxdb": Influx,
    "clickhouse": ClickHouse,
    "duckdb": DuckDb,
    "sqlite-rows": SqliteRows,
    "sqlite-hours": SqliteHours,
    "graphite": Graphite,
    "statsd": Statsd,
}


def rates(options: Options) -> Iterator[Line]:
    """Hits a second of all, in turn."""
    kinds, workload = [PEERS[name] for name in options.peers or PEERS], options.workload()
    yield from _noted(options, "rates", measure.rates(options.folder, kinds, workload, options.rounds, options.seconds))


def stores(options: Options) -> Iterator[Line]:
    """The whole workload in each: load, bytes, answers, latencies, memory, and what becomes of hits."""
    feed = prepare(options.folder / "feed", options.workload())
    for name in options.peers or PEERS:
        place, kind = options.folder / name, PEERS[name]
        found = measure.store(place, kind, feed, options.rounds, options.seconds)
        shutil.rmtree(place)
        yield from _noted(options, "stores", {kind.name: found})


def growth(options: Options) -> Iterator[Line]:
    """Clickcurve alone, from few links to many."""
    sizes = options.sheet["sizes"] = list[dict[str, Any]]()
    for links in options.links or measure.SIZES:
        sizes.append(measure.growth(options.folder / str(links), links, options.rounds, options.seconds))
        yield from _noted(options, "growth", {})


def _noted(options: Options, part: str, found: dict[str, dict[str, Any]]) -> Iterator[Line]:
    """Notes the figures of peers in the sheet, and how the part was run; yields what it has noted."""
    workload, peers = options.workload(), options.sheet.setdefault("peers", {})
    for name, figures in found.items():
        peers.setdefault(name, {}).update(figures)
    run = {"rounds": options.rounds, "seconds": options.seconds}
    sizes = {"links": workload.links, "hits": workload.hits, "days": workload.days}
    options.sheet[part] = {**circumstances(), "took_s": round(time() - options.begun), **sizes, **run}
    yield Line(f"{part}: {', '.join(found)}", f"{options.sheet[part]['took_s']} s")
