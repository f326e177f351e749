"""The servers that are measured: Clickcurve as users run it, and the bare answer under the same options."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import httpx

from testing.programs import SYSTEM_FOLDERS
from testing.server import Process, RunningServer, command, free_port, plain_environment, spawn, wait_until

# What Clickcurve runs uvicorn with, as options of its command line.
UVICORN = (
    *("--loop", "uvloop", "--http", "httptools", "--ws", "none", "--lifespan", "off"),
    *("--no-access-log", "--log-level", "warning", "--no-server-header", "--no-proxy-headers"),
    *("--backlog", "2048", "--timeout-keep-alive", "75"),
)

# Those of the start: a process that is pinned already sees only its own, and would put a server on the load's.
CORES = sorted(os.sched_getaffinity(0))
LOAD, SERVED = 0, 1


@contextmanager
def on_core(number: int) -> Iterator[None]:
    """Runs what is started inside on the first core or the second; no-op on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CORES[number]} if len(CORES) > 1 else CORES)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def clickcurve(data: Path, settings: Mapping[str, str] | None = None, pinned: bool = False) -> Iterator[RunningServer]:
    """Runs Clickcurve with one worker; pinned = on the second core, the load on the first."""
    server = RunningServer(data, settings=settings)
    with on_core(LOAD) if pinned else nullcontext():
        with on_core(SERVED) if pinned else nullcontext():
            server.launch()
        try:
            server.wait_ready()
            yield server
        finally:
            if server.running:
                server.stop(timeout_s=120.0)


class Started:
    """A program as a process of its own, with its log: ready when `ready` says so, ended by its own process id."""

    def __init__(
        self, command: Sequence[str], log: Path, ready: Callable[[], bool], settings: Mapping[str, str] | None = None
    ) -> None:
        self._command, self._log, self._ready, self._settings = [*command], log, ready, settings
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self._command[0]} does not run")
        return self._process.pid

    def start(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        path = f"{os.environ.get('PATH', '')}:{SYSTEM_FOLDERS}"
        program, *words = self._command
        environment = plain_environment({"PATH": path, **(self._settings or {})})
        with self._log.open("ab") as log, Path(os.devnull).open("rb") as nothing:
            files = (nothing.fileno(), log.fileno(), log.fileno())
            started = [shutil.which(program, path=path) or program, *words]
            self._process = spawn(started, environment, self._log.parent, files)
        wait_until(self._ready, self._process, self._failed)

    def end(self, number: int = signal.SIGTERM) -> None:
        """Sends this signal and waits. Raises RuntimeError for a program that breaks down: its data may be gone."""
        if self._process is not None:
            os.kill(self._process.pid, number)
            status = self._process.wait(120)
            self._process = None
            if status not in (0, -number):
                raise self._failed(f"ended with {status}")

    def _failed(self, why: str) -> RuntimeError:
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)
        self._process = None
        return RuntimeError(f"{self._command[0]} {why}:\n{self._log.read_text(errors='replace')[-4_000:]}")


@contextmanager
def bare(body: str, media: str, log: Path) -> Iterator[tuple[str, int]]:
    """Runs the bare answer, pinned like Clickcurve; yields its address and process."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    start = command("bench.bare:app", "--port", str(port), *UVICORN, module="uvicorn")
    started = Started(start, log, lambda: answers(url), {"BARE_BODY": body, "BARE_TYPE": media})
    with on_core(LOAD):
        with on_core(SERVED):
            started.start()
        try:
            yield url, started.pid
        finally:
            started.end()


def answers(url: str) -> bool:
    """Says whether anybody answers at this address."""
    try:
        httpx.get(url, trust_env=False)
    except httpx.TransportError:
        return False
    return True


def processor_s(pid: int) -> float:
    """Returns the processor time of a process and its children, of the threads that they have now; exact."""
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    children = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    mine = sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    return mine + sum(map(processor_s, children))


def used_s(pid: int) -> float:
    """Returns the processor time that a process has used, ended threads included; in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pids: Sequence[int]) -> float:
    """Returns the resident memory of these processes."""
    pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return sum(pages) * 4_096 / 1e6


def on_disk(file: Path) -> int:
    """Returns the bytes of the blocks of a file: some are as long as they may become, with nothing in them."""
    return file.stat().st_blocks * 512
