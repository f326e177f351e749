"""Measures parts of the program in one process: `python -m bench.micro attributes parse --rounds 5`.

Processor time, medians, unless a unit says something else. `--scale 0.1` takes a tenth of every size.
"""

from __future__ import annotations

import gc

from bench.command import Part, run
from bench.micro import attributes, breakdown, corrections, fast_paths, growth, resting, rows

PARTS: dict[str, Part] = {
    "parse": attributes.parse,
    "attributes": attributes.attributes,
    "row_codec": rows.row_codec,
    "heavy_hitters": breakdown.heavy_hitters,
    "breakdown_file": breakdown.breakdown_file,
    "corrections": corrections.corrections,
    "ranking": growth.ranking,
    "growth": growth.growth,
    "resting": resting.resting,
    "fast_paths": fast_paths.fast_paths,
    "fast_paths_remote": fast_paths.fast_paths_remote,
}

if __name__ == "__main__":
    gc.set_threshold(20_000, 20, 100)  # as the server sets it
    run(__doc__, PARTS)
