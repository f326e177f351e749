"""`make bench-peers`: Clickcurve beside other stores, into a file of figures; `render` makes the page and plots of it.

python -m bench.peers --links 1000 --hits 100000 --rounds 1 --out FIGURES.json
python -m bench.peers render FIGURES.json docs/
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any

from bench.peers import growth, measure
from bench.peers.graphite import Graphite, Statsd
from bench.peers.hits import Feed, prepare
from bench.peers.in_process import ClickHouse, DuckDb, SqliteHours, SqliteRows
from bench.peers.own import OwnPeer
from bench.peers.peer import Missing, Peer
from bench.peers.report import render
from bench.peers.time_series import Influx, Victoria
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
PARTS = ("rates", "stores", "growth")
DAYS = 400


def main() -> None:
    if sys.argv[1:2] == ["render"]:
        _render(sys.argv[2:])
        return
    asked = argparse.ArgumentParser(
        prog="make bench-peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    asked.add_argument("--peers", nargs="+", choices=tuple(PEERS), default=tuple(PEERS))
    asked.add_argument("--links", type=int, default=100_000)
    asked.add_argument("--hits", type=int, default=10_000_000)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--seconds", type=float, default=1.0, help="of each round")
    asked.add_argument("--growth", type=int, nargs="+", default=growth.SIZES, help="numbers of links, 10000000 at most")
    asked.add_argument("--out", type=Path, default=Path("peers.json"), help="where the figures go")
    arguments = asked.parse_args()
    kinds = [PEERS[name] for name in arguments.peers] if set(arguments.parts) - {"growth"} else []
    _check(kinds, asked)
    figures, begun = _read(arguments.out, kinds), time()
    with tempfile.TemporaryDirectory(prefix="clickcurve-peers-") as folder:
        for part in arguments.parts:
            for step in _PARTS[part](Path(folder), arguments, figures):
                arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
                print(f"{time() - begun:4.0f} s  {step}", flush=True)
    print(f"figures: {arguments.out}; page and plots: python -m bench.peers render {arguments.out} docs/")


def _check(kinds: Sequence[type[Peer]], asked: argparse.ArgumentParser) -> None:
    if shutil.which("wrk") is None:
        asked.exit(1, "wrk is missing: install the Debian package of that name.\n")
    for kind in kinds:
        try:
            kind.check()
        except Missing as missing:
            asked.exit(1, f"{missing}\n")


def _read(out: Path, kinds: Sequence[type[Peer]]) -> dict[str, Any]:
    """The figures of earlier parts, or the beginning of new ones; versions of these are asked anew."""
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"peers": {}}
    for kind in kinds:
        found["peers"].get(kind.name, {}).pop("version", None)
    return found


def _rates(folder: Path, arguments: argparse.Namespace, figures: dict[str, Any]) -> Iterator[str]:
    kinds = [PEERS[name] for name in arguments.peers]
    begun = time()
    found = measure.rates(folder, kinds, _workload(arguments), arguments.rounds, arguments.seconds)
    for number, kind in enumerate(kinds):
        found[kind.name]["counted"] = measure.singles_counted(folder / f"counted-{number}", kind, _workload(arguments))
        _keep(figures, kind, folder / f"version-{number}", found[kind.name])
    figures["rates"] = _circumstances(arguments, begun)
    yield "rates of all, in turn"


def _stores(folder: Path, arguments: argparse.Namespace, figures: dict[str, Any]) -> Iterator[str]:
    begun = time()
    workload = _workload(arguments)
    feed: Feed = prepare(folder / "feed", workload)
    yield f"{workload.hits:,} hits of {workload.links:,} links, in files"
    for name in arguments.peers:
        place = folder / name
        found = measure.store(place, PEERS[name], feed, arguments.rounds, arguments.seconds)
        _keep(figures, PEERS[name], place, found)
        shutil.rmtree(place)
        figures["stores"] = _circumstances(arguments, begun)
        yield f"store of {name}"


def _growth(folder: Path, arguments: argparse.Namespace, figures: dict[str, Any]) -> Iterator[str]:
    begun = time()
    figures["sizes"] = []
    for links in arguments.growth:
        figures["sizes"].append(growth.measure(folder / f"growth-{links}", links, arguments.rounds, arguments.seconds))
        figures["growth"] = _circumstances(arguments, begun)
        yield f"growth, {links:,} links"


_PARTS: dict[str, Callable[[Path, argparse.Namespace, dict[str, Any]], Iterator[str]]] = {
    "rates": _rates,
    "stores": _stores,
    "growth": _growth,
}


def _keep(figures: dict[str, Any], kind: type[Peer], folder: Path, found: dict[str, Any]) -> None:
    """Adds what was found of a peer to what is known of it, with its version and its doors."""
    known = figures["peers"].setdefault(kind.name, {})
    if "version" not in known:
        with measure.running(kind(folder)) as peer:
            known["version"] = peer.version()
    doors = {name: getattr(kind, name) for name in ("writes", "reads", "synced", "sends")}
    known.update(doors | found)


def _workload(arguments: argparse.Namespace) -> Workload:
    return Workload(arguments.links, arguments.hits, DAYS, int(time()) // 3_600 * 3_600)


def _circumstances(arguments: argparse.Namespace, begun: float) -> dict[str, Any]:
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "day": datetime.fromtimestamp(begun, UTC).date().isoformat(),
        "took_s": round(time() - begun),
        "machine": f"{len(models) or 1} x {models[0].partition(':')[2].strip() if models else platform.machine()}",
        "python": platform.python_version(),
        "load": round(float(Path("/proc/loadavg").read_text().split()[0]), 1),
        "links": arguments.links,
        "hits": arguments.hits,
        "days": DAYS,
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
    }


def _render(arguments: list[str]) -> None:
    asked = argparse.ArgumentParser(prog="python -m bench.peers render")
    asked.add_argument("figures", type=Path)
    asked.add_argument("docs", type=Path)
    names = asked.parse_args(arguments)
    for path in render(json.loads(names.figures.read_text()), names.docs):
        print(path)


if __name__ == "__main__":
    main()
