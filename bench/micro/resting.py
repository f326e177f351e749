"""What a server takes that nobody asks anything: memory, processor time, and the time until its first answer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

from bench.command import Options
from bench.measure import Line, in_turn
from bench.servers import processor_s
from testing.server import ROOT, RunningServer, plain_environment

AIM_MB, AIM_PERCENT = 60, 0.5
# Each with all before it, in a process of its own.
STEPS = {
    "Python, uvloop, httptools, uvicorn": "uvloop, httptools, uvicorn",
    "FastAPI, pydantic": "fastapi",
    "other packages": "sqlite3, msgspec, click, zstandard, jinja2, prometheus_client, crawleruseragents, "
    "apscheduler.schedulers.asyncio",
    "modules of `clickcurve serve`": "server.cli.main, server.cli.serve, server.app.serve",
}


def resting(options: Options) -> Iterator[Line]:
    """New servers on empty folders; below, how much of their memory is there after some imports alone."""
    data = options.folder / "data"
    (rests,) = in_turn(options.rounds, partial(_rest, data, 5 * options.scale))
    rss_mb, pss_mb, percent, start_s, start_processor_s = (median(each) for each in zip(*rests, strict=True))
    shared = f"{pss_mb:.1f} MB with shared pages divided"
    yield Line("resting server, memory", f"{rss_mb:.1f} MB", shared, f"<= {AIM_MB} MB")
    yield Line("resting server, processor", f"{percent:.2f} % of a core", "", f"<= {AIM_PERCENT} %")
    start = f"{start_processor_s:.2f} s of processor time"
    yield Line("start until the first answer", f"{start_s:.2f} s", start)
    before, imported = 0.0, list[str]()
    for what, modules in STEPS.items():
        imported.append(modules)
        code = f"import {', '.join(imported)}; print(open('/proc/self/smaps_rollup').read())"
        environment = plain_environment()
        done = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=environment, text=True)
        now = _memory_mb(done.strip())["Rss"]
        yield Line(f"... {what}", f"{now:.1f} MB", f"{now - before:+.1f} MB")
        before = now
    yield Line("... its routes, store, threads", f"{rss_mb:.1f} MB", f"{rss_mb - before:+.1f} MB")


def _rest(data: Path, rest_s: float) -> tuple[float, ...]:
    """Starts a server and lets it rest.

    Returns megabytes, all pages and these with shared ones divided; percent of a core while it rested; seconds from the
    command to its first answer, by the wall and of the processor.
    """
    server, begun = RunningServer(data), perf_counter()
    server.launch()
    try:
        server.wait_ready()
        start_s, start_processor_s = perf_counter() - begun, processor_s(server.pid)
        sleep(rest_s)
        percent = 100 * (processor_s(server.pid) - start_processor_s) / rest_s
        memory = _memory_mb(Path(f"/proc/{server.pid}/smaps_rollup").read_text())
        return memory["Rss"], memory["Pss"], percent, start_s, start_processor_s
    finally:
        server.stop()
        shutil.rmtree(data)


def _memory_mb(smaps: str) -> dict[str, float]:
    return {line.partition(":")[0]: int(line.split()[1]) * 1_024 / 1e6 for line in smaps.splitlines()[1:]}
