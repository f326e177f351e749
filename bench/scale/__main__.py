"""What a billion links and two million hits a second would take, and what one machine holds, from measured unit costs.

python -m bench.scale simulate bench/scale/figures.json
python -m bench.scale size bench/scale/figures.json
python -m bench.scale render bench/scale/figures.json docs/
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from bench.scale.cluster import page, simulate
from bench.scale.one_machine import size
from bench.scale.sizing import sizing_page


def main(words: Sequence[str] | None = None) -> None:
    asked = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    asked.add_argument("verb", choices=("simulate", "size", "render"))
    asked.add_argument("figures", type=Path, help="the sheet; simulate and size write into it")
    asked.add_argument("docs", type=Path, nargs="?", default=Path("docs"), help="where render puts pages")
    asked.add_argument("--links", type=int, nargs="+", default=(10_000, 100_000, 1_000_000), help="of size")
    asked.add_argument("--hits", type=float, nargs="+", default=(10.0, 100.0, 1_000.0, 10_000.0), help="a second")
    asked.add_argument("--seconds", type=float, default=2.0, help="of each kind of hit")
    given = asked.parse_args(words)
    figures = json.loads(given.figures.read_text())
    if given.verb == "render":
        (given.docs / "scale.md").write_text(page(figures))
        (given.docs / "sizing.md").write_text(sizing_page(figures["sizing"]))
        return
    figures |= (
        simulate(figures) if given.verb == "simulate" else {"sizing": size(given.links, given.hits, given.seconds)}
    )
    given.figures.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
