"""Measure the limiter next to three libraries: `make bench ARGS=limiter`, or parts by their own names:

python -m bench.limiter memory redis memcached bytes --rounds 9 --seconds 0.1
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from bench.limiter.parts import PARTS, measure
from bench.measure import render
from bench.options import add_parts


def main(words: Sequence[str] | None = None) -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_parts(asked, PARTS)
    asked.add_argument("--rounds", type=int, default=9, help="rounds of each measurement; the table has medians")
    asked.add_argument("--seconds", type=float, default=0.1, help="seconds of each turn in a round")
    arguments = asked.parse_args(words)
    print(render(measure(arguments.rounds, arguments.seconds, arguments.parts or tuple(PARTS))))


if __name__ == "__main__":
    main()
