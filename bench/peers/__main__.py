"""Measures Clickcurve beside other stores, into a file of figures; `render` makes the page and plots of it.

python -m bench.peers --links 1000 --hits 100000 --rounds 1 --out FIGURES.json
python -m bench.peers render FIGURES.json docs/
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import time
from typing import Any

from bench.command import circumstances
from bench.peers import measure
from bench.peers.graphite import Graphite, Statsd
from bench.peers.hits import prepare
from bench.peers.in_process import ClickHouse, DuckDb, SqliteHours, SqliteRows
from bench.peers.over_http import Influx, OwnPeer, Victoria
from bench.peers.peer import Peer
from bench.peers.report import render
from bench.workload import Workload

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
DAYS = 400
Figures = dict[str, Any]


def main() -> None:
    if sys.argv[1:2] == ["render"]:
        sheet, docs = map(Path, sys.argv[2:])
        print(*render(json.loads(sheet.read_text()), docs), sep="\n")
        return
    asked = ArgumentParser(prog="make bench-peers", description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    asked.add_argument("--parts", nargs="+", choices=PARTS, default=tuple(PARTS))
    asked.add_argument("--peers", nargs="+", choices=tuple(PEERS), default=tuple(PEERS))
    asked.add_argument("--links", type=int, default=100_000)
    asked.add_argument("--hits", type=int, default=10_000_000)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--seconds", type=float, default=1.0, help="of each round")
    asked.add_argument("--growth", type=int, nargs="+", default=measure.SIZES, help="links, 10000000 at most")
    asked.add_argument("--out", type=Path, default=Path("peers.json"), help="where the figures go")
    given = asked.parse_args()
    figures: Figures = json.loads(given.out.read_text()) if given.out.exists() else {"peers": {}}
    sizes = {name: getattr(given, name) for name in ("links", "hits", "rounds", "seconds")}
    begun = time()
    with tempfile.TemporaryDirectory(prefix="clickcurve-peers-") as folder:
        for part in given.parts:
            started = time()
            for step in PARTS[part](Path(folder), given, figures):
                figures[part] = {**circumstances(), "took_s": round(time() - started), "days": DAYS, **sizes}
                given.out.write_text(json.dumps(figures, indent=1) + "\n")
                print(f"{time() - begun:4.0f} s  {step}", flush=True)
    print(f"figures: {given.out}; page and plots: python -m bench.peers render {given.out} docs/")


def _rates(folder: Path, given: Namespace, figures: Figures) -> Iterator[str]:
    kinds = [PEERS[name] for name in given.peers]
    for name, found in measure.rates(folder, kinds, _workload(given), given.rounds, given.seconds).items():
        figures["peers"].setdefault(name, {}).update(found)
    yield "rates of all, in turn"


def _stores(folder: Path, given: Namespace, figures: Figures) -> Iterator[str]:
    workload = _workload(given)
    feed = prepare(folder / "feed", workload)
    yield f"{workload.hits:,} hits of {workload.links:,} links, in files"
    for name in given.peers:
        kind, place = PEERS[name], folder / name
        found = measure.store(place, kind, feed, given.rounds, given.seconds)
        figures["peers"].setdefault(kind.name, {}).update(found)
        shutil.rmtree(place)
        yield f"store of {name}"


def _growth(folder: Path, given: Namespace, figures: Figures) -> Iterator[str]:
    figures["sizes"] = []
    for links in given.growth:
        figures["sizes"].append(measure.growth(folder / f"growth-{links}", links, given.rounds, given.seconds))
        yield f"growth, {links:,} links"


PARTS: dict[str, Callable[[Path, Namespace, Figures], Iterator[str]]] = {
    "rates": _rates,
    "stores": _stores,
    "growth": _growth,
}


def _workload(given: Namespace) -> Workload:
    return Workload(given.links, given.hits, DAYS, int(time()) // 3_600 * 3_600)


if __name__ == "__main__":
    main()
