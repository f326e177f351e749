"""What a server takes that nobody asks anything: memory, processor time, and the time until its first answer.

    python -m bench.micro.resting --rounds 5 --rest-s 5

Each round is a new server on an empty folder. Below it stands how much of that is there after some imports alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import NamedTuple

from bench.servers import processor_s
from bench.table import Line, render
from testing.server import ROOT, RunningServer, plain_environment

AIM_MB, AIM_PERCENT = 60, 0.5
# Each with all before it, in a process of its own.
STEPS = (
    ("Python itself", ""),
    ("uvloop, httptools", "uvloop, httptools"),
    ("uvicorn", "uvicorn"),
    ("FastAPI, pydantic", "fastapi"),
    ("SQLite, msgspec, click, zstandard", "sqlite3, msgspec, click, zstandard"),
    ("jinja2, prometheus_client, apscheduler", "jinja2, prometheus_client, apscheduler.schedulers.asyncio"),
    ("patterns of bots", "crawleruseragents"),
    ("modules of `clickcurve serve`", "server.cli.main, server.cli.serve, server.app.serve"),
)


class Memory(NamedTuple):
    """Megabytes of a process: all its pages, and these with shared ones divided among those that share them."""

    rss: float
    pss: float


class Rested(NamedTuple):
    """One start, and the rest after it."""

    memory: Memory
    percent: float  # of a core, while it rested
    start_s: float  # from the command to its first answer
    start_processor_s: float


def memory_of(pid: int) -> Memory:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {line.partition(":")[0]: int(line.split()[1]) for line in lines}
    return Memory(kib["Rss"] * 1_024 / 1e6, kib["Pss"] * 1_024 / 1e6)


def rested(data: Path, rest_s: float) -> Rested:
    server, begun = RunningServer(data), perf_counter()
    server.launch()
    try:
        server.wait_ready()
        start_s, start_processor_s = perf_counter() - begun, processor_s(server.pid)
        sleep(rest_s)
        percent = 100 * (processor_s(server.pid) - start_processor_s) / rest_s
        return Rested(memory_of(server.pid), percent, start_s, start_processor_s)
    finally:
        server.stop()


def after_import(modules: str) -> float:
    """Returns what a process takes that has imported these and nothing else of ours."""
    told = f"{f'import {modules}; ' if modules else ''}print(open('/proc/self/smaps_rollup').read())"
    command = [sys.executable, "-c", told]
    said = subprocess.run(command, cwd=ROOT, env=plain_environment(), capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[1]) for line in said.splitlines() if line.startswith("Rss:")) * 1_024 / 1e6


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--rest-s", type=float, default=5)
    arguments = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="clickcurve-bench-") as folder:
        found = [rested(Path(folder) / str(number), arguments.rest_s) for number in range(arguments.rounds)]
    rss, pss = median(each.memory.rss for each in found), median(each.memory.pss for each in found)
    percent = median(each.percent for each in found)
    start_s, start_processor_s = (
        median(each.start_s for each in found),
        median(each.start_processor_s for each in found),
    )
    lines = [
        Line("resting server, memory", f"{rss:.1f} MB", f"{pss:.1f} MB with shared pages divided", f"<= {AIM_MB} MB"),
        Line("resting server, processor", f"{percent:.2f} % of a core", "", f"<= {AIM_PERCENT} %"),
        Line("start until the first answer", f"{start_s:.2f} s", f"{start_processor_s:.2f} s of processor time"),
    ]
    before, imported = 0.0, ""
    for what, modules in STEPS:
        imported = ", ".join(filter(None, (imported, modules)))
        now = after_import(imported)
        lines.append(Line(f"... {what}", f"{now:.1f} MB", f"{now - before:+.1f} MB"))
        before = now
    print(render([*lines, Line("... its routes, store, threads", f"{rss:.1f} MB", f"{rss - before:+.1f} MB")]))


if __name__ == "__main__":
    main()
