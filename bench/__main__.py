"""`make bench`: all measurements, one table at the end. `make bench ARGS="ingest --rounds 3"` for a part."""

from __future__ import annotations

import argparse
import hashlib
import platform
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import time

from bench import breakdowns, ingest, page, reads, rows, servers, workers
from bench.cassandra import parts as cassandra
from bench.limiter import parts as limiter
from bench.measure import Line, render
from bench.options import add_parts
from bench.workload import Workload
from testing.server import ROOT

PARTS = ("rows", "ingest", "workers", "page", "reads", "breakdowns", "limiter", "cassandra")
# A loaded store is kept for later runs as long as the code that writes it and the hour stay the same.
WRITERS = ("clickcurve/buckets", "ingest", "storage", "bench/workload.py")


def main(words: Sequence[str] | None = None) -> None:
    asked = argparse.ArgumentParser(prog="make bench", description=__doc__)
    add_parts(asked, PARTS)
    asked.add_argument("--only", choices=PARTS, action="append", default=[], help="the same, as a flag")
    asked.add_argument("--rounds", type=int, default=5, help="rounds of each measurement; the table has medians")
    asked.add_argument("--seconds", type=int, default=2, help="seconds of each round")
    asked.add_argument("--links", type=int, default=100_000)
    asked.add_argument("--hits", type=int, default=10_000_000)
    arguments = asked.parse_args(words)
    if shutil.which("wrk") is None:
        asked.exit(1, "wrk is missing: install the package of that name.\n")
    begun = time()
    workload = Workload(arguments.links, arguments.hits, 400, int(begun) // 3_600 * 3_600)
    parts: dict[str, Callable[[Path], list[Line]]] = {
        "rows": lambda _: rows.bytes_per_row(),
        "ingest": lambda folder: _ingest(folder, workload, arguments.rounds, arguments.seconds),
        "workers": lambda folder: workers.measure(folder, workload, arguments.rounds, arguments.seconds),
        "page": lambda folder: _page(folder, workload, arguments.rounds),
        "reads": lambda folder: _reads(folder, workload, arguments.rounds, arguments.seconds),
        "breakdowns": lambda folder: breakdowns.measure(folder, workload, min(arguments.rounds, 3)),
        "limiter": lambda _: limiter.measure(arguments.rounds, arguments.seconds / 20),
        "cassandra": lambda folder: cassandra.measure(folder, arguments.rounds, arguments.seconds),
    }
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="clickcurve-bench-") as folder:
        for part in [*arguments.parts, *arguments.only] or PARTS:
            print(f"measuring {part} ...", flush=True)
            lines += parts[part](Path(folder))
    print(f"\n{_machine()}, {time() - begun:.0f} s, rounds of {arguments.seconds} s, medians of {arguments.rounds}\n")
    print(render(lines))


def _ingest(folder: Path, workload: Workload, rounds: int, seconds: int) -> list[Line]:
    lines, bare_per_s = ingest.singles(folder, workload, rounds, seconds)
    return lines + ingest.batches(folder, workload, min(rounds, 3), seconds, bare_per_s)


def _page(folder: Path, workload: Workload, rounds: int) -> list[Line]:
    _load(folder / "page", workload)
    with servers.clickcurve(folder / "page") as server:
        return page.pages(server, workload, min(rounds, 3))


def _load(data: Path, workload: Workload) -> list[Line]:
    """Copies the loaded store into a folder, and loads it first if no earlier run did."""
    cached = Path(tempfile.gettempdir()) / f"clickcurve-workload-{_fingerprint(workload)}"
    lines = reads.load(cached, workload)
    shutil.copytree(cached, data)
    return lines


def _reads(folder: Path, workload: Workload, rounds: int, seconds: int) -> list[Line]:
    lines = _load(folder / "reads", workload)
    with servers.clickcurve(folder / "reads") as server:
        lines += reads.quiet(folder, server, workload, min(rounds, 3), seconds)
        lines += reads.during_flush(server, workload, min(rounds, 3))
    return lines


def _fingerprint(workload: Workload) -> str:
    digest = hashlib.sha256(repr(workload).encode())
    for name in WRITERS:
        place = ROOT / name
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _machine() -> str:
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = models[0].partition(":")[2].strip() if models else platform.machine()
    return f"{len(models) or 1} x {model}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
