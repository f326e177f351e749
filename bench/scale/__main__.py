"""What a billion links and two million hits a second would take, from the sheet of unit costs.

python -m bench.scale simulate bench/scale/figures.json
python -m bench.scale render bench/scale/figures.json docs/
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from time import time

from bench.scale.report import page
from bench.scale.share import Share
from bench.scale.traffic import Traffic


def main(words: list[str] | None = None) -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = asked.add_subparsers(dest="verb", required=True)
    simulated = verbs.add_parser("simulate", help="measures the flushes of a share, into the sheet")
    simulated.add_argument("figures", type=Path)
    rendered = verbs.add_parser("render", help="makes the page of the sheet")
    rendered.add_argument("figures", type=Path)
    rendered.add_argument("docs", type=Path)
    arguments = asked.parse_args(words)
    figures = json.loads(arguments.figures.read_text())
    if arguments.verb == "render":
        (arguments.docs / "scale.md").write_text(page(figures))
        return
    traffic = Traffic(figures["links"], figures["hits_per_s"], figures["skew"])
    share = Share.of(traffic, figures["part"])
    figures["row_bytes"] = traffic.row_bytes(int(time()))
    figures["shares"] = [
        {"flush_s": flush_s, **asdict(share.flushes(flush_s))}
        for flush_s in [each["flush_s"] for each in figures["shares"]]
    ]
    arguments.figures.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
