"""What a server takes that nobody asks anything: memory, processor time, and the time until its first answer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import NamedTuple

from bench.command import Options
from bench.measure import Line
from bench.servers import processor_s
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


class _Rest(NamedTuple):
    """One start, and the rest after it. Megabytes: all pages, and these with shared ones divided."""

    rss_mb: float
    pss_mb: float
    percent: float  # of a core, while it rested
    start_s: float  # from the command to its first answer
    start_processor_s: float


def resting(options: Options) -> Iterator[Line]:
    """New servers on empty folders; below, how much of their memory is there after some imports alone."""
    rests = [_rest(options.folder / str(number), 5 * options.scale) for number in range(options.rounds)]
    rest = _Rest(*(median(each) for each in zip(*rests, strict=True)))
    shared = f"{rest.pss_mb:.1f} MB with shared pages divided"
    yield Line("resting server, memory", f"{rest.rss_mb:.1f} MB", shared, f"<= {AIM_MB} MB")
    yield Line("resting server, processor", f"{rest.percent:.2f} % of a core", "", f"<= {AIM_PERCENT} %")
    start = f"{rest.start_processor_s:.2f} s of processor time"
    yield Line("start until the first answer", f"{rest.start_s:.2f} s", start)
    before, imported = 0.0, ""
    for what, modules in STEPS:
        imported = ", ".join(filter(None, (imported, modules)))
        now = _after_import(imported)
        yield Line(f"... {what}", f"{now:.1f} MB", f"{now - before:+.1f} MB")
        before = now
    yield Line("... its routes, store, threads", f"{rest.rss_mb:.1f} MB", f"{rest.rss_mb - before:+.1f} MB")


def _rest(data: Path, rest_s: float) -> _Rest:
    server, begun = RunningServer(data), perf_counter()
    server.launch()
    try:
        server.wait_ready()
        start_s, start_processor_s = perf_counter() - begun, processor_s(server.pid)
        sleep(rest_s)
        percent = 100 * (processor_s(server.pid) - start_processor_s) / rest_s
        memory = _memory_mb(Path(f"/proc/{server.pid}/smaps_rollup").read_text())
        return _Rest(memory["Rss"], memory["Pss"], percent, start_s, start_processor_s)
    finally:
        server.stop()


def _memory_mb(smaps: str) -> dict[str, float]:
    return {line.partition(":")[0]: int(line.split()[1]) * 1_024 / 1e6 for line in smaps.splitlines()[1:]}


def _after_import(modules: str) -> float:
    """Returns what a process takes that has imported these and nothing else of ours."""
    code = f"{f'import {modules}; ' if modules else ''}print(open('/proc/self/smaps_rollup').read())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=plain_environment(), capture_output=True, text=True, check=True)
    return _memory_mb(done.stdout.strip())["Rss"]
