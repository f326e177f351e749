"""What a billion links and two million hits a second would take, from unit costs.

python -m bench.scale measure FIGURES.json
python -m bench.scale render FIGURES.json docs/
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any

from bench.cassandra.node import make_keyspace, one_node
from bench.scale import costs
from bench.scale.report import page
from bench.scale.share import Share
from bench.scale.traffic import Traffic

LINKS, HITS_PER_S, SKEW = 1_000_000_000, 2_000_000.0, 1.0
PART = 5_000
INTERVALS_S = (15, 60, 300)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = asked.add_subparsers(dest="verb", required=True)
    measured = verbs.add_parser("measure")
    measured.add_argument("figures", type=Path)
    measured.add_argument("--rounds", type=int, default=3)
    measured.add_argument("--seconds", type=int, default=2)
    measured.add_argument("--part", type=int, default=PART, help="of the traffic, that the simulation has one of")
    rendered = verbs.add_parser("render")
    rendered.add_argument("figures", type=Path)
    rendered.add_argument("docs", type=Path)
    arguments = asked.parse_args()
    if arguments.verb == "render":
        (arguments.docs / "scale.md").write_text(page(json.loads(arguments.figures.read_text())))
    else:
        figures = _measured(arguments.rounds, arguments.seconds, arguments.part)
        arguments.figures.write_text(json.dumps(figures, indent=1) + "\n")


def _measured(rounds: int, seconds: int, part: int) -> dict[str, Any]:
    traffic = Traffic(LINKS, HITS_PER_S, SKEW)
    figures: dict[str, Any] = {"links": LINKS, "hits_per_s": HITS_PER_S, "skew": SKEW, "part": part}
    with tempfile.TemporaryDirectory(prefix="clickcurve-scale-") as folder:
        place = Path(folder)
        _say("the server")
        figures["server"] = costs.of_server(place, rounds, seconds)
        figures["fold"] = costs.of_fold(rounds)
        _say("rows on a Cassandra node")
        with one_node(place / "node") as node:
            figures["cassandra"] = costs.of_cassandra(node, make_keyspace(node, costs.KEYSPACE), place, rounds)
    figures["row_bytes"] = traffic.row_bytes(int(time()))
    figures["shares"] = []
    share = Share.of(traffic, part)
    for flush_s in INTERVALS_S:
        _say(f"a share with a flush every {flush_s} s")
        figures["shares"].append({"flush_s": flush_s, **asdict(share.flushes(flush_s))})
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return figures | {
        "day": datetime.now(UTC).date().isoformat(),
        "machine": f"{len(models) or 1} x {models[0].partition(':')[2].strip() if models else platform.machine()}",
        "python": platform.python_version(),
        "load": round(float(Path("/proc/loadavg").read_text().split()[0]), 1),
    }


def _say(what: str) -> None:
    print(f"measuring {what} ...", flush=True)


if __name__ == "__main__":
    main()
