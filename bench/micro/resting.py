"""What a server takes that nobody asks anything: memory, processor time, and the time until its first answer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter, sleep

from bench.command import Options
from bench.measure import Beside, Figures, Line
from bench.servers import processor_s
from testing.server import ROOT, RunningServer, plain_environment

AIM = "<= 60 MB, 0.5 % of a core"
# Each with all before it, in a process of its own.
STEPS = {
    "Python, uvloop, httptools, uvicorn": "uvloop, httptools, uvicorn",
    "FastAPI, pydantic": "fastapi",
    "other packages": "sqlite3, msgspec, click, zstandard, jinja2, prometheus_client, crawleruseragents, re2, "
    "crawlerdetect.providers.crawlers, "
    "apscheduler.schedulers.asyncio",
    "modules of `clickcurve serve`": "server.cli.main, server.cli.serve, server.app.serve",
}


def resting(options: Options) -> Iterator[Beside | Line]:
    """How much of a server's memory is there after some imports alone; then new servers on empty folders."""
    before, imported = 0.0, list[str]()
    for what, modules in STEPS.items():
        imported.append(modules)
        code = f"import {', '.join(imported)}; print(open('/proc/self/smaps_rollup').read())"
        environment = plain_environment()
        done = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=environment, text=True)
        now = _memory_mb(done.strip())["Rss"]
        yield Line(what, f"{now:.1f} MB", f"{now - before:+.1f} MB")
        before = now
    rest = partial(_rest, options.folder / "data", 5 * options.scale, before)
    yield Beside("resting server", {"": rest}, {"": AIM})


def _rest(data: Path, rest_s: float, imported_mb: float) -> Figures:
    """Starts a server and lets it rest."""
    server, begun = RunningServer(data), perf_counter()
    server.launch()
    try:
        server.wait_ready()
        start_s, start_processor_s = perf_counter() - begun, processor_s(server.pid)
        sleep(rest_s)
        percent = 100 * (processor_s(server.pid) - start_processor_s) / rest_s
        memory = _memory_mb(Path(f"/proc/{server.pid}/smaps_rollup").read_text())
        return {
            "{} MB": memory["Rss"],
            "{} MB of it routes, store, threads": memory["Rss"] - imported_mb,
            "{} MB with shared pages divided": memory["Pss"],
            "{} % of a core": percent,
            "first answer after {} s": start_s,
            "and {} s of processor time": start_processor_s,
        }
    finally:
        server.stop()
        shutil.rmtree(data)


def _memory_mb(smaps: str) -> dict[str, float]:
    return {line.partition(":")[0]: int(line.split()[1]) * 1_024 / 1e6 for line in smaps.splitlines()[1:]}
