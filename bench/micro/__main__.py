"""Measures parts of the program in one process: `python -m bench.micro journal parse --rounds 5`.

Processor time, medians, unless a unit says something else. `--scale 0.1` takes a tenth of every size.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.measure import Line, Measure, measure, render
from bench.micro import attributes, breakdown, fast_paths, queries, reading, resting, rows, stores
from bench.options import Options, add_parts

PARTS: Mapping[str, Callable[[Options], Iterable[Measure | Line]]] = {
    "parse": reading.parse,
    "import_log": reading.import_log,
    "attributes": attributes.attributes,
    "row_codec": rows.row_codec,
    "breakdown": breakdown.breakdown,
    "breakdown_answers": breakdown.answers,
    "heavy_hitters": breakdown.heavy_hitters,
    "breakdown_file": stores.breakdown_file,
    "query_parts": queries.query_parts,
    "ranking": queries.ranking,
    "journal": stores.journal,
    "store": stores.store,
    "growth": stores.growth,
    "resting": resting.resting,
    "fast_paths": fast_paths.fast_paths,
    "fast_paths_remote": fast_paths.fast_paths_remote,
}


def main(words: Sequence[str] | None = None) -> None:
    asked = argparse.ArgumentParser(
        prog="python -m bench.micro", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_parts(asked, PARTS)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--scale", type=float, default=1.0, help="of the sizes of everything")
    asked.add_argument("--links", type=int, nargs="+", default=[], help="of ranking, growth and breakdown_file")
    asked.add_argument("--every", type=int, default=20, help="breakdown_file: each so many-th link by popularity")
    asked.add_argument("--shape", choices=tuple(queries.SHAPES), default="popular", help="ranking: the links' hits")
    asked.add_argument("--log", type=Path, help="attributes, import_log: an access log, in place of a made one")
    asked.add_argument("--folder", type=Path, help="where to put files (default: the system's temporary folder)")
    given = vars(asked.parse_args(words))
    parts = given.pop("parts") or PARTS
    thresholds = gc.get_threshold()
    gc.set_threshold(20_000, 20, 100)  # as the server has it
    try:
        for part in parts:
            with ExitStack() as closing:
                folder = closing.enter_context(tempfile.TemporaryDirectory(dir=given["folder"], prefix=".bench-"))
                options = Options(**(given | {"folder": Path(folder)}), closing=closing)
                print(f"{part}\n{render(list(measure(PARTS[part](options), options.rounds)))}\n", flush=True)
    finally:
        gc.set_threshold(*thresholds)


if __name__ == "__main__":
    main()
