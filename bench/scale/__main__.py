"""What a billion links and two million hits a second would take, and what one machine holds, from measured unit costs.

python -m bench.scale simulate bench/scale/figures.json
python -m bench.scale size bench/scale/figures.json
python -m bench.scale render bench/scale/figures.json docs/
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from time import time
from typing import Any

from bench.command import circumstances
from bench.scale import one_machine
from bench.scale.report import page
from bench.scale.share import Share
from bench.scale.sizing import sizing_page
from bench.scale.traffic import Traffic

CHECKED = (one_machine.LINKS, 100.0)  # links and hits a second that real servers get


def main(words: list[str] | None = None) -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = asked.add_subparsers(dest="verb", required=True)
    simulated = verbs.add_parser("simulate", help="measures the flushes of a share, into the sheet")
    simulated.add_argument("figures", type=Path)
    measured = verbs.add_parser("size", help="measures one machine, into the sheet")
    measured.add_argument("figures", type=Path)
    measured.add_argument("--links", type=int, nargs="+", default=(10_000, 100_000, 1_000_000))
    measured.add_argument("--hits", type=float, nargs="+", default=(10.0, 100.0, 1_000.0, 10_000.0), help="a second")
    measured.add_argument("--seconds", type=float, default=2.0, help="of each kind of hit")
    rendered = verbs.add_parser("render", help="makes the pages of the sheet")
    rendered.add_argument("figures", type=Path)
    rendered.add_argument("docs", type=Path)
    arguments = asked.parse_args(words)
    figures = json.loads(arguments.figures.read_text())
    if arguments.verb == "render":
        for name, made in (("scale", page(figures)), ("sizing", sizing_page(figures["sizing"]))):
            (arguments.docs / f"{name}.md").write_text(made)
        return
    if arguments.verb == "size":
        figures["sizing"] = _sizing(arguments.links, arguments.hits, arguments.seconds)
        arguments.figures.write_text(json.dumps(figures, indent=1) + "\n")
        return
    traffic = Traffic(figures["links"], figures["hits_per_s"], figures["skew"])
    share = Share.of(traffic, figures["part"])
    figures["row_bytes"] = traffic.row_bytes(int(time()))
    figures["shares"] = [
        {"flush_s": flush_s, **asdict(share.flushes(flush_s))}
        for flush_s in [each["flush_s"] for each in figures["shares"]]
    ]
    arguments.figures.write_text(json.dumps(figures, indent=1) + "\n")


def _sizing(links: Sequence[int], hits_per_s: Sequence[float], seconds: float) -> dict[str, Any]:
    cells, checked = [], []
    with tempfile.TemporaryDirectory(prefix="clickcurve-sizing-") as folder:
        place = Path(folder)
        of_hits = one_machine.of_hits(place, 3, seconds)
        for attributes in (False, True):
            data = place / f"server-{attributes}"
            cell = one_machine.measured(data, *CHECKED, attributes)
            checked.append({"cell": asdict(cell), **one_machine.of_server(data, cell, 2)})
        for number, (each, rate, attributes) in enumerate(product(links, hits_per_s, (False, True))):
            cells.append(one_machine.measured(place / str(number), each, rate, attributes))
            print(cells[-1], flush=True)
            shutil.rmtree(place / str(number))
    return {**circumstances(), "hits": of_hits, "cells": [asdict(cell) for cell in cells], "servers": checked}


if __name__ == "__main__":
    main()
