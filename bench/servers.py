"""The servers that are measured: Clickcurve as users run it, and the bare answer under the same options."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from testing.server import ROOT, RunningServer, free_port, plain_environment

# What Clickcurve runs uvicorn with, as options of its command line.
UVICORN = (
    *("--loop", "uvloop", "--http", "httptools", "--ws", "none", "--lifespan", "off"),
    *("--no-access-log", "--log-level", "warning", "--no-server-header", "--no-proxy-headers"),
    *("--backlog", "2048", "--timeout-keep-alive", "75"),
)

# Those of the start: a process that is pinned already sees only its own, and would put a server on the load's.
CORES = sorted(os.sched_getaffinity(0))


@contextmanager
def cores(mine: int, theirs: int) -> Iterator[None]:
    """Processes started inside run on core `theirs`, this one and what it starts later on `mine`; no-op on one core."""
    if len(CORES) < 2:
        yield
        return
    os.sched_setaffinity(0, {CORES[theirs]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, {CORES[mine]})


@contextmanager
def any_core() -> Iterator[None]:
    """Undoes `cores` at the end."""
    before = os.sched_getaffinity(0)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def clickcurve(data: Path, settings: Mapping[str, str] | None = None, pinned: bool = False) -> Iterator[RunningServer]:
    """Clickcurve with one worker; pinned = on the second core, the load on the first."""
    server = RunningServer(data, settings=settings)
    with any_core():
        if pinned:
            with cores(0, 1):
                server.launch()
        else:
            server.launch()
        try:
            server.wait_ready()
            yield server
        finally:
            if server.running:
                server.stop(timeout_s=120.0)


class Bare(NamedTuple):
    """The process of the bare answer."""

    url: str
    pid: int


def processor_s(pid: int) -> float:
    """Processor time that a process and its children have taken so far, of the threads that they have now; exact."""
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    children = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    mine = sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    return mine + sum(map(processor_s, children))


def used_s(pid: int) -> float:
    """Processor time that a process has used, threads that have ended included; in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def bare(body: str, media: str) -> Iterator[Bare]:
    """The bare answer, pinned like Clickcurve."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "bench.bare:app", "--port", str(port), *UVICORN]
    environment = plain_environment({"BARE_BODY": body, "BARE_TYPE": media})
    with any_core():
        with cores(0, 1):
            process = subprocess.Popen(command, cwd=ROOT, env=environment)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url)
            yield Bare(url, process.pid)
        finally:
            process.terminate()
            process.wait(20)


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    for _ in range(500):
        try:
            httpx.get(url, trust_env=False)
        except httpx.TransportError:
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError("the bare server ended") from None
        return
    raise RuntimeError("the bare server never answered")
