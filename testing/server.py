"""A real server process for tests: started on a free port, ready when /readyz says so, ended by its own process id."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace, TracebackType
from typing import Self, TypeAlias

import httpx

from testing.client import http_client
from testing.prefork import Forked, forks

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "clickcurve"
TRIES = 30_000  # ten minutes at least: what comes true at all comes within this on any machine
TRY_EVERY_S = 0.02
STOP_WITHIN_S = 300.0
Process: TypeAlias = Forked | subprocess.Popen[bytes]


def wait_until(
    happened: Callable[[], bool],
    process: Process,
    failed: Callable[[str], Exception],
    tries: int = TRIES,
    every_s: float = TRY_EVERY_S,
) -> None:
    """Wait for something; waiting for the process to end paces the tries and notices its death. Raises `failed`."""
    for _ in range(tries):
        if happened():
            return
        try:
            status = process.wait(every_s)
        except subprocess.TimeoutExpired:
            continue
        raise failed(f"ended with {status}")
    raise failed("was waited for in vain")


class ServerDied(AssertionError):
    """The process ended, or never became ready; the message holds its output."""


def free_port() -> int:
    """A TCP port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def plain_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without any of Clickcurve's own settings, with UTF-8, and with `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLICKCURVE_")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1", **(extra or {})}


def command(*arguments: str, module: str = PROGRAM) -> list[str]:
    """The command line that runs the program (or another module) from this source tree."""
    return [sys.executable, "-m", module, *arguments]


def spawn(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    files: tuple[int, int, int],
    new_session: bool = False,
) -> Process:
    """Start a command line; where it is the program's, and `fork_program` says so, as a fork that has imported it.

    files: standard input, output and errors.
    """
    program = command()
    if _starts.forks and list(words[: len(program)]) == program:
        process = forks(plain_environment())
        if process.alike(environment):
            return process.fork(words[len(program) :], environment, folder, files, new_session)
    stdin, stdout, stderr = files
    return subprocess.Popen(
        words, cwd=folder, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=new_session
    )


_starts = SimpleNamespace(forks=False)


def fork_program(wanted: bool) -> None:
    """Says whether processes of the program are forks from now on: a start takes a tenth of the processor time."""
    _starts.forks = wanted


def run(*arguments: str, timeout_s: float = 600.0, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run one command of the program to its end; `settings` are environment variables."""
    words = command(*arguments)
    with TemporaryFile() as stdout, TemporaryFile() as stderr, Path(os.devnull).open("rb") as stdin:
        files = (stdin.fileno(), stdout.fileno(), stderr.fileno())
        process = spawn(words, plain_environment(settings), Path.cwd(), files)
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            raise
        printed = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (stdout, stderr)]
    return subprocess.CompletedProcess(words, status, *printed)


class RunningServer:
    """`clickcurve serve` as a process group of its own. Use it with `with`, or call `start` and `stop`."""

    def __init__(
        self,
        data: Path,
        *flags: str,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        module: str = PROGRAM,
    ) -> None:
        self.data = data
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = data.parent / f"{data.name}-{self.port}.log"
        serve = ("serve", "--data", str(data), "--host", "127.0.0.1", "--port", str(self.port))
        self._command = command(*serve, *flags, module=module)
        self._settings = dict(settings or {})
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def ended(self) -> bool:
        """It was started, and has ended without having been told to from here."""
        return self._process is not None and self._process.poll() is not None

    def output(self) -> str:
        """All that it has printed since the first start."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def launch(self) -> None:
        """Start the process without waiting until it is ready."""
        assert self._process is None, "the server is already running"
        self.data.parent.mkdir(parents=True, exist_ok=True)
        self._process = self._spawn(self._command, plain_environment(self._settings))

    def _spawn(self, command: list[str], environment: Mapping[str, str]) -> Process:
        with self.log.open("ab") as log, Path(os.devnull).open("rb") as nothing:
            files = (nothing.fileno(), log.fileno(), log.fileno())
            return spawn(command, environment, self.data.parent, files, new_session=True)

    def wait_ready(self) -> None:
        """Wait until /readyz answers 200. Waiting for the process to end paces the tries and notices its death."""
        self.wait_until(self._ready)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Ask again and again until the condition holds. Raises ServerDied if the process ends or it takes for ever."""
        assert self._process is not None
        for _ in range(TRIES):
            try:
                status = self._process.wait(TRY_EVERY_S)
            except subprocess.TimeoutExpired:
                if condition():
                    return
            else:
                self._process = None
                raise ServerDied(f"the server ended with {status}:\n{self.output()[-4000:]}")
        self.kill()
        raise ServerDied(f"waited in vain for the server:\n{self.output()[-4000:]}")

    def _ready(self) -> bool:
        with suppress(OSError, httpx.TransportError):
            socket.create_connection(("127.0.0.1", self.port), timeout=5.0).close()  # cheaper than a client in vain
            with http_client(self.url, timeout_s=5.0) as http:
                return http.get("/readyz").status_code == 200
        return False

    def start(self) -> Self:
        self.launch()
        self.wait_ready()
        return self

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout_s: float = STOP_WITHIN_S) -> int:
        """Wait until the process has ended; its exit status."""
        assert self._process is not None
        status = self._process.wait(timeout_s)
        self._process = None
        return status

    def stop(self, timeout_s: float = STOP_WITHIN_S) -> int:
        """End it cleanly (SIGTERM) and return its exit status; one that does not end in time is killed: an error."""
        if self._process is None:
            return 0
        self.signal(signal.SIGTERM)
        try:
            return self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerDied(f"the server did not end within {timeout_s} s:\n{self.output()[-4000:]}") from None

    def kill(self) -> None:
        """kill -9 of the whole process group, the server and its workers; returns when all of them are gone."""
        if self._process is not None:
            ends = [end for pid in _group_of(self._process.pid) if (end := _end_of(pid)) is not None]
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            for end in ends:
                gone = select.poll()
                gone.register(end, select.POLLIN)
                gone.poll()
                os.close(end)

    def workers(self) -> list[int]:
        """The process ids of its direct children."""
        try:
            listed = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        except OSError:  # it is gone already
            return []
        return [int(pid) for pid in listed.split()]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.running and kind is None:
            self.stop()
        elif self.running:
            self.kill()


def _group_of(leader: int) -> list[int]:
    """The other processes of a process group; workers whose parent was killed alone are in it, and no children."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # pid (name) state parent group ...: a name may hold anything
            group = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[2]
            if int(group) == leader and int(process.name) != leader:
                found.append(int(process.name))
    return found


def _end_of(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None if it has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
