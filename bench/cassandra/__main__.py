"""Measure the Cassandra store: `make bench ARGS=cassandra`, or a part by its own name:

python -m bench.cassandra flush hot_link --rounds 3
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.cassandra.parts import PARTS, measure
from bench.measure import render
from bench.options import add_parts


def main(words: Sequence[str] | None = None) -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_parts(asked, PARTS)
    asked.add_argument("--rounds", type=int, default=3, help="rounds of each measurement, 3 at most")
    asked.add_argument("--seconds", type=int, default=2, help="seconds of each round of reads")
    arguments = asked.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="clickcurve-bench-") as folder:
        print(render(measure(Path(folder), arguments.rounds, arguments.seconds, arguments.parts or PARTS)))


if __name__ == "__main__":
    main()
