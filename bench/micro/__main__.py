"""Measures parts of the program in one process: `python -m bench.micro attributes parse --rounds 5`.

Processor time, medians, unless a unit says something else. `--scale 0.1` takes a tenth of every size.
"""

from __future__ import annotations

from bench.command import Part, as_server, run
from bench.micro import attributes, breakdown, corrections, fast_paths, growth, ranking, reading, resting, rows, year

PARTS: dict[str, Part] = {
    "parse": as_server(reading.parse),
    "attributes": as_server(attributes.attributes),
    "row_codec": as_server(rows.row_codec),
    "breakdown": as_server(breakdown.breakdown),
    "heavy_hitters": as_server(breakdown.heavy_hitters),
    "breakdown_file": as_server(year.breakdown_file),
    "corrections": as_server(corrections.corrections),
    "ranking": as_server(ranking.ranking),
    "growth": as_server(growth.growth),
    "resting": resting.resting,
    "fast_paths": as_server(fast_paths.fast_paths),
    "fast_paths_remote": as_server(fast_paths.fast_paths_remote),
}

if __name__ == "__main__":
    run(__doc__, PARTS)
